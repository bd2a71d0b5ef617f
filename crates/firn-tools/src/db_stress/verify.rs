//! Whether what was found in the database can be what the operations of the last generation leave. Pure.
//!
//! Threads own ranges of keys, so the contents of a range tell how many operations of its thread survived. In: what was
//! known, what was found. Out: nothing, or what is wrong in words. The rules: what must survive did; each range is the result
//! of its thread's operations up to one of them, batches as a whole; and no operation survived that began after a lost one
//! had returned.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::contents::{Contents, Op};
use super::expected::{Entry, Known, Survival};

/// How many differences a message shows.
const SHOWN: usize = 5;

/// Column families by name.
pub type Families = BTreeMap<String, Contents>;

/// The keys of each thread: equal parts of the key space.
#[derive(Clone, Copy, Debug)]
pub struct KeyRanges {
    /// Keys per thread.
    pub keys_per_thread: u32,
}

impl KeyRanges {
    /// The keys of a thread.
    pub fn of(self, thread: usize) -> Range<u32> {
        let first = u32::try_from(thread).unwrap_or(u32::MAX).saturating_mul(self.keys_per_thread);
        first..first.saturating_add(self.keys_per_thread)
    }
}

/// Checks what was found against what is known; `fixed` names the families that every open creates when they are missing.
///
/// # Errors
/// What is wrong, in words.
pub fn verify(known: &Known, found: &Families, ranges: KeyRanges, fixed: &[String]) -> Result<(), String> {
    check_families(known, found, fixed)?;
    let names: Vec<&String> = found.keys().collect();
    let scopes: Vec<Vec<&String>> = match known.state.survival {
        Survival::PrefixOfEachFamily => names.into_iter().map(|name| vec![name]).collect(),
        Survival::Everything | Survival::Prefix => vec![names],
    };
    for scope in scopes {
        let threads = known.threads.len().max(1);
        let none = Vec::new();
        let survived = (0..threads)
            .map(|thread| {
                let entries = known.threads.get(thread).unwrap_or(&none);
                let search = Search { known, found, scope: &scope, range: ranges.of(thread), entries };
                search.survived(required(known, entries)).map_err(|text| format!("thread {thread}: {text}"))
            })
            .collect::<Result<Vec<_>, String>>()?;
        check_holes(known, &survived)?;
    }
    Ok(())
}

/// Families come and go durably, whatever the WAL does.
fn check_families(known: &Known, found: &Families, fixed: &[String]) -> Result<(), String> {
    let mut must: BTreeSet<&String> = known.state.families.keys().collect();
    let mut may: BTreeSet<&String> = fixed.iter().collect();
    for entry in known.threads.iter().flatten() {
        match (&entry.op, entry.done.is_some()) {
            (Op::CreateFamily(name), true) => _ = must.insert(name),
            (Op::DropFamily(name), true) => _ = must.remove(name),
            (Op::CreateFamily(name), false) => _ = may.insert(name),
            (Op::DropFamily(name), false) => {
                must.remove(name);
                may.insert(name);
            }
            (Op::Write(_) | Op::Persist, _) => {}
        }
    }
    if let Some(lost) = must.iter().find(|name| !found.contains_key(**name)) {
        return Err(format!("column family {lost} is gone"));
    }
    match found.keys().find(|name| !must.contains(name) && !may.contains(name)) {
        Some(extra) => Err(format!("column family {extra} should not be there")),
        None => Ok(()),
    }
}

/// How many of a thread's operations must have survived.
fn required(known: &Known, entries: &[Entry]) -> usize {
    let persisted = known.threads.iter().flatten().filter(|entry| entry.op == Op::Persist && entry.done.is_some());
    let persisted_before = persisted.map(|entry| entry.begun).max().unwrap_or(0);
    let all = known.closed || known.state.survival == Survival::Everything;
    let must = |entry: &Entry| entry.done.is_some_and(|done| all || done < persisted_before);
    entries.iter().take_while(|entry| must(entry)).count()
}

/// The numbers of operations of one thread that may have survived: from the least to the greatest.
struct Survived {
    least: usize,
    greatest: usize,
}

/// The search for the point that the range of one thread is at.
struct Search<'a> {
    known: &'a Known,
    found: &'a Families,
    scope: &'a [&'a String],
    range: Range<u32>,
    entries: &'a [Entry],
}

impl Search<'_> {
    fn part(&self, families: &Families, name: &str) -> Contents {
        let part = families.get(name).map(|contents| contents.range(self.range.clone()));
        part.into_iter().flatten().map(|(key, ids)| (*key, ids.clone())).collect()
    }

    /// Walks through the operations and compares after each.
    fn survived(&self, required: usize) -> Result<Survived, String> {
        let found: BTreeMap<&str, Contents> =
            self.scope.iter().map(|name| (name.as_str(), self.part(self.found, name))).collect();
        let mut model: BTreeMap<&str, Contents> =
            self.scope.iter().map(|name| (name.as_str(), self.part(&self.known.state.families, name))).collect();
        let mut different: BTreeSet<(&str, u32)> = BTreeSet::new();
        for name in self.scope {
            let (model, found) = (&model[name.as_str()], &found[name.as_str()]);
            let keys = model.keys().chain(found.keys());
            different.extend(keys.filter(|key| model.get(key) != found.get(key)).map(|key| (name.as_str(), *key)));
        }
        let mut matching = Vec::new();
        let mut at_required = String::new();
        for count in 0..=self.entries.len() {
            if count > 0
                && let Op::Write(changes) = &self.entries[count - 1].op
            {
                for (family, change) in changes {
                    let Some((name, contents)) =
                        model.get_key_value(family.as_str()).map(|(name, _)| *name).zip(model.get_mut(family.as_str()))
                    else {
                        continue;
                    };
                    for key in change.apply(contents) {
                        if contents.get(&key) == found[name].get(&key) {
                            different.remove(&(name, key));
                        } else {
                            different.insert((name, key));
                        }
                    }
                }
            }
            if different.is_empty() {
                matching.push(count);
            }
            if count == required {
                let show = |(name, key): &(&str, u32)| {
                    format!("{name} key {key}: found {:?}, expected {:?}", found[name].get(key), model[name].get(key))
                };
                let shown: Vec<String> = different.iter().take(SHOWN).map(show).collect();
                at_required = format!("{} differences, such as {}", different.len(), shown.join("; "));
            }
        }
        matching.iter().copied().rfind(|count| *count >= required).map_or_else(
            || {
                let total = self.entries.len();
                Err(match matching.last() {
                    Some(last) => format!(
                        "only {last} of {total} operations survived, but {required} must have; {at_required}"
                    ),
                    None => format!(
                        "the contents are at no point of the {total} operations, of which {required} must be there; {at_required}"
                    ),
                })
            },
            |greatest| {
                let least = matching.iter().copied().find(|count| *count >= required).unwrap_or(greatest);
                Ok(Survived { least, greatest })
            },
        )
    }
}

/// What was lost must not have returned before something that survived began.
fn check_holes(known: &Known, survived: &[Survived]) -> Result<(), String> {
    let writes = |entry: &&Entry| matches!(entry.op, Op::Write(_));
    let pairs = || known.threads.iter().zip(survived);
    let lost = pairs().filter_map(|(entries, survived)| {
        let lost = entries.iter().skip(survived.greatest).filter(writes);
        lost.filter_map(|entry| entry.done).min()
    });
    let kept = pairs().filter_map(|(entries, survived)| {
        let kept = entries.iter().take(survived.least).filter(writes);
        kept.map(|entry| entry.begun).max()
    });
    match (lost.min(), kept.max()) {
        (Some(lost), Some(kept)) if lost < kept => Err(format!(
            "a hole: a write that returned at {lost} is lost, but one that began later, at {kept}, survived"
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::contents::Change;
    use super::super::expected::State;
    use super::*;

    fn put(key: u32, id: u64) -> Op {
        Op::Write(vec![("default".to_owned(), Change::Put(key, id))])
    }

    fn known(survival: Survival, threads: Vec<Vec<(u64, Option<u64>, Op)>>) -> Known {
        let families = BTreeMap::from([("default".to_owned(), Contents::new())]);
        let entry = |(begun, done, op)| Entry { begun, done, op };
        Known {
            state: State { generation: 1, survival, families },
            threads: threads.into_iter().map(|entries| entries.into_iter().map(entry).collect()).collect(),
            closed: false,
        }
    }

    fn check(known: &Known, found: &[(u32, u64)]) -> Result<(), String> {
        let contents = found.iter().map(|(key, id)| (*key, vec![*id])).collect();
        let found = BTreeMap::from([("default".to_owned(), contents)]);
        verify(known, &found, KeyRanges { keys_per_thread: 10 }, &[])
    }

    #[test]
    fn what_returned_must_be_there_and_what_did_not_may_be() {
        let history = vec![vec![(1, Some(2), put(1, 7)), (3, None, put(2, 8))]];
        let all = known(Survival::Everything, history.clone());
        check(&all, &[(1, 7)]).expect("the last write did not happen");
        check(&all, &[(1, 7), (2, 8)]).expect("the last write happened");
        assert!(check(&all, &[]).expect_err("a loss").contains("only 0 of 2"), "{:?}", check(&all, &[]));
        assert!(check(&all, &[(2, 8)]).expect_err("a hole").contains("at no point"));
        assert!(check(&all, &[(1, 9)]).expect_err("a wrong value").contains("at no point"));
        check(&known(Survival::Prefix, history.clone()), &[]).expect("a prefix");
        let mut closed = known(Survival::Prefix, history);
        closed.closed = true;
        assert!(check(&closed, &[]).is_err(), "a clean close keeps everything");
    }

    #[test]
    fn a_loss_of_one_thread_may_not_precede_what_another_kept() {
        let threads = vec![vec![(1, Some(2), put(1, 7))], vec![(3, Some(4), put(11, 8))]];
        let lossy = known(Survival::Prefix, threads.clone());
        check(&lossy, &[(1, 7)]).expect("a prefix");
        assert!(check(&lossy, &[(11, 8)]).expect_err("a hole").contains("a hole"));
        // Operations that overlap in time have no order.
        let overlapping = vec![vec![(1, Some(4), put(1, 7))], vec![(3, Some(5), put(11, 8))]];
        check(&known(Survival::Prefix, overlapping), &[(11, 8)]).expect("either may come first");
    }

    #[test]
    fn what_was_persisted_must_be_there() {
        let threads = vec![vec![(1, Some(2), put(1, 7)), (7, Some(8), put(2, 9))], vec![(3, Some(4), Op::Persist)]];
        let lossy = known(Survival::Prefix, threads);
        check(&lossy, &[(1, 7)]).expect("the persisted write");
        assert!(check(&lossy, &[]).is_err());
    }

    #[test]
    fn families_come_and_go_at_once() {
        let create = |done| known(Survival::Prefix, vec![vec![(1, done, Op::CreateFamily("new".to_owned()))]]);
        let two = BTreeMap::from([("default".to_owned(), Contents::new()), ("new".to_owned(), Contents::new())]);
        let one = BTreeMap::from([("default".to_owned(), Contents::new())]);
        let ranges = KeyRanges { keys_per_thread: 10 };
        verify(&create(Some(2)), &two, ranges, &[]).expect("created");
        assert!(verify(&create(Some(2)), &one, ranges, &[]).is_err());
        verify(&create(None), &one, ranges, &[]).expect("not created");
        verify(&create(None), &two, ranges, &[]).expect("created");
        assert!(verify(&known(Survival::Prefix, vec![]), &two, ranges, &[]).is_err());
    }
}
