//! The model of the hand-over of super versions: readers with a slot each, and an installer that clears their slots.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a model fails by panicking")]

use std::sync::{Arc, Weak};

use firn_env::thread;
use firn_format::comparator::InternalKeyComparator;
use firn_format::key::SequenceNumber;

use super::{SuperVersion, SuperVersionCell};
use crate::memtable::{MemTable, MemTableConfig};
use crate::options::ColumnFamilyOptions;
use crate::version::Version;

const INSTALLATIONS: u64 = 3;
const READERS: u64 = 2;

/// No reader goes back to an older super version, what a reader sees is whole, and none is kept after the next read.
pub fn super_versions_change_hands() {
    let order = InternalKeyComparator::default();
    let options = Arc::new(ColumnFamilyOptions::default());
    let version = Arc::new(Version::empty(0, order.clone(), 7));
    let make = |number: u64| {
        let mem = MemTable::new(order.clone(), &MemTableConfig::new(64 << 10), SequenceNumber(number), number);
        let (options, version) = (Arc::clone(&options), Arc::clone(&version));
        Arc::new(SuperVersion { mem: Arc::new(mem), imm: Vec::new(), version, options, number })
    };
    let first = make(0);
    let mut old: Vec<Weak<SuperVersion>> = vec![Arc::downgrade(&first)];
    let cell = Arc::new(SuperVersionCell::new(first));
    let readers: Vec<_> = (0..READERS)
        .map(|_| {
            let cell = Arc::clone(&cell);
            thread::spawn("reader", move || {
                let mut seen = 0;
                for _ in 0..3 {
                    let before = cell.number();
                    let number = cell.read(|super_version| {
                        thread::yield_now();
                        assert_eq!(super_version.mem.id(), super_version.number);
                        super_version.number
                    });
                    assert!(number >= seen, "a reader went back from {seen} to {number}");
                    assert!(number >= before, "a reader saw {number} although {before} was in force before");
                    seen = number;
                }
                // Outside of a read from within a read the slot is this thread's own.
                cell.read(|outer| cell.read(|inner| assert!(inner.number >= outer.number)));
            })
            .unwrap()
        })
        .collect();
    for number in 1..=INSTALLATIONS {
        let next = make(number);
        if number < INSTALLATIONS {
            old.push(Arc::downgrade(&next));
        }
        let retired = cell.install(next);
        assert_eq!(retired[0].number, number - 1, "the one in force before comes first");
    }
    for reader in readers {
        reader.join().unwrap();
    }
    // A reader that was in the middle of a read drops its own at the next installation, if not before.
    drop(cell.install(make(INSTALLATIONS + 1)));
    assert!(old.iter().all(|old| old.upgrade().is_none()), "an old super version is kept");
}
