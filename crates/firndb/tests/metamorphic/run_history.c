/* Runs a history (see script.rs) on RocksDB: run_history <directory> <script> <options>.
 * Empty options mean those of the directory's OPTIONS file. Answers go to stdout; the first failure ends the program. */

#include <rocksdb/c.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FAMILIES = 64, MAX_SNAPSHOTS = 100000, MAX_WORDS = 8 };

static const char* directory;
static const char* option_text;
static long line_number;

static rocksdb_t* db;
static rocksdb_options_t* options;
static size_t family_count;
static char* names[MAX_FAMILIES];
static rocksdb_column_family_handle_t* handles[MAX_FAMILIES];
static const rocksdb_snapshot_t* snapshots[MAX_SNAPSHOTS];

static void fail(const char* what, const char* why) {
  fprintf(stderr, "line %ld: %s: %s\n", line_number, what, why);
  exit(1);
}

static void check(const char* what, char* error) {
  if (error != NULL) fail(what, error);
}

static char* copy_of(const char* text) {
  char* copy = malloc(strlen(text) + 1);
  if (copy == NULL) fail("memory", "none left");
  return strcpy(copy, text);
}

struct bytes {
  char* data;
  size_t size;
};

static struct bytes unhex(const char* text) {
  struct bytes bytes = {malloc(strlen(text) / 2 + 1), 0};
  if (bytes.data == NULL) fail("memory", "none left");
  if (strcmp(text, "-") == 0) return bytes;
  for (; text[0] != 0 && text[1] != 0; text += 2) {
    unsigned value;
    if (sscanf(text, "%2x", &value) != 1) fail("hex", text);
    bytes.data[bytes.size++] = (char)value;
  }
  return bytes;
}

static void print_hex(const char* data, size_t size) {
  if (size == 0) putchar('-');
  for (size_t i = 0; i < size; i++) printf("%02x", (unsigned char)data[i]);
}

static size_t find_family(const char* name) {
  for (size_t i = 0; i < family_count; i++) {
    if (strcmp(names[i], name) == 0) return i;
  }
  fail("no family", name);
  return 0;
}

static void open_stated(void) {
  rocksdb_options_t** family_options;
  char** stated;
  char* error = NULL;
  rocksdb_env_t* env = rocksdb_create_default_env();
  rocksdb_cache_t* cache = rocksdb_cache_create_lru(8 << 20);
  rocksdb_load_latest_options(directory, env, true, cache, &options, &family_count, &stated, &family_options, &error);
  check("options", error);
  for (size_t i = 0; i < family_count; i++) names[i] = copy_of(stated[i]);
  db = rocksdb_open_column_families(options, directory, (int)family_count, (const char* const*)names,
                                    (const rocksdb_options_t* const*)family_options, handles, &error);
  check("open", error);
}

static void open_with_text(void) {
  char* error = NULL;
  rocksdb_options_t* base = rocksdb_options_create();
  options = rocksdb_options_create();
  rocksdb_get_options_from_string(base, option_text, options, &error);
  check("options", error);
  rocksdb_options_destroy(base);
  rocksdb_options_set_create_if_missing(options, 1);
  char** listed = rocksdb_list_column_families(options, directory, &family_count, &error);
  if (error != NULL) {
    free(error);
    error = NULL;
    family_count = 1;
    names[0] = copy_of("default");
  } else {
    for (size_t i = 0; i < family_count; i++) names[i] = copy_of(listed[i]);
    rocksdb_list_column_families_destroy(listed, family_count);
  }
  const rocksdb_options_t* family_options[MAX_FAMILIES];
  for (size_t i = 0; i < family_count; i++) family_options[i] = options;
  db = rocksdb_open_column_families(options, directory, (int)family_count, (const char* const*)names, family_options,
                                    handles, &error);
  check("open", error);
}

static void open_database(void) {
  if (option_text[0] == 0) {
    open_stated();
  } else {
    open_with_text();
  }
}

static void close_database(void) {
  for (size_t i = 0; i < family_count; i++) {
    rocksdb_column_family_handle_destroy(handles[i]);
    free(names[i]);
  }
  family_count = 0;
  for (size_t i = 0; i < MAX_SNAPSHOTS; i++) {
    if (snapshots[i] != NULL) rocksdb_release_snapshot(db, snapshots[i]);
    snapshots[i] = NULL;
  }
  rocksdb_close(db);
}

static rocksdb_readoptions_t* read_options(const char* snapshot) {
  rocksdb_readoptions_t* reading = rocksdb_readoptions_create();
  rocksdb_readoptions_set_total_order_seek(reading, 1);
  if (strcmp(snapshot, "-") != 0) rocksdb_readoptions_set_snapshot(reading, snapshots[atol(snapshot)]);
  return reading;
}

static void get(char** words) {
  char* error = NULL;
  size_t size;
  rocksdb_readoptions_t* reading = read_options(words[2]);
  struct bytes key = unhex(words[3]);
  char* value = rocksdb_get_cf(db, reading, handles[find_family(words[1])], key.data, key.size, &size, &error);
  check("get", error);
  if (value == NULL) {
    printf("none");
  } else {
    print_hex(value, size);
  }
  putchar('\n');
  free(value);
  free(key.data);
  rocksdb_readoptions_destroy(reading);
}

static void walk(char** words) {
  char* error = NULL;
  rocksdb_readoptions_t* reading = read_options(words[2]);
  struct bytes low = unhex(words[3]), high = unhex(words[4]);
  if (strcmp(words[3], "-") != 0) rocksdb_readoptions_set_iterate_lower_bound(reading, low.data, low.size);
  if (strcmp(words[4], "-") != 0) rocksdb_readoptions_set_iterate_upper_bound(reading, high.data, high.size);
  rocksdb_iterator_t* iterator = rocksdb_create_iterator_cf(db, reading, handles[find_family(words[1])]);
  bool forwards = words[5][0] == 'f';
  if (forwards) {
    rocksdb_iter_seek_to_first(iterator);
  } else {
    rocksdb_iter_seek_to_last(iterator);
  }
  for (long left = atol(words[6]); left > 0 && rocksdb_iter_valid(iterator); left--) {
    size_t key_size, value_size;
    const char* key = rocksdb_iter_key(iterator, &key_size);
    const char* value = rocksdb_iter_value(iterator, &value_size);
    print_hex(key, key_size);
    putchar('=');
    print_hex(value, value_size);
    putchar(' ');
    if (forwards) {
      rocksdb_iter_next(iterator);
    } else {
      rocksdb_iter_prev(iterator);
    }
  }
  putchar('\n');
  rocksdb_iter_get_error(iterator, &error);
  check("iterator", error);
  rocksdb_iter_destroy(iterator);
  rocksdb_readoptions_destroy(reading);
  free(low.data);
  free(high.data);
}

static void add_to_batch(rocksdb_writebatch_t* batch, char** words, int count) {
  rocksdb_column_family_handle_t* family = handles[find_family(words[1])];
  struct bytes key = unhex(words[2]);
  struct bytes value = unhex(count > 3 ? words[3] : "-");
  switch (words[0][0]) {
    case 'p':
      rocksdb_writebatch_put_cf(batch, family, key.data, key.size, value.data, value.size);
      break;
    case 'm':
      rocksdb_writebatch_merge_cf(batch, family, key.data, key.size, value.data, value.size);
      break;
    case 'd':
      rocksdb_writebatch_delete_cf(batch, family, key.data, key.size);
      break;
    case 's':
      rocksdb_writebatch_singledelete_cf(batch, family, key.data, key.size);
      break;
    default:
      rocksdb_writebatch_delete_range_cf(batch, family, key.data, key.size, value.data, value.size);
  }
  free(key.data);
  free(value.data);
}

static void compact(char** words) {
  struct bytes low = unhex(words[2]), high = unhex(words[3]);
  bool all = strcmp(words[2], "-") == 0;
  rocksdb_compact_range_cf(db, handles[find_family(words[1])], all ? NULL : low.data, low.size, all ? NULL : high.data,
                           high.size);
  free(low.data);
  free(high.data);
}

static void create_family(const char* name) {
  char* error = NULL;
  if (family_count == MAX_FAMILIES) fail("create", "too many families");
  handles[family_count] = rocksdb_create_column_family(db, options, name, &error);
  check("create", error);
  names[family_count++] = copy_of(name);
}

static void drop_family(const char* name) {
  char* error = NULL;
  size_t at = find_family(name);
  rocksdb_drop_column_family(db, handles[at], &error);
  check("drop", error);
  rocksdb_column_family_handle_destroy(handles[at]);
  free(names[at]);
  family_count--;
  names[at] = names[family_count];
  handles[at] = handles[family_count];
}

int main(int argc, char** argv) {
  if (argc != 4) fail("usage", "run_history <directory> <script> <options>");
  directory = argv[1];
  option_text = argv[3];
  FILE* script = fopen(argv[2], "r");
  if (script == NULL) fail("script", argv[2]);
  open_database();
  rocksdb_writebatch_t* batch = rocksdb_writebatch_create();
  rocksdb_writeoptions_t* writing = rocksdb_writeoptions_create();
  rocksdb_flushoptions_t* flushing = rocksdb_flushoptions_create();
  char* line = NULL;
  size_t capacity = 0;
  while (getline(&line, &capacity, script) > 0) {
    char* error = NULL;
    char* words[MAX_WORDS] = {NULL};
    int count = 0;
    line_number++;
    line[strcspn(line, "\n")] = 0;
    for (char* word = strtok(line, " "); word != NULL && count < MAX_WORDS; word = strtok(NULL, " ")) {
      words[count++] = word;
    }
    switch (words[0][0]) {
      case 'w':
        rocksdb_write(db, writing, batch, &error);
        check("write", error);
        rocksdb_writebatch_clear(batch);
        break;
      case 'g':
        get(words);
        break;
      case 'i':
        walk(words);
        break;
      case '+':
        snapshots[atol(words[1])] = rocksdb_create_snapshot(db);
        break;
      case '-':
        if (snapshots[atol(words[1])] != NULL) rocksdb_release_snapshot(db, snapshots[atol(words[1])]);
        snapshots[atol(words[1])] = NULL;
        break;
      case 'f':
        rocksdb_flush_cf(db, flushing, handles[find_family(words[1])], &error);
        check("flush", error);
        break;
      case 'c':
        compact(words);
        break;
      case 'N':
        create_family(words[1]);
        break;
      case 'X':
        drop_family(words[1]);
        break;
      case 'o':
        close_database();
        open_database();
        break;
      default:
        add_to_batch(batch, words, count);
    }
  }
  close_database();
  return 0;
}
