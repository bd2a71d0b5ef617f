//! What a disk holds after a crash: synced state, changes that were not synced, and which of those survive.
//!
//! [`Change`]s flow in as a file system carries them out; [`Disk::image`] answers with the [`Tree`] that a machine finds
//! after a power failure at this moment, under a [`LossPolicy`] and a seed. Everything is a pure function of these.
//!
//! Always true here: what was synced is in every image; a change of a name survives only together with the earlier ones of
//! the same names; a rename survives as a whole or not at all; what lies under a lost directory is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::entropy::{Entropy, SeededEntropy};

/// Names a file or directory, whatever its path.
pub(super) type NodeId = usize;
pub(super) type Name = Arc<str>;

/// The root directory.
pub(super) const ROOT: NodeId = 0;

/// Unsynced data survives or is lost in pieces of so many bytes.
const SECTOR_BYTES: u64 = 512;

/// What survives of changes that were not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LossPolicy {
    /// Everything that reached the operating system: a kill of the process, not of the machine.
    KeepAll,
    /// Nothing.
    DropAll,
    /// All names, no data: files that are empty, or as they were when last synced.
    DropData,
    /// All data, no names.
    DropNames,
    /// A prefix of all changes, of all files and names, the last of them torn at any byte.
    Tear,
    /// A prefix of the changes of names; of each file, on its own, a prefix of its changes, the last torn at any byte.
    TearEach,
    /// Each change of a name, each size and each sector of data on its own.
    Scatter,
}

impl LossPolicy {
    /// All policies.
    pub const ALL: [Self; 7] =
        [Self::KeepAll, Self::DropAll, Self::DropData, Self::DropNames, Self::Tear, Self::TearEach, Self::Scatter];

    /// Whether the seed makes a difference.
    pub fn is_random(self) -> bool {
        matches!(self, Self::Tear | Self::TearEach | Self::Scatter)
    }
}

/// A file or a directory.
#[derive(Clone, Debug)]
pub(super) enum Node {
    File(Arc<Vec<u8>>),
    Directory(BTreeMap<Name, NodeId>),
}

/// Files and directories, without any history. Cheap to clone: contents are shared.
#[derive(Clone, Debug)]
pub struct Tree {
    nodes: Vec<Node>,
}

/// Something that changed, or was made durable.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// A new node, a file or a directory, under a name.
    Create { directory: NodeId, name: Name, node: NodeId, is_directory: bool },
    /// Another name of a node.
    Link { directory: NodeId, name: Name, node: NodeId },
    /// A name goes.
    Remove { directory: NodeId, name: Name },
    /// A name moves, over another one perhaps.
    Rename { from: (NodeId, Name), to: (NodeId, Name) },
    /// Bytes of a file.
    Write { node: NodeId, offset: u64, data: Arc<[u8]> },
    /// The size of a file.
    Resize { node: NodeId, size: u64 },
    /// A file's data and size are durable.
    Sync { node: NodeId },
    /// A directory's names are durable.
    SyncDirectory { node: NodeId },
}

impl Change {
    /// The names that a change is about.
    fn names(&self) -> Vec<(NodeId, &Name)> {
        match self {
            Self::Create { directory, name, .. }
            | Self::Link { directory, name, .. }
            | Self::Remove { directory, name } => {
                vec![(*directory, name)]
            }
            Self::Rename { from, to } => vec![(from.0, &from.1), (to.0, &to.1)],
            _ => Vec::new(),
        }
    }
}

fn to_index(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn write_at(bytes: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let from = to_index(offset);
    let end = from + data.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    if let Some(target) = bytes.get_mut(from..end) {
        target.copy_from_slice(data);
    }
}

impl Tree {
    /// Only the root directory.
    pub(super) fn new() -> Self {
        Self { nodes: vec![Node::Directory(BTreeMap::new())] }
    }

    /// The number of the next new node.
    pub(super) fn next_node(&self) -> NodeId {
        self.nodes.len()
    }

    pub(super) fn node(&self, node: NodeId) -> Option<&Node> {
        self.nodes.get(node)
    }

    pub(super) fn entries(&self, directory: NodeId) -> Option<&BTreeMap<Name, NodeId>> {
        match self.nodes.get(directory) {
            Some(Node::Directory(entries)) => Some(entries),
            _ => None,
        }
    }

    pub(super) fn file(&self, node: NodeId) -> Option<&Arc<Vec<u8>>> {
        match self.nodes.get(node) {
            Some(Node::File(bytes)) => Some(bytes),
            _ => None,
        }
    }

    fn file_mut(&mut self, node: NodeId) -> Option<&mut Vec<u8>> {
        match self.nodes.get_mut(node) {
            Some(Node::File(bytes)) => Some(Arc::make_mut(bytes)),
            _ => None,
        }
    }

    fn entries_mut(&mut self, directory: NodeId) -> Option<&mut BTreeMap<Name, NodeId>> {
        match self.nodes.get_mut(directory) {
            Some(Node::Directory(entries)) => Some(entries),
            _ => None,
        }
    }

    fn name(&mut self, directory: NodeId, name: &Name, node: NodeId) {
        if let Some(entries) = self.entries_mut(directory) {
            entries.insert(Arc::clone(name), node);
        }
    }

    /// How many names lead to a node.
    pub(super) fn link_count(&self, node: NodeId) -> usize {
        let count = |entry: &Node| match entry {
            Node::Directory(entries) => entries.values().filter(|id| **id == node).count(),
            Node::File(_) => 0,
        };
        self.nodes.iter().map(count).sum()
    }

    /// Makes room for a node that a change creates, wherever its name may end up.
    fn reserve(&mut self, change: &Change) {
        if let Change::Create { node, is_directory, .. } = change
            && *node == self.nodes.len()
        {
            let empty = if *is_directory { Node::Directory(BTreeMap::new()) } else { Node::File(Arc::default()) };
            self.nodes.push(empty);
        }
    }

    /// Carries a change out.
    pub(super) fn apply(&mut self, change: &Change) {
        self.reserve(change);
        match change {
            Change::Create { directory, name, node, .. } | Change::Link { directory, name, node } => {
                self.name(*directory, name, *node);
            }
            Change::Remove { directory, name } => {
                if let Some(entries) = self.entries_mut(*directory) {
                    entries.remove(name);
                }
            }
            Change::Rename { from, to } => {
                let moved = self.entries_mut(from.0).and_then(|entries| entries.remove(&from.1));
                if let Some(node) = moved {
                    self.name(to.0, &to.1, node);
                }
            }
            Change::Write { node, offset, data } => {
                if let Some(bytes) = self.file_mut(*node) {
                    write_at(bytes, *offset, data);
                }
            }
            Change::Resize { node, size } => {
                if let Some(bytes) = self.file_mut(*node) {
                    bytes.resize(to_index(*size), 0);
                }
            }
            Change::Sync { .. } | Change::SyncDirectory { .. } => {}
        }
    }

    /// Notes a name of each node that has one.
    pub(super) fn learn_names(&self, names: &mut BTreeMap<NodeId, Name>) {
        let mut now = BTreeMap::new();
        for node in &self.nodes {
            if let Node::Directory(entries) = node {
                for (name, id) in entries {
                    now.entry(*id).or_insert_with(|| Arc::clone(name));
                }
            }
        }
        names.extend(now);
    }

    /// All files with their paths (without the leading slash) and contents.
    pub fn files(&self) -> Vec<(String, Arc<Vec<u8>>)> {
        let mut found = Vec::new();
        let mut open = vec![(String::new(), ROOT)];
        while let Some((prefix, directory)) = open.pop() {
            for (name, node) in self.entries(directory).into_iter().flatten() {
                let path = if prefix.is_empty() { name.to_string() } else { format!("{prefix}/{name}") };
                match self.nodes.get(*node) {
                    Some(Node::File(bytes)) => found.push((path, Arc::clone(bytes))),
                    Some(Node::Directory(_)) => open.push((path, *node)),
                    None => {}
                }
            }
        }
        found.sort();
        found
    }
}

/// What is durable, and what is not yet.
#[derive(Clone, Debug)]
pub struct Disk {
    durable: Tree,
    /// Changes of names that are not durable, in their order.
    names: Vec<Pending>,
    /// Changes of each file's data and size that are not durable, in their order.
    data: BTreeMap<NodeId, Vec<Pending>>,
    /// Changes so far.
    count: u64,
}

/// A change that is not durable, and its place in the order of all.
#[derive(Clone, Debug)]
struct Pending {
    order: u64,
    change: Change,
}

impl Disk {
    /// A disk on which everything in `tree` is durable.
    pub(super) fn new(tree: Tree) -> Self {
        Self { durable: tree, names: Vec::new(), data: BTreeMap::new(), count: 0 }
    }

    /// Notes a change.
    pub(super) fn apply(&mut self, change: &Change) {
        self.count += 1;
        let pending = || Pending { order: self.count, change: change.clone() };
        match change {
            Change::Write { node, .. } | Change::Resize { node, .. } => {
                let pending = pending();
                self.data.entry(*node).or_default().push(pending);
            }
            Change::Sync { node } => {
                for pending in self.data.remove(node).unwrap_or_default() {
                    self.durable.apply(&pending.change);
                }
            }
            Change::SyncDirectory { node } => {
                let touched = |pending: &Pending| pending.change.names().iter().any(|(directory, _)| directory == node);
                let wanted: Vec<bool> = self.names.iter().map(touched).collect();
                let kept = with_dependencies(&self.names, wanted);
                let (now, later): (Vec<_>, Vec<_>) =
                    std::mem::take(&mut self.names).into_iter().zip(kept).partition(|(_, kept)| *kept);
                now.iter().for_each(|(pending, _)| self.durable.apply(&pending.change));
                self.names = later.into_iter().map(|(pending, _)| pending).collect();
            }
            Change::Create { .. } | Change::Link { .. } | Change::Remove { .. } | Change::Rename { .. } => {
                let pending = pending();
                // The node exists from now on; only its name may be lost.
                self.durable.reserve(change);
                self.names.push(pending);
            }
        }
    }

    /// How many files whose names satisfy a condition may be without data, or gone with it, after a crash.
    pub fn unsynced_files(&self, mut condition: impl FnMut(&str) -> bool) -> usize {
        let (mut durable_names, mut names) = (BTreeMap::new(), BTreeMap::new());
        self.durable.learn_names(&mut durable_names);
        let mut tree = self.durable.clone();
        self.names.iter().for_each(|pending| tree.apply(&pending.change));
        tree.learn_names(&mut names);
        let may_be_gone = |node: &NodeId, name: &Name| {
            durable_names.get(node) != Some(name) && self.durable.file(*node).is_some_and(|bytes| !bytes.is_empty())
        };
        let is_unsynced = |node: &NodeId, name: &Name| self.data.contains_key(node) || may_be_gone(node, name);
        names.iter().filter(|(node, name)| condition(name) && is_unsynced(node, name)).count()
    }

    /// What is found after a crash now.
    pub fn image(&self, policy: LossPolicy, seed: u64) -> Tree {
        let chance = Chance(SeededEntropy::new(seed));
        let mut tree = self.durable.clone();
        let all = self.names.len();
        // The first change, in the order of all, that is lost.
        let mut orders: Vec<u64> = self.names.iter().chain(self.data.values().flatten()).map(|p| p.order).collect();
        orders.sort_unstable();
        let cut = orders.get(chance.below(orders.len() + 1)).copied().unwrap_or(u64::MAX);
        let wanted = match policy {
            LossPolicy::KeepAll | LossPolicy::DropData => vec![true; all],
            LossPolicy::DropAll | LossPolicy::DropNames => vec![false; all],
            LossPolicy::Tear => self.names.iter().map(|pending| pending.order < cut).collect(),
            LossPolicy::TearEach => {
                let prefix = chance.below(all + 1);
                (0..all).map(|i| i < prefix).collect()
            }
            LossPolicy::Scatter => (0..all).map(|_| chance.below(2) == 0).collect(),
        };
        let kept = with_dependencies(&self.names, wanted);
        for (pending, _) in self.names.iter().zip(kept).filter(|(_, kept)| *kept) {
            tree.apply(&pending.change);
        }
        for (node, changes) in &self.data {
            match policy {
                LossPolicy::KeepAll | LossPolicy::DropNames => {
                    changes.iter().for_each(|pending| tree.apply(&pending.change));
                }
                LossPolicy::DropAll | LossPolicy::DropData => {}
                LossPolicy::Tear => {
                    let whole = changes.iter().take_while(|pending| pending.order < cut).count();
                    let torn = changes.get(whole).is_some_and(|pending| pending.order == cut);
                    tear(&mut tree, changes, whole, torn, &chance);
                }
                LossPolicy::TearEach => tear(&mut tree, changes, chance.below(changes.len() + 1), true, &chance),
                LossPolicy::Scatter => scatter(&mut tree, *node, changes, &chance),
            }
        }
        tree
    }
}

/// Adds to the wanted changes those that they rest on: earlier ones of the same names.
fn with_dependencies(changes: &[Pending], mut wanted: Vec<bool>) -> Vec<bool> {
    let mut needed = BTreeSet::new();
    for (pending, wanted) in changes.iter().zip(&mut wanted).rev() {
        let names = pending.change.names();
        *wanted |= names.iter().any(|name| needed.contains(name));
        if *wanted {
            needed.extend(names);
        }
    }
    wanted
}

/// Keeps the first `whole` changes of a file and, if it was `torn`, a part of the next.
fn tear(tree: &mut Tree, changes: &[Pending], whole: usize, torn: bool, chance: &Chance) {
    changes.iter().take(whole).for_each(|pending| tree.apply(&pending.change));
    if let Some(Change::Write { node, offset, data }) = changes.get(whole).map(|pending| &pending.change)
        && torn
    {
        let part = data.get(..chance.below(data.len() + 1)).unwrap_or_default();
        tree.apply(&Change::Write { node: *node, offset: *offset, data: part.into() });
    }
}

/// Keeps or loses sizes and sectors on their own, with one rule that file systems keep: appending makes a file longer only
/// over data that is there, so that no zeros appear where appended data was lost. Space that was reserved before it was
/// written to has no such rule.
fn scatter(tree: &mut Tree, node: NodeId, changes: &[Pending], chance: &Chance) {
    let Some(bytes) = tree.file_mut(node) else { return };
    // Sizes are as of this change; sectors written later may be there too, as far as this size reaches.
    let sized = chance.below(changes.len() + 1);
    let kept_of_ten = [1, 5, 9].get(chance.below(3)).copied().unwrap_or(5);
    for (i, pending) in changes.iter().enumerate() {
        match &pending.change {
            Change::Resize { .. } if i >= sized => return,
            Change::Resize { size, .. } => bytes.resize(to_index(*size), 0),
            Change::Write { offset, data, .. } => {
                let over = bytes.len().saturating_sub(to_index(*offset)).min(data.len());
                let (over, behind) = data.split_at(over);
                let mut at = *offset;
                let end = offset + over.len() as u64;
                while at < end {
                    let next = ((at / SECTOR_BYTES + 1) * SECTOR_BYTES).min(end);
                    let sector = over.get(to_index(at - offset)..to_index(next - offset)).unwrap_or_default();
                    if chance.below(10) < kept_of_ten {
                        write_at(bytes, at, sector);
                    }
                    at = next;
                }
                if i < sized && !behind.is_empty() {
                    write_at(bytes, end.max(*offset), behind);
                } else if i == sized {
                    let part = behind.get(..chance.below(behind.len() + 1)).unwrap_or_default();
                    if !part.is_empty() {
                        write_at(bytes, end.max(*offset), part);
                    }
                }
            }
            _ => {}
        }
    }
}

struct Chance(SeededEntropy);

impl Chance {
    /// A number below `limit`, which is not 0.
    fn below(&self, limit: usize) -> usize {
        to_index(self.0.next_u64() % limit.max(1) as u64)
    }
}
