//! The working copies of the flags that one benchmark of the list may change for itself.

use super::bench_flags::BenchFlags;
use super::keys::KeyLayout;
use super::values::SizeDistribution;

/// What one benchmark runs with. Counts are per thread.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The benchmark's name, as printed.
    pub name: String,
    /// Destroy the database first.
    pub fresh: bool,
    /// Measured threads.
    pub threads: usize,
    /// Whether one more thread runs in the background as thread 0.
    pub background: bool,
    /// Whether that background thread merges instead of putting.
    pub background_merges: bool,
    /// Key-space size, at least 1.
    pub num: u64,
    /// Read operations.
    pub reads: u64,
    /// Write operations.
    pub writes: u64,
    /// Delete operations.
    pub deletes: u64,
    /// Operations of mixed benchmarks.
    pub readwrites: u64,
    /// Key space of merge benchmarks, at least 1.
    pub merge_keys: u64,
    /// Key layout.
    pub keys: KeyLayout,
    /// Value sizes.
    pub sizes: SizeDistribution,
    /// Entries per batch, at least 1.
    pub batch_size: u64,
    /// Sync every write.
    pub sync: bool,
    /// Skip the WAL.
    pub disable_wal: bool,
}

fn count(value: i64, default: u64) -> u64 {
    u64::try_from(value).unwrap_or(default)
}

/// Value sizes as the flags say; `None` for an unknown distribution.
pub fn value_sizes(flags: &BenchFlags) -> Option<SizeDistribution> {
    let size = |value: i32| usize::try_from(value).unwrap_or(0);
    let (min, max) = (size(flags.value_size_min), size(flags.value_size_max));
    Some(match flags.value_size_distribution_type.to_ascii_lowercase().as_str() {
        "fixed" => SizeDistribution::Fixed(size(flags.value_size)),
        "uniform" => SizeDistribution::Uniform { min, max },
        "normal" => SizeDistribution::Normal { min, max },
        _ => return None,
    })
}

impl Setup {
    /// Fresh copies for the benchmark `name`.
    pub fn new(name: &str, flags: &BenchFlags) -> Self {
        let num = count(flags.num, 0);
        let readwrites = match (flags.reads, flags.writes) {
            (reads, writes) if reads < 0 && writes < 0 => num,
            (reads, writes) => count(reads.max(writes), num),
        };
        Self {
            name: name.to_owned(),
            fresh: false,
            threads: usize::try_from(flags.threads).unwrap_or(1).max(1),
            background: false,
            background_merges: false,
            num: num.max(1),
            reads: count(flags.reads, num),
            writes: count(flags.writes, num),
            deletes: count(flags.deletes, num),
            readwrites,
            merge_keys: count(flags.merge_keys, num).max(1),
            keys: KeyLayout {
                key_size: usize::try_from(flags.key_size).unwrap_or(0),
                prefix_size: usize::try_from(flags.prefix_size).unwrap_or(0),
                keys_per_prefix: count(flags.keys_per_prefix, 0),
            },
            sizes: value_sizes(flags).unwrap_or(SizeDistribution::Fixed(0)),
            batch_size: count(flags.batch_size, 1).max(1),
            sync: flags.sync,
            disable_wal: flags.disable_wal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_default_to_num() {
        let flags = BenchFlags { num: 500, reads: 7, ..Default::default() };
        let setup = Setup::new("x", &flags);
        assert_eq!((setup.reads, setup.writes, setup.deletes, setup.merge_keys), (7, 500, 500, 500));
        assert_eq!(setup.readwrites, 7);
        let flags = BenchFlags { num: 500, ..Default::default() };
        assert_eq!(Setup::new("x", &flags).readwrites, 500);
        assert_eq!(Setup::new("x", &BenchFlags { num: -5, ..Default::default() }).num, 1);
    }
}
