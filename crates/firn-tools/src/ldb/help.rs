//! The help of `ldb`.

/// Everything that `ldb` without arguments prints.
pub const HELP: &str = "ldb - RocksDB Tool

commands MUST specify --db=<full_path_to_db_directory> when necessary

The following optional parameters control if keys/values are input/output as hex or as plain strings:
  --key_hex : Keys are input/output as hex
  --value_hex : Values are input/output as hex
  --hex : Both keys and values are input/output as hex

The following optional parameters control the database internals:
  --column_family=<string> : name of the column family to operate on. default: default column family
  --try_load_options : load the options file of the database; true by default when --db is given and the database is
    not created
  --disable_consistency_checks : Set options.force_consistency_checks = false.
  --ignore_unknown_options : Ignore unknown options when loading option file.
  --bloom_bits=<int,e.g.:14>
  --fix_prefix_len=<int,e.g.:14>
  --compression_type=<no|snappy|zlib|bzip2|lz4|lz4hc|xpress|zstd>
  --compression_max_dict_bytes=<int,e.g.:16384>
  --block_size=<block_size_in_bytes>
  --auto_compaction=<true|false>
  --db_write_buffer_size=<int,e.g.:16777216>
  --write_buffer_size=<int,e.g.:4194304>
  --file_size=<int,e.g.:2097152>
  --min_blob_size, --blob_file_size, --blob_compression_type, --enable_blob_garbage_collection,
    --blob_garbage_collection_age_cutoff, --blob_garbage_collection_force_threshold, --blob_compaction_readahead_size,
    --blob_file_starting_level, --prepopulate_blob_cache : go to the OPTIONS file; blob files themselves are not supported


Data Access Commands:
  put <key> <value> [--create_if_missing]
  get <key>
  multi_get <key> [<key>] [..]
  batchput <key> <value> [<key> <value>] [..] [--create_if_missing]
  scan [--from] [--to] [--max_keys=<N>] [--no_value]
  delete <key>
  singledelete <key>
  deleterange <begin key> <end key>
  query
    Starts a REPL shell.  Type help for list of available commands.
  approxsize [--from] [--to]
  checkconsistency
  list_file_range_deletes [--max_keys=<N>] : print tombstones in SST files.


Admin Commands:
  dump_wal --walfile=<write_ahead_log_file_path> [--header] [--print_value] [--write_committed=true|false]
  compact [--from] [--to]
  dump [--from] [--to] [--max_keys=<N>] [--count_only] [--count_delim=<char>] [--stats] [--path=<path_to_a_file>]
  load [--create_if_missing] [--disable_wal] [--bulk_load] [--compact]
  manifest_dump [--verbose] [--json] [--path=<path_to_manifest_file>]
  dump_live_files
  file_checksum_dump [--path=<path_to_manifest_file>]
  repair [--verbose]
  reduce_levels --new_levels=<N> [--print_old_levels]
  change_compaction_style --old_compaction_style=<0: level> --new_compaction_style=<1: universal>
  unsafe_remove_sst_file <SST file number>
  update_manifest [--update_temperatures]
  get_property <property_name>
  list_column_families
  create_column_family --db=<db_path> <new_column_family_name>
  drop_column_family --db=<db_path> <column_family_name_to_drop>
  idump [--from] [--to] [--input_key_hex] [--max_keys=<N>] [--count_only] [--count_delim=<char>] [--stats]
  list_live_files_metadata [--sort_by_filename]
  write_extern_sst <output_sst_path>
  ingest_extern_sst <input_sst_path> [--move_files] [--snapshot_consistency] [--allow_global_seqno] [--allow_blocking_flush]
    [--ingest_behind] [--write_global_seqno]
";
