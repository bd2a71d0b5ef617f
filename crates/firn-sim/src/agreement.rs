//! All ways of reading agree, at moments drawn from the seed of a run.
//!
//! A session flows in, and what its families must hold where that is known; out comes the first answer that is wrong.
//! Checks only read: they change no file, and so no operation that a crash may follow.

use std::sync::Arc;

use firn_check::{Effort, Entries, Sight};
use firndb::Snapshot;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::model::{Map, Model};
use crate::run::Session;
use crate::workload::FamilyId;

/// Of so many moments one is looked at.
const ONE_IN: u32 = 8;
/// Snapshots that a run holds at once.
const MAX_SNAPSHOTS: usize = 3;

/// Whether a moment is looked at, and how: a function of the seed and the moment.
pub(crate) fn chance(seed: u64, moment: u64) -> Option<StdRng> {
    let mut rng = StdRng::seed_from_u64(seed ^ moment.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    rng.random_ratio(1, ONE_IN).then_some(rng)
}

fn entries(map: Map) -> Arc<Entries> {
    Arc::new(map.into_iter().collect())
}

/// The newest state of all families against each other.
///
/// # Errors
/// The first answer that is wrong.
pub(crate) fn check(session: &Session, rng: &mut StdRng) -> Result<(), String> {
    for cf in session.families.values() {
        Sight::learn(&session.db, cf, None)?.check(rng, Effort::SHORT, &[])?;
    }
    Ok(())
}

/// The newest state of a family against what it must hold.
///
/// # Errors
/// The first answer that is wrong.
pub(crate) fn check_model(session: &Session, rng: &mut StdRng, model: &Model) -> Result<(), String> {
    for (family, cf) in &session.families {
        Sight::new(&session.db, cf, None, entries(model.family(*family))).check(rng, Effort::SHORT, &[])?;
    }
    Ok(())
}

/// Snapshots that a run holds, with what they must show.
#[derive(Default)]
pub(crate) struct Held(Vec<(Snapshot, Vec<FamilyId>, Model)>);

impl Held {
    /// Forgets all, as before a close.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// At random moments: checks the present and all that is held, and takes or releases a snapshot.
    ///
    /// # Errors
    /// The first answer that is wrong.
    pub(crate) fn look(&mut self, session: &Session, mut rng: StdRng, model: Model) -> Result<(), String> {
        check_model(session, &mut rng, &model)?;
        for (snapshot, families, model) in &self.0 {
            for (family, cf) in session.families.iter().filter(|(family, _)| families.contains(family)) {
                let entries = entries(model.family(*family));
                let sight = Sight::new(&session.db, cf, Some(snapshot.clone()), entries);
                sight.check(&mut rng, Effort::SHORT, &[])?;
            }
        }
        if self.0.len() == MAX_SNAPSHOTS {
            self.0.remove(rng.random_range(0..MAX_SNAPSHOTS));
        }
        self.0.push((session.db.snapshot(), session.families.keys().copied().collect(), model));
        Ok(())
    }
}
