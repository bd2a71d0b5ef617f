//! Merge operands: how many are kept, told and shown.

use std::sync::Arc;

use firndb::merge::StringAppendOperator;
use firndb::options::{FlushOptions, ReadOptions};
use firndb::{Db, ErrorKind, SubCode, WriteBatch};

use crate::options;

struct Setup {
    db: Db,
    _dir: tempfile::TempDir,
}

fn setup(max_successive_merges: usize, strict: bool) -> Setup {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(
        dir.path(),
        options(|o| {
            o.cf.merge_operator = Some(Arc::new(StringAppendOperator::default()));
            o.cf.max_successive_merges = max_successive_merges;
            o.cf.strict_max_successive_merges = strict;
        }),
    )
    .unwrap();
    Setup { db, _dir: dir }
}

impl Setup {
    fn operands(&self, key: &str) -> Vec<String> {
        let operands =
            self.db.get_merge_operands(&ReadOptions::default(), self.db.default_cf(), key, usize::MAX).unwrap();
        operands.into_iter().map(|operand| String::from_utf8(operand).unwrap()).collect()
    }

    fn merge(&self, operands: &[&str]) {
        operands.iter().for_each(|operand| self.db.merge("k", operand).unwrap());
    }

    fn flush(&self) {
        self.db.flush(&FlushOptions::default(), self.db.default_cf()).unwrap();
    }
}

#[test]
fn max_successive_merges_folds_operands_into_a_value() {
    let setup = setup(3, false);
    setup.merge(&["a", "b", "c"]);
    assert_eq!(setup.operands("k"), ["a", "b", "c"]);
    setup.merge(&["d"]);
    assert_eq!(setup.operands("k"), ["a,b,c,d"]);
    setup.merge(&["e"]);
    assert_eq!(setup.operands("k"), ["a,b,c,d", "e"]);
    assert_eq!(setup.db.get("k").unwrap().as_deref(), Some(&b"a,b,c,d,e"[..]));
    let unlimited = self::setup(0, false);
    unlimited.merge(&["a", "b", "c", "d"]);
    assert_eq!(unlimited.operands("k").len(), 4);
    unlimited.db.set_options(unlimited.db.default_cf(), &[("max_successive_merges", "2")]).unwrap();
    unlimited.merge(&["e"]);
    assert_eq!(unlimited.operands("k"), ["a,b,c,d,e"]);
}

#[test]
fn folding_sees_earlier_records_of_its_batch_and_the_log_gives_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let open = |limit| {
        let options = options(|o| {
            o.cf.merge_operator = Some(Arc::new(StringAppendOperator::default()));
            o.cf.max_successive_merges = limit;
        });
        Db::open(dir.path(), options).unwrap()
    };
    let db = open(1);
    let mut batch = WriteBatch::new();
    for (key, operand) in [("k", "a"), ("k", "b"), ("other", "x"), ("k", "c")] {
        batch.merge(key, operand).unwrap();
    }
    batch.delete_range("k", "l").unwrap();
    batch.merge("k", "d").unwrap();
    batch.merge("k", "e").unwrap();
    db.write(&mut batch).unwrap();
    let snapshot = ReadOptions { snapshot: Some(db.snapshot()), ..ReadOptions::default() };
    db.merge("k", "f").unwrap();
    assert_eq!(db.get_opt(&snapshot, db.default_cf(), "k").unwrap().as_deref(), Some(&b"d,e"[..]));
    assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"d,e,f"[..]));
    drop(snapshot);
    drop(db);
    assert_eq!(open(0).get("k").unwrap().as_deref(), Some(&b"d,e,f"[..]));
}

#[test]
fn strict_max_successive_merges_reads_files_to_fold() {
    for strict in [false, true] {
        let setup = setup(1, strict);
        setup.db.put("k", "base").unwrap();
        setup.flush();
        setup.merge(&["a", "b"]);
        let expected: &[&str] = if strict { &["base,a,b"] } else { &["base", "a", "b"] };
        assert_eq!(setup.operands("k"), expected);
    }
}

#[test]
fn get_merge_operands_gives_base_and_operands_from_everywhere() {
    let setup = setup(0, false);
    setup.db.put("k", "base").unwrap();
    setup.flush();
    setup.merge(&["a"]);
    setup.flush();
    setup.merge(&["b"]);
    setup.db.put("plain", "value").unwrap();
    assert_eq!(setup.operands("k"), ["base", "a", "b"]);
    assert_eq!(setup.operands("plain"), ["value"]);
    assert_eq!(setup.operands("absent"), [""; 0]);
    let limited = |limit| setup.db.get_merge_operands(&ReadOptions::default(), setup.db.default_cf(), "k", limit);
    assert_eq!(limited(3).unwrap().len(), 3);
    let error = limited(2).unwrap_err();
    assert_eq!((error.kind(), error.subcode()), (ErrorKind::Incomplete, SubCode::MergeOperandsInsufficientCapacity));
    setup.db.delete("k").unwrap();
    setup.merge(&["c"]);
    assert_eq!(setup.operands("k"), ["c"]);
}

#[test]
fn merge_operand_count_threshold_marks_reads_that_merged_more() {
    let setup = setup(0, false);
    setup.merge(&["a", "b", "c"]);
    setup.db.put("plain", "value").unwrap();
    let read = |key: &str, threshold| {
        let options = ReadOptions { merge_operand_count_threshold: threshold, ..ReadOptions::default() };
        let (value, subcode) = setup.db.get_with_subcode(&options, setup.db.default_cf(), key).unwrap();
        assert!(value.is_some());
        subcode
    };
    assert_eq!(read("k", None), SubCode::None);
    assert_eq!(read("k", Some(3)), SubCode::None);
    assert_eq!(read("k", Some(2)), SubCode::MergeOperandThresholdExceeded);
    assert_eq!(read("plain", Some(0)), SubCode::None);
}
