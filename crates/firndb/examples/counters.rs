//! Counters that never read before they write: a merge operator adds 64-bit numbers, many threads count at once.
//!
//! `cargo run --release -p firndb --example counters [directory]`

use std::sync::Arc;

use firndb::env::thread;
use firndb::merge::UInt64AddOperator;
use firndb::{Db, Options};

const THREADS: usize = 4;
const VISITS_PER_THREAD: usize = 50_000;
const PAGES: [&str; 3] = ["/", "/about", "/prices"];

fn main() -> firndb::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "/tmp/firn-counters".to_owned());
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.cf.merge_operator = Some(Arc::new(UInt64AddOperator));
    let db = Db::open(&path, options)?;

    let counters: Vec<_> = (0..THREADS)
        .map(|number| {
            let db = db.clone();
            thread::spawn(format!("counter{number}"), move || -> firndb::Result<()> {
                for visit in 0..VISITS_PER_THREAD {
                    // No read, no lock: the additions are done when somebody looks, or by a compaction.
                    db.merge(PAGES[(visit + number) % PAGES.len()], 1_u64.to_le_bytes())?;
                }
                Ok(())
            })
        })
        .collect::<firndb::Result<_>>()?;
    for counter in counters {
        match counter.join() {
            Ok(outcome) => outcome?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    let mut total = 0;
    for entry in db.iter() {
        let (page, count) = entry?;
        let count = count.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        println!("{:>8} {count}", String::from_utf8_lossy(&page));
        total += count;
    }
    println!("{total} visits in all runs so far");
    db.close()
}
