//! The quick start: open, write, read, scan, batch, close.
//!
//! `cargo run --release -p firndb --example quick_start [directory]`

use firndb::{Db, Options, WriteBatch};

fn main() -> firndb::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "/tmp/firn-quick-start".to_owned());
    let mut options = Options::default();
    options.db.create_if_missing = true;
    let db = Db::open(&path, options)?;

    // Single writes survive the end of the process as soon as they return.
    db.put("mont blanc", "4806")?;
    db.put("kilimanjaro", "5895")?;
    db.put("zugspitze", "2962")?;
    db.delete("zugspitze")?;

    // A value is pinned where it lies in memory, not copied.
    match db.get("kilimanjaro")? {
        Some(height) => println!("kilimanjaro: {} m", String::from_utf8_lossy(&height)),
        None => println!("kilimanjaro is not there"),
    }

    // A batch happens as a whole or not at all.
    let mut batch = WriteBatch::new();
    batch.put("elbrus", "5642")?;
    batch.put("vinson", "4892")?;
    batch.delete("mont blanc")?;
    db.write(&mut batch)?;

    // Iterators are double-ended and go over a consistent view.
    for entry in db.iter() {
        let (name, height) = entry?;
        println!("{:>12} {} m", String::from_utf8_lossy(&name), String::from_utf8_lossy(&height));
    }
    let from_f = db.range("f"..).rev().collect::<firndb::Result<Vec<_>>>()?;
    println!("{} peaks from f on", from_f.len());

    // Dropping the handle closes too; calling it shows what went wrong.
    db.close()
}
