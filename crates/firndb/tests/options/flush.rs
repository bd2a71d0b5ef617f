//! What flushes do beside writing.

use std::sync::{Arc, Mutex};

use firndb::options::{
    CompactionFilter, CompactionFilterFactory, FilterContext, FilterDecision, FilterValueType, FlushOptions,
    TableCreationReason,
};
use firndb::{Db, Options};

use crate::options;

/// Removes `drop*`, changes `change*`, and passes over everything between `skip` and `t`.
struct Filter;

impl CompactionFilter for Filter {
    fn name(&self) -> &str {
        "Filter"
    }

    fn filter(&self, level: usize, user_key: &[u8], _: FilterValueType, _: &[u8]) -> FilterDecision {
        assert_eq!(level, 0);
        match user_key {
            key if key.starts_with(b"drop") => FilterDecision::Remove,
            key if key.starts_with(b"change") => FilterDecision::ChangeValue(b"changed".to_vec()),
            b"skip" => FilterDecision::RemoveAndSkipUntil(b"t".to_vec()),
            _ => FilterDecision::Keep,
        }
    }
}

/// Filters the tables that are written for some reason, and remembers what it was asked for.
struct Factory {
    reason: TableCreationReason,
    made: Mutex<Vec<TableCreationReason>>,
}

impl CompactionFilterFactory for Factory {
    fn name(&self) -> &str {
        "Factory"
    }

    fn filters(&self, reason: TableCreationReason) -> bool {
        reason == self.reason
    }

    fn create(&self, context: &FilterContext) -> Option<Arc<dyn CompactionFilter>> {
        self.made.lock().unwrap().push(context.reason);
        Some(Arc::new(Filter))
    }
}

fn with_factory(reason: TableCreationReason) -> (Options, Arc<Factory>) {
    let factory = Arc::new(Factory { reason, made: Mutex::default() });
    (options(|o| o.cf.compaction_filter_factory = Some(Arc::clone(&factory) as _)), factory)
}

fn fill(db: &Db) {
    for key in ["change1", "drop1", "drop2", "keep", "skip", "skip1", "skip2", "t"] {
        db.put(key, "value").unwrap();
    }
}

fn contents(db: &Db) -> Vec<String> {
    db.iter()
        .map(|entry| {
            entry.map(|(key, value)| String::from_utf8([key, b"=".to_vec(), value].concat()).unwrap()).unwrap()
        })
        .collect()
}

const FILTERED: [&str; 3] = ["change1=changed", "keep=value", "t=value"];

#[test]
fn a_flush_filters_when_the_factory_says_so() {
    for reason in [TableCreationReason::Flush, TableCreationReason::Compaction] {
        let dir = tempfile::tempdir().unwrap();
        let (options, factory) = with_factory(reason);
        let db = Db::open(dir.path(), options).unwrap();
        fill(&db);
        db.flush(&FlushOptions::default(), db.default_cf()).unwrap();
        if reason == TableCreationReason::Flush {
            assert_eq!(contents(&db), FILTERED);
            assert_eq!(*factory.made.lock().unwrap(), [TableCreationReason::Flush]);
        } else {
            assert_eq!(contents(&db).len(), 8);
        }
    }
}

#[test]
fn recovery_filters_when_the_factory_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let (options, factory) = with_factory(TableCreationReason::Recovery);
    let db = Db::open(dir.path(), options.clone()).unwrap();
    fill(&db);
    drop(db);
    let db = Db::open(dir.path(), options).unwrap();
    assert_eq!(contents(&db), FILTERED);
    assert_eq!(*factory.made.lock().unwrap(), [TableCreationReason::Recovery]);
}

#[test]
fn the_filter_of_compactions_leaves_flushes_alone() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), options(|o| o.cf.compaction_filter = Some(Arc::new(Filter)))).unwrap();
    fill(&db);
    db.flush(&FlushOptions::default(), db.default_cf()).unwrap();
    assert_eq!(contents(&db).len(), 8);
    db.compact_range(&Default::default(), db.default_cf(), None::<&[u8]>, None::<&[u8]>).unwrap();
    assert_eq!(contents(&db), FILTERED);
}
