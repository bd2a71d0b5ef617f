//! The lines before the first benchmark: versions and machine on stderr, the shape of the work on stdout.

use std::fmt::Write as _;
use std::path::Path;

use firn_env::Env;

use super::bench_flags::BenchFlags;
use super::calendar::CivilTime;
use super::values::SizeDistribution;
use crate::ROCKSDB_VERSION;

/// Largest `/proc/cpuinfo` that is read, in bytes.
const MAX_CPU_INFO_BYTES: u64 = 4 << 20;

/// The lines for stderr: version, date, processor.
pub fn machine(env: &Env) -> String {
    let mut text = format!("RocksDB:    version {ROCKSDB_VERSION}\n");
    let _ = writeln!(text, "Date:       {}", CivilTime::from_unix(env.clock().now_secs()).ctime());
    let info = firn_env::read_file(&**env.fs(), Path::new("/proc/cpuinfo"), MAX_CPU_INFO_BYTES).unwrap_or_default();
    let info = String::from_utf8_lossy(&info);
    let field = |name: &str| {
        let matching = info.lines().filter_map(|line| line.split_once(':'));
        matching.filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned()).collect::<Vec<_>>()
    };
    let models = field("model name");
    if let Some(model) = models.first() {
        let _ = writeln!(text, "CPU:        {} * {model}", models.len());
    }
    if let Some(cache) = field("cache size").first() {
        let _ = writeln!(text, "CPUCache:   {cache}");
    }
    text
}

/// RocksDB's name for a compression type given as a flag value; `None` when there is no such type.
pub fn compression_label(name: &str) -> Option<&'static str> {
    Some(match name.to_ascii_lowercase().as_str() {
        "none" => "NoCompression",
        "snappy" => "Snappy",
        "zlib" => "Zlib",
        "bzip2" => "BZip2",
        "lz4" => "LZ4",
        "lz4hc" => "LZ4HC",
        "xpress" => "Xpress",
        "zstd" => "ZSTD",
        _ => return None,
    })
}

/// The factory's name for `--memtablerep`.
pub fn memtable_label(name: &str) -> String {
    match name {
        "skip_list" => "SkipListFactory".to_owned(),
        "vector" => "VectorRepFactory".to_owned(),
        "prefix_hash" => "HashSkipListRepFactory".to_owned(),
        "hash_linkedlist" => "HashLinkListRepFactory".to_owned(),
        other => match other.strip_prefix("skip_list:") {
            Some(lookahead) => format!("SkipListFactory:{lookahead}"),
            None => other.to_owned(),
        },
    }
}

/// The lines for stdout.
pub fn workload(flags: &BenchFlags, sizes: SizeDistribution) -> String {
    let mut text = String::new();
    let ratio = flags.compression_ratio;
    let key_size = flags.key_size;
    let _ = writeln!(
        text,
        "Keys:       {key_size} bytes each (+ {} bytes user-defined timestamp)",
        flags.user_timestamp_size
    );
    let average = match sizes {
        SizeDistribution::Fixed(size) => {
            let _ = writeln!(
                text,
                "Values:     {size} bytes each ({} bytes after compression)",
                (size as f64 * ratio + 0.5) as i64
            );
            size as f64
        }
        SizeDistribution::Uniform { min, max } | SizeDistribution::Normal { min, max } => {
            let average = (min + max) / 2;
            let _ = writeln!(
                text,
                "Values:     {average} avg bytes each ({} bytes after compression)",
                (average as f64 * ratio + 0.5) as i64
            );
            let _ =
                writeln!(text, "Values Distribution: {} (min: {min}, max: {max})", flags.value_size_distribution_type);
            average as f64
        }
    };
    let num = flags.num as f64;
    let key = f64::from(key_size);
    let _ = writeln!(text, "Entries:    {}", flags.num as u64);
    let _ = writeln!(text, "Prefix:    {} bytes", flags.prefix_size);
    let _ = writeln!(text, "Keys per prefix:    {}", flags.keys_per_prefix);
    let _ = writeln!(text, "RawSize:    {:.1} MB (estimated)", (key + average) * num / 1_048_576.0);
    let _ = writeln!(text, "FileSize:   {:.1} MB (estimated)", (key + average * ratio) * num / 1_048_576.0);
    let _ = writeln!(text, "Write rate: {} bytes/second", flags.benchmark_write_rate_limit);
    let _ = writeln!(text, "Read rate: {} ops/second", flags.benchmark_read_rate_limit);
    let _ = writeln!(text, "Compression: {}", compression_label(&flags.compression_type).unwrap_or("Unknown"));
    let _ = writeln!(text, "Compression sampling rate: {}", flags.sample_for_compression);
    let _ = writeln!(text, "Memtablerep: {}", memtable_label(&flags.memtablerep));
    let _ = writeln!(text, "Perf Level: {}", flags.perf_level);
    if cfg!(debug_assertions) {
        text.push_str("WARNING: Assertions are enabled; benchmarks unnecessarily slow\n");
    }
    text.push_str("------------------------------------------------\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_of_the_specification() {
        let flags = BenchFlags {
            key_size: 20,
            num: 200_000,
            compression_type: "lz4".to_owned(),
            memtablerep: "vector".to_owned(),
            ..Default::default()
        };
        let text = workload(&flags, SizeDistribution::Fixed(400));
        for line in [
            "Keys:       20 bytes each (+ 0 bytes user-defined timestamp)\n",
            "Values:     400 bytes each (200 bytes after compression)\n",
            "Entries:    200000\nPrefix:    0 bytes\nKeys per prefix:    0\n",
            "RawSize:    80.1 MB (estimated)\nFileSize:   42.0 MB (estimated)\n",
            "Compression: LZ4\nCompression sampling rate: 0\nMemtablerep: VectorRepFactory\nPerf Level: 1\n",
        ] {
            assert!(text.contains(line), "{line} is missing in {text}");
        }
    }
}
