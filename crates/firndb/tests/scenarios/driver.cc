// Runs scenario commands on RocksDB: one command a line on standard input, its answer lines on standard output, each behind
// a tab, and then a line with a dot. The commands are those of firn.rs, which does the same on Firn; docs/scenarios.md has
// the list. A command that fails answers with a line that begins with "error: ".

#include <rocksdb/cache.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/listener.h>
#include <rocksdb/perf_context.h>
#include <rocksdb/perf_level.h>
#include <rocksdb/rate_limiter.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/statistics.h>
#include <rocksdb/utilities/checkpoint.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <mutex>
#include <sstream>

using namespace rocksdb;
using std::map;
using std::string;
using std::vector;

namespace {

// A command that takes longer than this hangs.
constexpr unsigned kSecondsPerCommand = 60;
constexpr size_t kLongestShown = 40;

string Unescape(const string& text) {
  if (text == "\"\"") return "";
  string out;
  for (size_t i = 0; i < text.size(); i++) {
    if (text[i] == '\\' && i + 3 < text.size() && text[i + 1] == 'x') {
      out.push_back(static_cast<char>(std::stoi(text.substr(i + 2, 2), nullptr, 16)));
      i += 3;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

string Show(const Slice& bytes) {
  if (bytes.empty()) return "\"\"";
  string text = bytes.ToString();
  bool cut = text.size() > kLongestShown;
  if (cut && text.find_first_not_of(text[0]) == string::npos && isgraph(text[0])) {
    return string(1, text[0]) + "*" + std::to_string(text.size());
  }
  string out;
  for (unsigned char c : cut ? text.substr(0, 8) : text) {
    if (c > 0x20 && c < 0x7f && c != '\\' && c != '"') {
      out.push_back(static_cast<char>(c));
    } else {
      char buffer[8];
      snprintf(buffer, sizeof buffer, "\\x%02x", c);
      out += buffer;
    }
  }
  return cut ? out + "..(" + std::to_string(text.size()) + ")" : out;
}

vector<string> Split(const string& text, char at) {
  vector<string> parts;
  std::stringstream stream(text);
  string part;
  while (std::getline(stream, part, at)) {
    size_t from = part.find_first_not_of(' ');
    if (from == string::npos) continue;
    parts.push_back(part.substr(from, part.find_last_not_of(' ') - from + 1));
  }
  return parts;
}

const char* const kCodes[] = {"", "NotFound", "Corruption", "Not implemented", "Invalid argument", "IO error",
                              "Merge in progress", "Result incomplete", "Shutdown in progress", "Operation timed out",
                              "Operation aborted", "Resource busy", "Operation expired",
                              "Operation failed. Try again.", "Compaction too large", "Column family dropped"};
const char* const kSubcodes[] = {"", "Timeout Acquiring Mutex", "Timeout waiting to lock key",
                                 "Failed to acquire lock due to max_num_locks limit", "No space left on device",
                                 "Deadlock", "Stale file handle", "Memory limit reached", "Space limit reached",
                                 "No such file or directory", "Insufficient capacity for merge operands",
                                 "Manual compaction paused", " (overwritten)", "Txn not prepared", "IO fenced off",
                                 "Merge operator failed"};
const char* const kReasons[] = {"Unknown", "LevelL0FilesNum", "LevelMaxLevelSize", "UniversalSizeAmplification",
                                "UniversalSizeRatio", "UniversalSortedRunNum", "FifoMaxSize", "FifoReduceNumFiles",
                                "FifoTtl", "ManualCompaction", "FilesMarkedForCompaction", "BottommostFiles", "Ttl",
                                "Flush", "ExternalSstIngestion", "PeriodicCompaction", "ChangeTemperature",
                                "ForcedBlobGc", "RoundRobinTtl"};
const char* const kFlushReasons[] = {"Other Reasons", "Get Live Files", "Shut down", "External File Ingestion",
                                     "Manual Compaction", "Write Buffer Manager", "Write Buffer Full", "Test",
                                     "Delete Files", "Auto Compaction", "Manual Flush", "Error Recovery",
                                     "Error Recovery Retry Flush", "WAL Full"};
const char* const kStalls[] = {"delayed", "stopped", "normal"};

bool show_text = false;

string Error(const Status& s) {
  if (show_text) return "error: " + s.ToString();
  string text = string("error: ") + kCodes[s.code()];
  if (s.subcode() != Status::kNone) text += string(": ") + kSubcodes[s.subcode()];
  return text;
}

// The head of a command: flags `-name=value`, families `@name`, then the rest.
struct Words {
  map<string, string> flags;
  vector<string> families;
  string label;  // `name:` before the rest
  string rest;
  vector<string> words;

  explicit Words(const string& line) {
    size_t at = 0;
    while (at < line.size()) {
      size_t end = std::min(line.find(' ', at), line.size());
      string word = line.substr(at, end - at);
      if (word.size() > 1 && word[0] == '-') {
        size_t equals = word.find('=');
        if (equals == string::npos) {
          flags[word.substr(1)] = "true";
        } else {
          flags[word.substr(1, equals - 1)] = word.substr(equals + 1);
        }
      } else if (word.size() > 1 && word[0] == '@') {
        families.push_back(word.substr(1));
      } else if (label.empty() && word.size() > 1 && word.back() == ':') {
        label = word.substr(0, word.size() - 1);
      } else {
        break;
      }
      at = std::min(end + 1, line.size());
    }
    rest = line.substr(at);
    words = Split(rest, ' ');
  }
  bool Has(const string& name) const { return flags.count(name) > 0; }
  bool Flag(const string& name, bool otherwise) const {
    auto it = flags.find(name);
    return it == flags.end() ? otherwise : it->second != "false";
  }
  long Number(const string& name, long otherwise) const {
    auto it = flags.find(name);
    return it == flags.end() ? otherwise : std::stol(it->second);
  }
  string Text(const string& name) const {
    auto it = flags.find(name);
    return it == flags.end() ? "" : it->second;
  }
};

std::pair<string, string> Pair(const string& word) {
  size_t at = word.find('=');
  if (at == string::npos) throw string("no = in " + word);
  return {Unescape(word.substr(0, at)), Unescape(word.substr(at + 1))};
}

std::pair<string, string> Bounds(const string& word) {
  size_t at = word.find("..");
  if (at == string::npos) throw string("no .. in " + word);
  return {Unescape(word.substr(0, at)), Unescape(word.substr(at + 2))};
}

// Keeps what happened in the background.
class Events : public EventListener {
 public:
  vector<string> Take() {
    std::lock_guard<std::mutex> hold(mutex_);
    // Flushes and the compactions that they cause tell of their end in any order.
    std::stable_sort(lines_.begin(), lines_.end(), [](const string& a, const string& b) {
      return a.substr(0, a.find(' ')) < b.substr(0, b.find(' '));
    });
    return std::move(lines_);
  }
  void OnFlushCompleted(DB*, const FlushJobInfo& info) override {
    Add("flush " + info.cf_name + ": " + kFlushReasons[static_cast<int>(info.flush_reason)]);
  }
  void OnCompactionCompleted(DB*, const CompactionJobInfo& info) override {
    std::stringstream line;
    line << "compaction " << info.cf_name << ": " << kReasons[static_cast<int>(info.compaction_reason)] << " L"
         << info.base_input_level << "->L" << info.output_level << " files " << info.input_files.size() << "->"
         << info.output_files.size();
    if (!info.status.ok()) line << " " << Error(info.status);
    Add(line.str());
  }
  void OnExternalFileIngested(DB*, const ExternalFileIngestionInfo& info) override {
    Add("ingestion " + info.cf_name + ": sequence " + std::to_string(info.global_seqno));
  }
  void OnStallConditionsChanged(const WriteStallInfo& info) override {
    Add("stall " + info.cf_name + ": " + kStalls[static_cast<int>(info.condition.prev)] + " to " +
        kStalls[static_cast<int>(info.condition.cur)]);
  }
  void OnBackgroundError(BackgroundErrorReason reason, Status* s) override {
    Add("background " + std::to_string(static_cast<int>(reason)) + ": " + Error(*s));
  }

 private:
  void Add(const string& line) {
    std::lock_guard<std::mutex> hold(mutex_);
    lines_.push_back(line);
  }
  std::mutex mutex_;
  vector<string> lines_;
};

// A read's options and the bounds that they point to.
struct Reading {
  ReadOptions options;
  string lower, upper;
  Slice lower_slice, upper_slice;
};

struct Cursor {
  std::unique_ptr<Reading> reading;
  std::unique_ptr<Iterator> it;
};

class Driver {
 public:
  ~Driver() { CloseAll(); }

  // Answers one command; throws a string when the command is not understood.
  vector<string> Run(const string& line) {
    size_t space = std::min(line.find(' '), line.size());
    string name = line.substr(0, space);
    Words words(line.substr(std::min(space + 1, line.size())));
    answer_.clear();
    show_text = words.Has("text");
    auto found = Commands().find(name);
    if (found == Commands().end()) throw string("no command " + name);
    if (!db_ && NeedsDb(name)) {
      Say("error: not open");
    } else {
      (this->*found->second)(words);
    }
    return answer_;
  }

 private:
  using Command = void (Driver::*)(const Words&);
  static const map<string, Command>& Commands();
  static bool NeedsDb(const string& name) {
    static const vector<string> without = {"start", "dir",   "open",     "close",  "options", "destroy",
                                           "repair", "list_families", "sst", "perf", "perf_reset", "tickers",
                                           "histograms", "events", "reset_statistics", "try_open"};
    return std::find(without.begin(), without.end(), name) == without.end();
  }

  void Say(const string& line) { answer_.push_back(line); }
  void Check(const Status& s) {
    if (!s.ok()) Say(Error(s));
  }

  ColumnFamilyHandle* Family(const string& name) {
    auto it = families_.find(name);
    if (it == families_.end()) throw "no family " + name;
    return it->second;
  }
  ColumnFamilyHandle* Family(const Words& words) {
    return Family(words.families.empty() ? "default" : words.families[0]);
  }

  ColumnFamilyOptions FamilyOptions(const string& name) {
    auto it = family_options_.find(name);
    return it == family_options_.end() ? ColumnFamilyOptions(options_) : it->second;
  }

  // ---- life of the database

  void Start(const Words& words) {
    CloseAll();
    root_ = words.words.at(0);
    dir_ = root_ + "/db";
    base_ = words.words.at(1);
    options_ = Options();
    family_options_.clear();
    read_only_ = false;
    events_->Take();
  }
  void Dir(const Words& words) {
    CloseAll();
    dir_ = root_ + "/" + words.words.at(0);
  }

  Status Parse(const string& text, Options* options) {
    ConfigOptions config;
    return GetOptionsFromString(config, *options, text, options);
  }

  // `open` starts from the base options, `reopen` from those in force; without `-text` of options they stay.
  void Open(const Words& words) {
    CloseAll();
    if (!words.Has("again")) {
      options_ = Options();
      Status s = Parse(base_, &options_);
      if (!s.ok()) return Say(Error(s));
      options_.statistics = statistics_ = CreateDBStatistics();
      options_.listeners = {events_};
      family_options_.clear();
      read_only_ = false;
    }
    if (words.Has("rate_limit")) {
      limiter_.reset(NewGenericRateLimiter(words.Number("rate_limit", 0), 100 * 1000, 10, RateLimiter::Mode::kAllIo));
      options_.rate_limiter = limiter_;
    }
    read_only_ = words.Flag("read_only", read_only_);
    Options changed = options_;
    Status s = Parse(words.rest, &changed);
    if (!s.ok()) return Say(Error(s));
    options_ = changed;
    Check(OpenNow(words));
  }

  Status OpenNow(const Words& words) {
    vector<string> names = words.families;
    if (names.empty() && !DB::ListColumnFamilies(options_, dir_, &names).ok()) names = {"default"};
    vector<ColumnFamilyDescriptor> descriptors;
    for (const string& name : names) descriptors.emplace_back(name, FamilyOptions(name));
    vector<ColumnFamilyHandle*> handles;
    DB* db = nullptr;
    Status s = read_only_ ? DB::OpenForReadOnly(options_, dir_, descriptors, &handles, &db)
                          : DB::Open(options_, dir_, descriptors, &handles, &db);
    if (!s.ok()) return s;
    db_.reset(db);
    for (ColumnFamilyHandle* handle : handles) families_[handle->GetName()] = handle;
    return s;
  }

  void Close(const Words&) { Check(CloseAll()); }

  Status CloseAll() {
    cursors_.clear();
    if (!db_) return Status::OK();
    for (auto& [name, snapshot] : snapshots_) db_->ReleaseSnapshot(snapshot);
    snapshots_.clear();
    for (auto& [name, handle] : families_) db_->DestroyColumnFamilyHandle(handle);
    families_.clear();
    Status s = db_->Close();
    db_.reset();
    return s;
  }

  // `options @family text`: what the family is created or opened with from now on.
  void SetFamilyOptions(const Words& words) {
    for (const string& name : words.families) {
      Options changed = options_;
      Status s = Parse(words.rest, &changed);
      if (!s.ok()) return Say(Error(s));
      family_options_[name] = changed;
    }
  }
  void Destroy(const Words&) {
    CloseAll();
    vector<ColumnFamilyDescriptor> none;
    Check(DestroyDB(dir_, options_, none));
  }
  void Repair(const Words&) {
    CloseAll();
    Check(RepairDB(dir_, options_));
  }
  void ListFamilies(const Words&) {
    vector<string> names;
    Status s = DB::ListColumnFamilies(options_, dir_, &names);
    if (!s.ok()) return Say(Error(s));
    string line;
    for (const string& name : names) line += (line.empty() ? "" : " ") + name;
    Say(line);
  }
  void CreateFamily(const Words& words) {
    for (const string& name : words.families) {
      ColumnFamilyOptions options = FamilyOptions(name);
      if (!words.rest.empty()) {
        Options changed = options_;
        Status s = Parse(words.rest, &changed);
        if (!s.ok()) return Say(Error(s));
        options = family_options_[name] = changed;
      }
      ColumnFamilyHandle* handle = nullptr;
      Status s = db_->CreateColumnFamily(options, name, &handle);
      if (!s.ok()) return Say(Error(s));
      if (families_.count(name) > 0) db_->DestroyColumnFamilyHandle(families_[name]);
      families_[name] = handle;
    }
  }
  void DropFamily(const Words& words) {
    for (const string& name : words.families) Check(db_->DropColumnFamily(Family(name)));
  }
  void ForgetFamily(const Words& words) {
    for (const string& name : words.families) {
      db_->DestroyColumnFamilyHandle(Family(name));
      families_.erase(name);
    }
  }

  // ---- writes

  WriteOptions Writing(const Words& words) {
    WriteOptions options;
    options.sync = words.Flag("sync", false);
    options.disableWAL = words.Flag("disable_wal", false);
    options.no_slowdown = words.Flag("no_slowdown", false);
    options.low_pri = words.Flag("low_pri", false);
    options.ignore_missing_column_families = words.Flag("ignore_missing_column_families", false);
    options.memtable_insert_hint_per_batch = words.Flag("hint", false);
    return options;
  }
  // Adds one operation to a batch, such as `put @one a=1 b=2`.
  Status AddTo(WriteBatch* batch, const string& text, ColumnFamilyHandle* family) {
    size_t space = std::min(text.find(' '), text.size());
    string name = text.substr(0, space);
    Words words(text.substr(std::min(space + 1, text.size())));
    if (!words.families.empty()) family = Family(words);
    if (name == "savepoint") return batch->SetSavePoint(), Status::OK();
    if (name == "rollback") return batch->RollbackToSavePoint();
    if (name == "pop") return batch->PopSavePoint();
    if (name == "clear") return batch->Clear(), Status::OK();
    for (const string& word : words.words) {
      Status s;
      if (name == "put") {
        auto [key, value] = Pair(word);
        s = batch->Put(family, key, value);
      } else if (name == "merge") {
        auto [key, value] = Pair(word);
        s = batch->Merge(family, key, value);
      } else if (name == "delete") {
        s = batch->Delete(family, Unescape(word));
      } else if (name == "single_delete") {
        s = batch->SingleDelete(family, Unescape(word));
      } else if (name == "delete_range") {
        auto [from, to] = Bounds(word);
        s = batch->DeleteRange(family, from, to);
      } else if (name == "log") {
        s = batch->PutLogData(Unescape(word));
      } else {
        throw "no operation " + name;
      }
      if (!s.ok()) return s;
    }
    return Status::OK();
  }
  void WriteEach(const string& name, const Words& words) {
    WriteOptions options = Writing(words);
    ColumnFamilyHandle* family = Family(words);
    for (const string& word : words.words) {
      Status s;
      if (name == "put") {
        auto [key, value] = Pair(word);
        s = db_->Put(options, family, key, value);
      } else if (name == "merge") {
        auto [key, value] = Pair(word);
        s = db_->Merge(options, family, key, value);
      } else if (name == "delete") {
        s = db_->Delete(options, family, Unescape(word));
      } else if (name == "single_delete") {
        s = db_->SingleDelete(options, family, Unescape(word));
      } else {
        auto [from, to] = Bounds(word);
        s = db_->DeleteRange(options, family, from, to);
      }
      if (!s.ok()) return Say(Error(s));
    }
  }
  void Put(const Words& words) { WriteEach("put", words); }
  void Merge(const Words& words) { WriteEach("merge", words); }
  void Delete(const Words& words) { WriteEach("delete", words); }
  void SingleDelete(const Words& words) { WriteEach("single_delete", words); }
  void DeleteRange(const Words& words) { WriteEach("delete_range", words); }

  void Batch(const Words& words) {
    WriteBatch batch(0, words.Number("max_bytes", 0));
    for (const string& text : Split(words.rest, ';')) {
      Status s = AddTo(&batch, text, Family(words));
      if (!s.ok()) Say(Error(s));
    }
    if (words.Has("count")) Say("count " + std::to_string(batch.Count()));
    Check(db_->Write(Writing(words), &batch));
  }

  // ---- reads

  std::unique_ptr<Reading> ReadWith(const Words& words) {
    auto reading = std::make_unique<Reading>();
    ReadOptions& o = reading->options;
    if (words.Has("snapshot")) {
      auto it = snapshots_.find(words.Text("snapshot"));
      if (it == snapshots_.end()) throw string("no snapshot ") + words.Text("snapshot");
      o.snapshot = it->second;
    }
    if (words.Has("lower")) {
      reading->lower = Unescape(words.Text("lower"));
      reading->lower_slice = reading->lower;
      o.iterate_lower_bound = &reading->lower_slice;
    }
    if (words.Has("upper")) {
      reading->upper = Unescape(words.Text("upper"));
      reading->upper_slice = reading->upper;
      o.iterate_upper_bound = &reading->upper_slice;
    }
    string tier = words.Text("tier");
    o.read_tier = tier == "cache"       ? kBlockCacheTier
                  : tier == "persisted" ? kPersistedTier
                  : tier == "memtable"  ? kMemtableTier
                                        : kReadAllTier;
    o.total_order_seek = words.Flag("total_order_seek", false);
    o.prefix_same_as_start = words.Flag("prefix_same_as_start", false);
    o.auto_prefix_mode = words.Flag("auto_prefix_mode", false);
    o.tailing = words.Flag("tailing", false);
    o.ignore_range_deletions = words.Flag("ignore_range_deletions", false);
    o.max_skippable_internal_keys = words.Number("max_skippable", 0);
    o.pin_data = words.Flag("pin_data", false);
    o.fill_cache = words.Flag("fill_cache", true);
    o.verify_checksums = words.Flag("verify_checksums", true);
    o.readahead_size = words.Number("readahead", 0);
    o.background_purge_on_iterator_cleanup = words.Flag("background_purge", false);
    if (words.Has("value_size_soft_limit")) o.value_size_soft_limit = words.Number("value_size_soft_limit", 0);
    return reading;
  }

  string Got(const string& key, const Status& s, const Slice& value) {
    if (s.ok()) return Show(key) + "=" + Show(value);
    return Show(key) + (s.IsNotFound() ? " not found" : " " + Error(s));
  }
  void SayJoined(const vector<string>& parts) {
    string line;
    for (const string& part : parts) line += (line.empty() ? "" : ", ") + part;
    Say(line);
  }
  void Get(const Words& words) {
    auto reading = ReadWith(words);
    vector<string> parts;
    for (const string& word : words.words) {
      PinnableSlice value;
      Status s = db_->Get(reading->options, Family(words), Unescape(word), &value);
      parts.push_back(Got(Unescape(word), s, value));
    }
    SayJoined(parts);
  }
  void MultiGet(const Words& words) {
    auto reading = ReadWith(words);
    vector<string> keys;
    for (const string& word : words.words) keys.push_back(Unescape(word));
    vector<Slice> slices(keys.begin(), keys.end());
    vector<PinnableSlice> values(keys.size());
    vector<Status> statuses(keys.size());
    db_->MultiGet(reading->options, Family(words), keys.size(), slices.data(), values.data(), statuses.data(),
                  words.Flag("sorted", false));
    vector<string> parts;
    for (size_t i = 0; i < keys.size(); i++) parts.push_back(Got(keys[i], statuses[i], values[i]));
    SayJoined(parts);
  }
  void Operands(const Words& words) {
    auto reading = ReadWith(words);
    GetMergeOperandsOptions options;
    options.expected_max_number_of_operands = static_cast<int>(words.Number("limit", 100));
    for (const string& word : words.words) {
      vector<PinnableSlice> values(options.expected_max_number_of_operands);
      int count = 0;
      Status s = db_->GetMergeOperands(reading->options, Family(words), Unescape(word), values.data(), &options, &count);
      string line = Show(Unescape(word)) + ":";
      for (int i = 0; s.ok() && i < count; i++) line += " " + Show(values[i]);
      Say(s.ok() ? line : line + " " + Error(s));
    }
  }
  void MayExist(const Words& words) {
    auto reading = ReadWith(words);
    vector<string> parts;
    for (const string& word : words.words) {
      string value;
      string key = Unescape(word);
      bool may = db_->KeyMayExist(reading->options, Family(words), Slice(key), &value);
      parts.push_back(Show(Unescape(word)) + (may ? " maybe" : " no"));
    }
    SayJoined(parts);
  }

  string Position(Iterator* it, bool values) {
    if (it->Valid()) return Show(it->key()) + (values ? "=" + Show(it->value()) : "");
    return it->status().ok() ? "end" : Error(it->status());
  }
  void Scan(const Words& words) {
    auto reading = ReadWith(words);
    std::unique_ptr<Iterator> it(db_->NewIterator(reading->options, Family(words)));
    bool backward = words.Flag("reverse", false);
    if (words.Has("from")) {
      string from = Unescape(words.Text("from"));
      backward ? it->SeekForPrev(from) : it->Seek(from);
    } else {
      backward ? it->SeekToLast() : it->SeekToFirst();
    }
    bool count = words.Flag("count", false);
    vector<string> parts;
    long left = words.Number("limit", 1 << 30), seen = 0;
    for (; it->Valid() && left > 0; left--, seen++) {
      if (!count) parts.push_back(Position(it.get(), words.Flag("values", true)));
      backward ? it->Prev() : it->Next();
    }
    if (count) parts.push_back(std::to_string(seen) + " entries");
    if (!it->status().ok()) parts.push_back(Error(it->status()));
    if (parts.empty()) parts.push_back("(empty)");
    SayJoined(parts);
  }
  void NewCursor(const Words& words) {
    Cursor cursor;
    cursor.reading = ReadWith(words);
    cursor.it.reset(db_->NewIterator(cursor.reading->options, Family(words)));
    cursors_[words.words.at(0)] = std::move(cursor);
  }
  void DropCursor(const Words& words) {
    for (const string& name : words.words) cursors_.erase(name);
  }
  void Walk(const Words& words) {
    Cursor own;
    Iterator* it;
    if (words.label.empty()) {
      own.reading = ReadWith(words);
      own.it.reset(db_->NewIterator(own.reading->options, Family(words)));
      it = own.it.get();
    } else {
      auto found = cursors_.find(words.label);
      if (found == cursors_.end()) throw "no cursor " + words.label;
      it = found->second.it.get();
    }
    vector<string> parts;
    for (const string& step : Split(words.rest, ';')) Step(it, Split(step, ' '), &parts);
    SayJoined(parts);
  }
  void Step(Iterator* it, const vector<string>& words, vector<string>* parts) {
    const string& name = words.at(0);
    if (name == "next" || name == "prev") {
      long times = words.size() > 1 ? std::stol(words[1]) : 1;
      for (; times > 0; times--) {
        if (it->Valid()) name == "next" ? it->Next() : it->Prev();
        parts->push_back(Position(it, true));
        if (!it->Valid()) break;
      }
      return;
    }
    if (name == "status") return parts->push_back(it->status().ok() ? "ok" : Error(it->status()));
    if (name == "refresh") {
      Status s = it->Refresh();
      return parts->push_back(s.ok() ? "refreshed" : Error(s));
    }
    if (name == "property") {
      string value;
      Status s = it->GetProperty(words.at(1), &value);
      return parts->push_back(s.ok() ? Show(value) : Error(s));
    }
    if (name == "first") it->SeekToFirst();
    else if (name == "last") it->SeekToLast();
    else if (name == "seek") it->Seek(Unescape(words.at(1)));
    else if (name == "seek_for_prev") it->SeekForPrev(Unescape(words.at(1)));
    else throw "no step " + name;
    parts->push_back(Position(it, true));
  }
  void TakeSnapshot(const Words& words) {
    for (const string& name : words.words) snapshots_[name] = db_->GetSnapshot();
  }
  void Release(const Words& words) {
    for (const string& name : words.words) {
      auto it = snapshots_.find(name);
      if (it == snapshots_.end()) throw "no snapshot " + name;
      db_->ReleaseSnapshot(it->second);
      snapshots_.erase(it);
    }
  }

  // ---- background work

  void Flush(const Words& words) {
    FlushOptions options;
    options.wait = words.Flag("wait", true);
    options.allow_write_stall = words.Flag("allow_write_stall", true);
    vector<ColumnFamilyHandle*> handles;
    for (const string& name : words.families) handles.push_back(Family(name));
    if (handles.empty()) handles.push_back(Family("default"));
    Check(db_->Flush(options, handles));
  }
  void CompactRange(const Words& words) {
    CompactRangeOptions options;
    options.exclusive_manual_compaction = words.Flag("exclusive", false);
    options.change_level = words.Flag("change_level", false);
    options.target_level = static_cast<int>(words.Number("target_level", -1));
    options.max_subcompactions = static_cast<uint32_t>(words.Number("max_subcompactions", 0));
    options.allow_write_stall = words.Flag("allow_write_stall", false);
    string bottommost = words.Text("bottommost");
    if (bottommost == "skip") options.bottommost_level_compaction = BottommostLevelCompaction::kSkip;
    if (bottommost == "force") options.bottommost_level_compaction = BottommostLevelCompaction::kForce;
    if (bottommost == "force_optimized") {
      options.bottommost_level_compaction = BottommostLevelCompaction::kForceOptimized;
    }
    auto [from, to] = Bounds(words.words.empty() ? ".." : words.words[0]);
    Slice begin = from, end = to;
    Check(db_->CompactRange(options, Family(words), from.empty() ? nullptr : &begin, to.empty() ? nullptr : &end));
  }
  // `compact_files -to=6 L0 L1.2`: all files of level 0 and the third of level 1.
  void CompactFiles(const Words& words) {
    ColumnFamilyMetaData meta;
    db_->GetColumnFamilyMetaData(Family(words), &meta);
    vector<string> names;
    for (const string& word : words.words) {
      size_t dot = word.find('.');
      size_t level = std::stoul(word.substr(1, dot));
      if (level >= meta.levels.size()) throw "no level in " + word;
      const auto& files = meta.levels[level].files;
      for (size_t i = 0; i < files.size(); i++) {
        if (dot == string::npos || std::stoul(word.substr(dot + 1)) == i) names.push_back(files[i].name);
      }
    }
    CompactionOptions options;
    options.compression = kDisableCompressionOption;
    if (words.Has("limit")) options.output_file_size_limit = words.Number("limit", 0);
    Check(db_->CompactFiles(options, Family(words), names, static_cast<int>(words.Number("to", 1))));
  }
  void DeleteFiles(const Words& words) {
    auto [from, to] = Bounds(words.words.empty() ? ".." : words.words[0]);
    Slice begin = from, end = to;
    RangePtr range(from.empty() ? nullptr : &begin, to.empty() ? nullptr : &end);
    Check(DeleteFilesInRanges(db_.get(), Family(words), &range, 1, words.Flag("include_end", true)));
  }
  uint64_t Number(ColumnFamilyHandle* family, const string& name) {
    uint64_t value = 0;
    db_->GetIntProperty(family, name, &value);
    return value;
  }
  bool IsBusy() {
    for (const auto& [name, family] : families_) {
      if (Number(family, DB::Properties::kNumRunningFlushes) > 0) return true;
      if (Number(family, DB::Properties::kNumRunningCompactions) > 0) return true;
      if (Number(family, DB::Properties::kMemTableFlushPending) > 0) return true;
      if (Number(family, DB::Properties::kCompactionPending) == 0) continue;
      ColumnFamilyDescriptor descriptor;
      if (family->GetDescriptor(&descriptor).ok() && !descriptor.options.disable_auto_compactions) return true;
    }
    return false;
  }
  // Until nothing runs or is due for a while; what stays due without ever running is not waited for.
  void WaitForBackground() {
    if (read_only_) return;
    int idle = 0;
    for (int polls = 0; idle < 4 && polls < 4000; polls++) {
      idle = IsBusy() ? 0 : idle + 1;
      usleep(1000);
    }
  }
  void Wait(const Words&) { WaitForBackground(); }

  // ---- what can be seen

  void Levels(const Words& words) {
    ColumnFamilyMetaData meta;
    db_->GetColumnFamilyMetaData(Family(words), &meta);
    if (words.Has("counts")) {
      string line;
      for (const auto& level : meta.levels) line += (line.empty() ? "" : ",") + std::to_string(level.files.size());
      return Say(line);
    }
    for (const auto& level : meta.levels) {
      if (level.files.empty()) continue;
      string line = "L" + std::to_string(level.level) + ":";
      for (const auto& file : level.files) {
        line += " [" + Show(file.smallestkey) + ".." + Show(file.largestkey);
        if (words.Has("entries")) {
          line += " entries " + std::to_string(file.num_entries) + " deletions " + std::to_string(file.num_deletions);
        }
        if (words.Has("sequences")) {
          line += " " + std::to_string(file.smallest_seqno) + "-" + std::to_string(file.largest_seqno);
        }
        line += "]";
      }
      Say(line);
    }
    if (answer_.empty()) Say("(empty)");
  }
  void Property(const Words& words) {
    for (const string& name : words.words) {
      string full = "rocksdb." + name, value;
      if (words.Has("map")) {
        map<string, string> values;
        if (!db_->GetMapProperty(Family(words), full, &values)) return Say(name + " none");
        for (const auto& [key, text] : values) {
          if (words.Text("map") == "true" || key == words.Text("map")) Say(key + "=" + text);
        }
      } else if (db_->GetProperty(Family(words), full, &value)) {
        if (words.Has("positive")) value = std::stoull(value) > 0 ? "positive" : "zero";
        for (const string& line : Split(value, '\n')) Say(name + "=" + line);
        if (value.empty()) Say(name + "=");
      } else {
        Say(name + " none");
      }
    }
  }
  void IntProperty(const Words& words) {
    for (const string& name : words.words) {
      uint64_t value = 0;
      bool there = db_->GetIntProperty(Family(words), "rocksdb." + name, &value);
      Say(name + (there ? "=" + std::to_string(value) : " none"));
    }
  }
  // Counts since the last reset, by RocksDB's names without `rocksdb.`.
  void Tickers(const Words& words) {
    for (const string& name : words.words) {
      auto found = std::find_if(TickersNameMap.begin(), TickersNameMap.end(),
                                [&](const auto& entry) { return entry.second == "rocksdb." + name; });
      if (found == TickersNameMap.end()) throw "no ticker " + name;
      SayCount(words, name, statistics_->getTickerCount(found->first));
    }
  }
  void SayCount(const Words& words, const string& name, uint64_t count) {
    Say(name + (words.Has("positive") ? (count > 0 ? " positive" : " zero") : "=" + std::to_string(count)));
  }
  void Histograms(const Words& words) {
    for (const string& name : words.words) {
      auto found = std::find_if(HistogramsNameMap.begin(), HistogramsNameMap.end(),
                                [&](const auto& entry) { return entry.second == "rocksdb." + name; });
      if (found == HistogramsNameMap.end()) throw "no histogram " + name;
      HistogramData data;
      statistics_->histogramData(found->first, &data);
      if (words.Has("sums")) {
        Say(name + " count " + std::to_string(data.count) + " sum " + std::to_string(data.sum));
      } else {
        SayCount(words, name, data.count);
      }
    }
  }
  void ResetStatistics(const Words&) { statistics_->Reset(); }
  void PerfReset(const Words&) {
    SetPerfLevel(PerfLevel::kEnableCount);
    get_perf_context()->Reset();
  }
  void Perf(const Words& words) {
    map<string, string> counts;
    for (const string& part : Split(get_perf_context()->ToString(), ',')) {
      size_t at = part.find(" = ");
      if (at != string::npos) counts[part.substr(0, at)] = part.substr(at + 3);
    }
    for (const string& name : words.words) {
      if (counts.count(name) == 0) throw "no perf counter " + name;
      SayCount(words, name, std::stoull(counts[name]));
    }
  }
  void TakeEvents(const Words& words) {
    if (db_) WaitForBackground();
    for (const string& line : events_->Take()) {
      if (words.words.empty() || line.compare(0, words.words[0].size(), words.words[0]) == 0) Say(line);
    }
    if (answer_.empty()) Say("(none)");
  }
  void Sequence(const Words&) { Say(std::to_string(db_->GetLatestSequenceNumber())); }
  void SizeOf(const Words& words) {
    for (const string& word : words.words) {
      auto [from, to] = Bounds(word);
      Range range(from, to);
      uint64_t size = 0;
      SizeApproximationOptions options;
      options.include_files = words.Flag("files", true);
      options.include_memtables = words.Flag("memtables", false);
      Status s = db_->GetApproximateSizes(options, Family(words), &range, 1, &size);
      Say(word + (s.ok() ? (size > 0 ? " positive" : " zero") : " " + Error(s)));
    }
  }
  void Limiter(const Words&) {
    const std::pair<const char*, Env::IOPriority> all[] = {
        {"low", Env::IO_LOW}, {"mid", Env::IO_MID}, {"high", Env::IO_HIGH}, {"user", Env::IO_USER}};
    for (const auto& [name, priority] : all) {
      bool used = limiter_->GetTotalBytesThrough(priority) > 0;
      if (used) Say(string(name) + " used");
    }
    if (answer_.empty()) Say("(none)");
  }

  // ---- options at run time

  Status PairsOf(const string& text, std::unordered_map<string, string>* pairs) { return StringToMap(text, pairs); }
  void SetOptions(const Words& words) {
    std::unordered_map<string, string> pairs;
    Status s = PairsOf(words.rest, &pairs);
    Check(s.ok() ? db_->SetOptions(Family(words), pairs) : s);
  }
  void SetDbOptions(const Words& words) {
    std::unordered_map<string, string> pairs;
    Status s = PairsOf(words.rest, &pairs);
    Check(s.ok() ? db_->SetDBOptions(pairs) : s);
  }
  // The options within an option, by name.
  static string InOrder(const string& value) {
    if (value.find(';') == string::npos) return value;
    vector<string> parts = Split(value[0] == '{' ? value.substr(1, value.size() - 2) : value, ';');
    std::sort(parts.begin(), parts.end());
    string text;
    for (const string& part : parts) text += part + ";";
    return "{" + text + "}";
  }
  // The options in force, by name; `table.` before names of the table's.
  void ShowOptions(const Words& words) {
    ConfigOptions config;
    string text, table;
    std::unordered_map<string, string> pairs, of_db, of_table;
    Options options = db_->GetOptions(Family(words));
    Status s = GetStringFromColumnFamilyOptions(config, options, &text);
    if (s.ok()) s = StringToMap(text, &pairs);
    if (s.ok()) s = GetStringFromDBOptions(config, db_->GetDBOptions(), &text);
    if (s.ok()) s = StringToMap(text, &of_db);
    pairs.insert(of_db.begin(), of_db.end());
    if (s.ok()) s = options.table_factory->GetOptionString(config, &text);
    if (s.ok()) s = StringToMap(text, &of_table);
    for (const auto& [name, value] : of_table) pairs["table." + name] = value;
    if (!s.ok()) return Say(Error(s));
    for (const string& name : words.words) {
      Say(pairs.count(name) > 0 ? name + "=" + InOrder(pairs[name]) : name + " none");
    }
  }

  // ---- files

  // `sst name put a=1; delete b`: an external file beside the database.
  void WriteSst(const Words& words) {
    Options options(options_, words.families.empty() ? options_ : FamilyOptions(words.families[0]));
    SstFileWriter writer(EnvOptions(), options);
    size_t space = std::min(words.rest.find(' '), words.rest.size());
    Status s = writer.Open(root_ + "/" + words.rest.substr(0, space) + ".sst");
    for (const string& text : Split(words.rest.substr(std::min(space + 1, words.rest.size())), ';')) {
      size_t at = std::min(text.find(' '), text.size());
      string name = text.substr(0, at);
      Words operation(text.substr(std::min(at + 1, text.size())));
      for (const string& word : operation.words) {
        if (!s.ok()) break;
        if (name == "put") s = writer.Put(Pair(word).first, Pair(word).second);
        else if (name == "merge") s = writer.Merge(Pair(word).first, Pair(word).second);
        else if (name == "delete") s = writer.Delete(Unescape(word));
        else if (name == "delete_range") s = writer.DeleteRange(Bounds(word).first, Bounds(word).second);
        else throw "no operation " + name;
      }
    }
    if (s.ok()) s = writer.Finish();
    Check(s);
  }
  void Ingest(const Words& words) {
    IngestExternalFileOptions options;
    options.move_files = words.Flag("move_files", false);
    options.failed_move_fall_back_to_copy = words.Flag("failed_move_fall_back_to_copy", true);
    options.snapshot_consistency = words.Flag("snapshot_consistency", true);
    options.allow_global_seqno = words.Flag("allow_global_seqno", true);
    options.allow_blocking_flush = words.Flag("allow_blocking_flush", true);
    options.ingest_behind = words.Flag("ingest_behind", false);
    options.write_global_seqno = words.Flag("write_global_seqno", false);
    options.verify_checksums_before_ingest = words.Flag("verify_checksums_before_ingest", false);
    options.fail_if_not_bottommost_level = words.Flag("fail_if_not_bottommost_level", false);
    vector<string> paths;
    for (const string& name : words.words) paths.push_back(root_ + "/" + name + ".sst");
    Check(db_->IngestExternalFile(Family(words), paths, options));
  }
  // `checkpoint name`: a copy of the database beside it, for `use name`.
  void MakeCheckpoint(const Words& words) {
    Checkpoint* checkpoint = nullptr;
    Status s = Checkpoint::Create(db_.get(), &checkpoint);
    if (s.ok()) s = checkpoint->CreateCheckpoint(root_ + "/" + words.words.at(0), words.Number("log_size_for_flush", 0));
    delete checkpoint;
    Check(s);
  }
  // `ingest_all @one x y; @two z`: files for several families at once.
  void IngestAll(const Words& words) {
    vector<IngestExternalFileArg> all;
    string text;
    for (const string& family : words.families) text += "@" + family + " ";
    for (const string& part : Split(text + words.rest, ';')) {
      Words one(part);
      IngestExternalFileArg arg;
      arg.column_family = Family(one);
      for (const string& name : one.words) arg.external_files.push_back(root_ + "/" + name + ".sst");
      all.push_back(arg);
    }
    Check(db_->IngestExternalFiles(all));
  }
  // `export @one name`, `import @two name`: a family's tables beside the database, and a new family of them.
  void Export(const Words& words) {
    Checkpoint* checkpoint = nullptr;
    ExportImportFilesMetaData* exported = nullptr;
    const string& name = words.words.at(0);
    Status s = Checkpoint::Create(db_.get(), &checkpoint);
    if (s.ok()) s = checkpoint->ExportColumnFamily(Family(words), root_ + "/" + name, &exported);
    delete checkpoint;
    if (s.ok()) exports_[name].reset(exported);
    Check(s);
  }
  void Import(const Words& words) {
    auto found = exports_.find(words.words.at(0));
    if (found == exports_.end()) throw "no export " + words.words[0];
    ImportColumnFamilyOptions how;
    how.move_files = words.Flag("move_files", false);
    const string& name = words.families.at(0);
    ColumnFamilyHandle* handle = nullptr;
    Status s = db_->CreateColumnFamilyWithImport(FamilyOptions(name), name, how, *found->second, &handle);
    if (s.ok()) families_[name] = handle;
    Check(s);
  }
  // Opens the same directory once more beside the open database, and closes that.
  void TryOpen(const Words& words) {
    vector<string> names;
    if (!DB::ListColumnFamilies(options_, dir_, &names).ok()) names = {"default"};
    vector<ColumnFamilyDescriptor> descriptors;
    for (const string& name : names) descriptors.emplace_back(name, FamilyOptions(name));
    vector<ColumnFamilyHandle*> handles;
    DB* db = nullptr;
    Status s = words.Has("read_only") ? DB::OpenForReadOnly(options_, dir_, descriptors, &handles, &db)
                                      : DB::Open(options_, dir_, descriptors, &handles, &db);
    for (ColumnFamilyHandle* handle : handles) db->DestroyColumnFamilyHandle(handle);
    delete db;
    Say(s.ok() ? "opened" : Error(s));
  }
  void DisableDeletions(const Words&) { Check(db_->DisableFileDeletions()); }
  void EnableDeletions(const Words& words) { Check(db_->EnableFileDeletions(words.Flag("force", false))); }
  void FlushWal(const Words& words) { Check(db_->FlushWAL(words.Flag("sync", false))); }
  void SyncWal(const Words&) { Check(db_->SyncWAL()); }
  void Resume(const Words&) { Check(db_->Resume()); }
  void VerifyChecksum(const Words&) { Check(db_->VerifyChecksum()); }
  void LiveFiles(const Words& words) {
    vector<string> names;
    uint64_t manifest_size = 0;
    Status s = db_->GetLiveFiles(names, &manifest_size, words.Flag("flush", true));
    if (!s.ok()) return Say(Error(s));
    map<string, int> kinds;
    for (const string& name : names) {
      size_t dot = name.find('.'), dash = name.find('-');
      kinds[dot != string::npos ? name.substr(dot + 1) : name.substr(1, dash == string::npos ? dash : dash - 1)]++;
    }
    string line;
    for (const auto& [kind, count] : kinds) line += (line.empty() ? "" : " ") + kind + "=" + std::to_string(count);
    Say(line);
  }
  void WalFiles(const Words&) {
    VectorLogPtr files;
    Status s = db_->GetSortedWalFiles(files);
    if (!s.ok()) return Say(Error(s));
    size_t archived = 0;
    for (const auto& file : files) archived += file->Type() == kArchivedLogFile;
    Say("alive " + std::to_string(files.size() - archived) + " archived " + std::to_string(archived));
  }

  string root_, dir_, base_;
  Options options_;
  map<string, ColumnFamilyOptions> family_options_;
  bool read_only_ = false;
  std::shared_ptr<Statistics> statistics_ = CreateDBStatistics();
  std::shared_ptr<Events> events_ = std::make_shared<Events>();
  std::shared_ptr<RateLimiter> limiter_;
  std::unique_ptr<DB> db_;
  map<string, ColumnFamilyHandle*> families_;
  map<string, const Snapshot*> snapshots_;
  map<string, std::unique_ptr<ExportImportFilesMetaData>> exports_;
  map<string, Cursor> cursors_;
  vector<string> answer_;
};

const map<string, Driver::Command>& Driver::Commands() {
  static const map<string, Command> commands = {
      {"start", &Driver::Start},
      {"dir", &Driver::Dir},
      {"open", &Driver::Open},
      {"close", &Driver::Close},
      {"options", &Driver::SetFamilyOptions},
      {"destroy", &Driver::Destroy},
      {"repair", &Driver::Repair},
      {"list_families", &Driver::ListFamilies},
      {"create_family", &Driver::CreateFamily},
      {"drop_family", &Driver::DropFamily},
      {"forget_family", &Driver::ForgetFamily},
      {"put", &Driver::Put},
      {"merge", &Driver::Merge},
      {"delete", &Driver::Delete},
      {"single_delete", &Driver::SingleDelete},
      {"delete_range", &Driver::DeleteRange},
      {"batch", &Driver::Batch},
      {"get", &Driver::Get},
      {"multi_get", &Driver::MultiGet},
      {"operands", &Driver::Operands},
      {"may_exist", &Driver::MayExist},
      {"scan", &Driver::Scan},
      {"cursor", &Driver::NewCursor},
      {"drop_cursor", &Driver::DropCursor},
      {"walk", &Driver::Walk},
      {"snapshot", &Driver::TakeSnapshot},
      {"release", &Driver::Release},
      {"flush", &Driver::Flush},
      {"compact_range", &Driver::CompactRange},
      {"compact_files", &Driver::CompactFiles},
      {"delete_files", &Driver::DeleteFiles},
      {"wait", &Driver::Wait},
      {"levels", &Driver::Levels},
      {"property", &Driver::Property},
      {"int_property", &Driver::IntProperty},
      {"tickers", &Driver::Tickers},
      {"histograms", &Driver::Histograms},
      {"reset_statistics", &Driver::ResetStatistics},
      {"perf", &Driver::Perf},
      {"perf_reset", &Driver::PerfReset},
      {"events", &Driver::TakeEvents},
      {"sequence", &Driver::Sequence},
      {"size_of", &Driver::SizeOf},
      {"limiter", &Driver::Limiter},
      {"set_options", &Driver::SetOptions},
      {"set_db_options", &Driver::SetDbOptions},
      {"show_options", &Driver::ShowOptions},
      {"sst", &Driver::WriteSst},
      {"ingest", &Driver::Ingest},
      {"ingest_all", &Driver::IngestAll},
      {"export", &Driver::Export},
      {"import", &Driver::Import},
      {"try_open", &Driver::TryOpen},
      {"checkpoint", &Driver::MakeCheckpoint},
      {"disable_deletions", &Driver::DisableDeletions},
      {"enable_deletions", &Driver::EnableDeletions},
      {"flush_wal", &Driver::FlushWal},
      {"sync_wal", &Driver::SyncWal},
      {"resume", &Driver::Resume},
      {"verify_checksum", &Driver::VerifyChecksum},
      {"live_files", &Driver::LiveFiles},
      {"wal_files", &Driver::WalFiles},
  };
  return commands;
}

}  // namespace

int main() {
  Driver driver;
  string line;
  while (std::getline(std::cin, line)) {
    alarm(kSecondsPerCommand);
    try {
      for (const string& answer : driver.Run(line)) std::cout << '\t' << answer << '\n';
    } catch (const string& problem) {
      std::cout << "\t!! " << problem << '\n';
    } catch (const std::exception& problem) {
      std::cout << "\t!! " << problem.what() << '\n';
    }
    std::cout << '.' << std::endl;
    alarm(0);
  }
  return 0;
}
