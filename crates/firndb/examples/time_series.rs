//! A time series: keys are a sensor and a big-endian time, so that one sensor's readings lie side by side in order of time. Prefix
//! scans read one sensor, bounded ranges one stretch of time, and one range deletion forgets what is old.
//!
//! `cargo run --release -p firndb --example time_series [directory]`

use std::sync::Arc;

use firndb::options::{BlockBasedTableOptions, FilterPolicy, TableFactory};
use firndb::slice_transform::FixedPrefix;
use firndb::{Db, Options};

const SENSORS: u32 = 20;
const READINGS: u64 = 5_000;

/// Sensor (4 bytes) and time in seconds (8 bytes), both big-endian: bytewise order is the order of sensors and of time.
fn key(sensor: u32, seconds: u64) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&sensor.to_be_bytes());
    key[4..].copy_from_slice(&seconds.to_be_bytes());
    key
}

fn main() -> firndb::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "/tmp/firn-time-series".to_owned());
    let mut options = Options::default();
    options.db.create_if_missing = true;
    // Tables remember which sensors they hold, so that a scan of one sensor skips the tables without it.
    options.cf.prefix_extractor = Some(Arc::new(FixedPrefix::new(4)));
    options.cf.table_factory = TableFactory::BlockBased(BlockBasedTableOptions {
        filter_policy: Some(FilterPolicy::bloom(10.0)),
        ..BlockBasedTableOptions::default()
    });
    let db = Db::open(&path, options)?;

    for seconds in 0..READINGS {
        for sensor in 0..SENSORS {
            let degrees = 20.0 + (seconds as f64 / 500.0 + f64::from(sensor)).sin() * 5.0;
            db.put(key(sensor, seconds), degrees.to_le_bytes())?;
        }
    }

    // One sensor, all of it.
    let (mut count, mut sum) = (0_u64, 0.0);
    for entry in db.prefix(7_u32.to_be_bytes()) {
        let (_, degrees) = entry?;
        sum += degrees.first_chunk().map_or(0.0, |bytes| f64::from_le_bytes(*bytes));
        count += 1;
    }
    println!("sensor 7: {count} readings, {:.2} degrees on average", sum / count as f64);

    // One sensor, one hour, the last three of it, newest first.
    let hour = db.range(key(7, 1000)..key(7, 4600)).rev().take(3).collect::<firndb::Result<Vec<_>>>()?;
    for (key, _) in &hour {
        let seconds = key.last_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        println!("sensor 7 was read at second {seconds}");
    }

    // Forget the first hour of every sensor: one record each, whatever their number.
    for sensor in 0..SENSORS {
        db.delete_range(key(sensor, 0), key(sensor, 3600))?;
    }
    println!("{} readings are left", db.iter().count());
    db.close()
}
