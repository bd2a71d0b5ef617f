//! Flags that ask for what Firn does not do yet: refused before anything on disk changes.

use super::bench_flags::BenchFlags;
use crate::flags::FlagSet;

/// Flags that may only stand at their default, and what they would need.
const REFUSED: &[(&str, &str)] = &[
    ("user_timestamp_size", "user-defined timestamps"),
    ("use_uint64_comparator", "the 64-bit integer comparator"),
    ("use_blob_db", "the legacy blob database"),
    ("enable_blob_files", "blob files"),
    ("enable_blob_direct_write", "blob files"),
    ("use_blob_cache", "blob files"),
    ("transaction_db", "transactions"),
    ("optimistic_transaction_db", "transactions"),
    ("use_secondary_db", "secondary instances"),
    ("open_as_follower", "followers"),
    ("leader_path", "followers"),
    ("trace_file", "workload traces"),
    ("block_cache_trace_file", "block cache traces"),
    ("env_uri", "environments by URI"),
    ("fs_uri", "file systems by URI"),
    ("simulate_hdd", "simulated disks"),
    ("simulate_hybrid_fs_file", "simulated disks"),
    ("fault_injection_read_after_reads", "fault injection"),
    ("use_plain_table", "plain tables"),
    ("use_cuckoo_table", "cuckoo tables"),
    ("read_cache_path", "persistent read caches"),
    ("secondary_cache_uri", "secondary caches"),
    ("use_compressed_secondary_cache", "secondary caches"),
    ("use_tiered_cache", "tiered caches"),
    ("cache_uri", "caches by URI"),
    ("row_cache_size", "row caches"),
    ("simcache_size", "simulated caches"),
    ("use_cache_memkind_kmem_allocator", "other memory allocators"),
    ("num_hot_column_families", "hot column families"),
    ("sine_write_rate", "sine-shaped rates"),
    ("sine_mix_rate", "sine-shaped rates"),
    ("disposable_entries_batch_size", "disposable entries"),
    ("persistent_entries_batch_size", "disposable entries"),
    ("compression_manager", "compression managers"),
    ("use_trie_index", "trie indexes"),
    ("report_file_operations", "counting file operations"),
    ("statistics_string", "statistics objects from a string"),
    ("use_keep_filter", "compaction filters by flag"),
];

/// The message about the first flag that cannot be honoured.
///
/// # Errors
/// The message, for stderr.
pub fn check(flags: &BenchFlags) -> Result<(), String> {
    let defaults = BenchFlags::default();
    for (name, feature) in REFUSED {
        if let Some(spec) = BenchFlags::specs().iter().find(|spec| spec.name == *name)
            && (spec.get)(flags) != (spec.get)(&defaults)
        {
            return Err(format!("--{name}={}: not supported: {feature}", (spec.get)(flags)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_flags_exist_and_defaults_pass() {
        assert_eq!(check(&BenchFlags::default()), Ok(()));
        for (name, _) in REFUSED {
            assert!(BenchFlags::specs().iter().any(|spec| spec.name == *name), "{name}");
        }
    }

    #[test]
    fn the_message_names_flag_and_feature() {
        let flags = BenchFlags { transaction_db: true, ..Default::default() };
        assert_eq!(check(&flags), Err("--transaction_db=true: not supported: transactions".to_owned()));
    }
}
