//! Writers of external files that fit a column family.

use firn_env::FileOptions;
use firn_format::comparator::InternalKeyComparator;
use firn_format::compression::CompressionType;
use firn_format::unique_id::encode_session_id;
use firn_table::options::TableFactory;
use firn_table::{SstFileWriter, TableBuilderOptions};

use crate::options::{ColumnFamilyOptions, Options};

/// A writer of tables that [`Db::ingest_external_file`](crate::Db::ingest_external_file) adds to a column family with the
/// options `options.cf`: same order of keys, same layout, compressed as the bottommost level is.
///
/// Keys must be put in ascending order. A file is complete and durable when [`SstFileWriter::finish`] returned.
///
/// ```
/// # fn main() -> firndb::Result<()> {
/// # let temp = tempfile::tempdir().expect("a temporary directory");
/// # let (path, file) = (temp.path().join("db"), temp.path().join("peaks.sst"));
/// use firndb::options::IngestExternalFileOptions;
/// use firndb::{Db, Options, sst_file_writer};
///
/// let mut options = Options::default();
/// options.db.create_if_missing = true;
/// let mut writer = sst_file_writer(&options);
/// writer.open(&file)?;
/// writer.put(b"k2", b"8611")?;
/// writer.put(b"lhotse", b"8516")?;
/// writer.finish()?;
/// let db = Db::open(&path, options)?;
/// db.ingest_external_file(db.default_cf(), &[&file], &IngestExternalFileOptions::default())?;
/// assert_eq!(db.get("k2")?.as_deref(), Some(&b"8611"[..]));
/// # Ok(())
/// # }
/// ```
pub fn sst_file_writer(options: &Options) -> SstFileWriter {
    let env = options.db.env.clone();
    let entropy = env.entropy();
    let session_id = encode_session_id(entropy.next_u64(), entropy.next_u64());
    let host_id = match options.db.db_host_id.as_str() {
        "__hostname__" => env.host_name(),
        other => other.to_owned(),
    };
    let file_options = FileOptions {
        use_direct_writes: options.db.use_direct_io_for_flush_and_compaction,
        bytes_per_sync: options.db.bytes_per_sync,
        ..FileOptions::default()
    };
    let cf = options.cf.clone();
    SstFileWriter::new(env, file_options, session_id, Box::new(move || table_options(&cf, &host_id)))
}

fn table_options(cf: &ColumnFamilyOptions, host_id: &str) -> TableBuilderOptions {
    let table = match &cf.table_factory {
        TableFactory::BlockBased(table) => table.clone(),
        TableFactory::Plain(_) | TableFactory::Cuckoo(_) => Default::default(),
    };
    let bottommost = cf.bottommost_compression != CompressionType::DisableOption;
    let compression = match cf.compression_per_level.last() {
        _ if bottommost => cf.bottommost_compression,
        Some(last) => *last,
        None => cf.compression,
    };
    let own_parameters = bottommost && cf.bottommost_compression_opts.enabled;
    TableBuilderOptions {
        comparator: InternalKeyComparator::new(std::sync::Arc::clone(&cf.comparator)),
        table,
        compression,
        compression_options: if own_parameters {
            cf.bottommost_compression_opts.clone()
        } else {
            cf.compression_opts.clone()
        },
        prefix_extractor: cf.prefix_extractor.clone(),
        merge_operator_name: cf.merge_operator.as_ref().map(|operator| operator.name().to_owned()),
        db_host_id: host_id.to_owned(),
        ..TableBuilderOptions::default()
    }
}
