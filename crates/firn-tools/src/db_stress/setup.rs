//! What a generation runs with: options drawn at random from everything supported, and what they promise.
//!
//! A seed and the number of a generation flow in; options, their text and the [`Survival`] of writes flow out. The same
//! seed and number draw the same options, on any machine.

use std::hash::{DefaultHasher, Hash, Hasher};

use firn_check::recipe::{self, Fixed, Merge};
use firndb::options::WalRecoveryMode;
use firndb::{ColumnFamilyDescriptor, ColumnFamilyOptions, DbOptions};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::expected::Survival;

/// A source of random numbers for one purpose; purposes do not disturb each other.
pub fn random(seed: u64, purpose: impl Hash) -> StdRng {
    let mut hasher = DefaultHasher::new();
    (seed, purpose).hash(&mut hasher);
    StdRng::seed_from_u64(hasher.finish())
}

/// What a generation runs with.
pub struct Setup {
    /// The options of the database.
    pub db: DbOptions,
    /// Their text.
    pub text: String,
    /// What a kill may take.
    pub survival: Survival,
    /// Whether writes skip the WAL.
    pub disable_wal: bool,
    seed: u64,
    generation: u64,
}

impl Setup {
    /// Draws the options of a generation; `clean` tells that the database was closed before.
    pub fn draw(seed: u64, generation: u64, clean: bool) -> Self {
        let recycles = random(seed, "recycle").random_bool(0.25);
        let mut rng = random(seed, ("database", generation));
        let (mut db, mut text) = recipe::database(&mut rng, recycles);
        db.create_missing_column_families = true;
        db.keep_log_file_num = 3;
        if !clean && db.wal_recovery_mode == WalRecoveryMode::AbsoluteConsistency {
            // A kill may tear the last record, which this mode is there to refuse.
            db.wal_recovery_mode = WalRecoveryMode::PointInTimeRecovery;
            text.push_str(";wal_recovery_mode=kPointInTimeRecovery");
        }
        let disable_wal = db.recycle_log_file_num == 0 && !db.manual_wal_flush && rng.random_bool(0.2);
        if disable_wal {
            db.avoid_flush_during_shutdown = false;
            text.push_str(" (disable_wal)");
        }
        let survival = match (disable_wal, db.atomic_flush) {
            (true, false) => Survival::PrefixOfEachFamily,
            (true, true) => Survival::Prefix,
            (false, _) if db.manual_wal_flush => Survival::Prefix,
            (false, _) => Survival::Everything,
        };
        Self { db, text, survival, disable_wal, seed, generation }
    }

    /// The options of a column family, and their text.
    pub fn column_family(&self, name: &str) -> (ColumnFamilyOptions, String) {
        let drawn = Fixed::draw(&mut random(self.seed, ("fixed", name)));
        let fixed = Fixed { merge: Merge::StringAppend, reversed: false, ..drawn };
        let (mut options, text) = recipe::column_family(&mut random(self.seed, (name, self.generation)), &fixed);
        // Small enough that flushes and compactions happen all the time.
        options.write_buffer_size = options.write_buffer_size.min(200_000);
        (options, text)
    }

    /// Descriptors of the families called `names`.
    pub fn descriptors<'n>(&self, names: impl IntoIterator<Item = &'n String>) -> Vec<ColumnFamilyDescriptor> {
        names.into_iter().map(|name| ColumnFamilyDescriptor::new(name.clone(), self.column_family(name).0)).collect()
    }
}

/// The column families that every open creates when they are missing.
pub fn fixed_families(count: u32) -> Vec<String> {
    let name = |number| if number == 0 { "default".to_owned() } else { format!("cf{number}") };
    (0..count.max(1)).map(name).collect()
}
