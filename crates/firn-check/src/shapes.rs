//! The shapes at which engines break: keys at the ends of files, and files that meet at one user key.

use firndb::{ColumnFamily, Db};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};

/// The user keys at which files of a family begin or end.
pub fn boundaries(db: &Db, cf: &ColumnFamily) -> Vec<Vec<u8>> {
    let files = db.live_files().into_iter().filter(|file| file.column_family == cf.name());
    files.flat_map(|file| [file.smallest_key, file.largest_key]).collect()
}

/// A key beside `key`: the next one, a shorter one, or one whose last byte differs by one.
pub fn near(rng: &mut StdRng, key: &[u8]) -> Vec<u8> {
    let mut near = key.to_vec();
    match (rng.random_range(0..4), near.last_mut()) {
        (1, Some(_)) => _ = near.pop(),
        (2, Some(last)) => *last = last.wrapping_add(1),
        (3, Some(last)) => *last = last.wrapping_sub(1),
        _ => near.push(0),
    }
    near
}

/// One write to a file that is being laid; values are the caller's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Laid {
    /// A value.
    Put(Vec<u8>),
    /// An operand; a value where there is no merge operator.
    Merge(Vec<u8>),
    /// A deletion.
    Delete(Vec<u8>),
    /// A range deletion.
    DeleteRange(Vec<u8>, Vec<u8>),
}

/// What goes into each of a few files, one flush each, so that neighbours meet at one user key: the one ends with it, the
/// other begins with it, by an entry or by the end of a range deletion. In between lie some entries, and perhaps nothing of
/// whole prefixes. `keys` are distinct and in the family's order; without enough of them there are no files.
///
/// Such files do not overlap by their internal keys when the newer one lies before the older one, so a compaction may move
/// them side by side to one level.
pub fn touching_files(rng: &mut StdRng, keys: &[Vec<u8>]) -> Vec<Vec<Laid>> {
    let count = rng.random_range(2..5_usize).min(keys.len() / 2);
    let mut cuts: Vec<usize> = rand::seq::index::sample(rng, keys.len(), (count + 1).min(keys.len())).into_vec();
    cuts.sort_unstable();
    let pairs = cuts.iter().zip(cuts.iter().skip(1));
    let mut files: Vec<Vec<Laid>> =
        pairs.filter_map(|(from, to)| keys.get(*from..=*to)).map(|keys| file(rng, keys)).collect();
    match rng.random_range(0..4) {
        // The newest one lies first.
        0 | 1 => files.reverse(),
        2 => files.shuffle(rng),
        _ => {}
    }
    files
}

/// Writes from the first of `keys` to the last one.
fn file(rng: &mut StdRng, keys: &[Vec<u8>]) -> Vec<Laid> {
    let (Some(first), Some(last)) = (keys.first(), keys.last()) else { return Vec::new() };
    let end = keys.len() - 1;
    let mut ranges = Vec::new();
    if rng.random_bool(0.6) {
        ranges.push((0, rng.random_range(0..=end)));
    }
    if rng.random_bool(0.3) {
        ranges.push((rng.random_range(0..=end), end));
    }
    if rng.random_bool(0.4) {
        let from = rng.random_range(0..=end);
        ranges.push((from, rng.random_range(from..=end)));
    }
    // Range deletions first, so that the entries of the file stay.
    let ends = |(from, to)| Some(Laid::DeleteRange(keys.get(from).cloned()?, keys.get(to).cloned()?));
    let mut writes: Vec<Laid> = ranges.into_iter().filter(|(from, to)| from < to).filter_map(ends).collect();
    for key in [first, last] {
        if rng.random_bool(0.75) {
            writes.push(point(rng, key));
        }
    }
    let between = rng.random_range(0..4);
    let between: Vec<&Vec<u8>> = keys.choose_multiple(rng, between).collect();
    writes.extend(between.into_iter().map(|key| point(rng, key)));
    writes
}

fn point(rng: &mut StdRng, key: &[u8]) -> Laid {
    match rng.random_range(0..10) {
        0..5 => Laid::Put(key.to_vec()),
        5..9 => Laid::Merge(key.to_vec()),
        _ => Laid::Delete(key.to_vec()),
    }
}
