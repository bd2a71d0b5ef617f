//! The flags of `db_stress`, each declared once. Names are those of RocksDB's tool where the meaning is the same; defaults
//! suit short runs.

use crate::declare_flags;

declare_flags! {
    /// Values of all `db_stress` flags.
    pub struct StressFlags {
        db: String = String::new(), "The directory of the database";
        expected_values_dir: String = String::new(), "Where the expected state is kept; default: <db>.expected";
        destroy_db_initially: bool = false, "Begin with an empty database and expected state";
        seed: u64 = 2_341_234, "Everything random derives from it: options, operations, times of kills";
        threads: u32 = 4, "Number of threads; each writes to keys of its own";
        max_key: u32 = 8192, "Number of keys";
        column_families: u32 = 3, "Number of column families that stay; threads create and drop further ones";
        ops_per_thread: u64 = 2000, "Operations of each thread between two opens";
        reopen: u32 = 10, "How often the database is closed and opened again with other options";
        duration: u64 = 0, "Seconds after which the run ends; 0 = no limit";
        readpercent: u32 = 12, "Percent of operations that are gets and multi-gets";
        prefixpercent: u32 = 5, "Percent of operations that are scans of a prefix";
        writepercent: u32 = 45, "Percent of operations that are puts, merges and batches";
        delpercent: u32 = 15, "Percent of operations that are deletes and single deletes";
        delrangepercent: u32 = 5, "Percent of operations that are range deletes";
        iterpercent: u32 = 10, "Percent of operations that are walks of iterators";
        customopspercent: u32 = 8, "Percent of operations that are of the kinds with a one_in flag";
        use_merge: bool = true, "Merge besides putting";
        acquire_snapshot_one_in: u32 = 4, "One in so many custom operations takes a snapshot or checks and releases one";
        flush_one_in: u32 = 8, "... flushes";
        compact_range_one_in: u32 = 25, "... compacts a range";
        compact_files_one_in: u32 = 25, "... compacts files";
        checkpoint_one_in: u32 = 50, "... makes a checkpoint, opens it and compares it";
        clear_column_family_one_in: u32 = 40, "... creates or drops a column family";
        ingest_external_file_one_in: u32 = 20, "... writes a table outside the database and ingests it";
        set_options_one_in: u32 = 20, "... changes options";
        sync_wal_one_in: u32 = 20, "... syncs or flushes the WAL";
        verify_checksum_one_in: u32 = 60, "... verifies the checksums of all tables";
        get_live_files_apis_one_in: u32 = 20, "... lists live files and WALs and looks for them";
        get_property_one_in: u32 = 10, "... reads properties";
        verify_db_one_in: u32 = 20, "... compares all keys of the thread";
        kills: u32 = 0, "Kill the process that does all this so many times, and start it again";
        interval: u64 = 1000, "Milliseconds within which a kill comes";
        verification_only: bool = false, "Verify what is there and end";
        keep_copy: bool = true, "Keep a copy of the database and the expected state as of the last kill";
    }
    validate(flags, name) {
        match name {
            "threads" | "column_families" if flags.threads == 0 || flags.column_families == 0 => {
                Err(format!("Invalid value for --{name}: must be at least 1"))
            }
            _ => Ok(()),
        }
    }
}
