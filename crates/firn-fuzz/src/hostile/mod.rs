//! Hostile databases whose checksums are all valid: what a writer that errs, or lies, may leave behind.
//!
//! A number flows in; a small database with one to three changes, what was changed, and what an engine makes of it flow
//! out. Every change knows the structure that it changes, and makes new checksums. A mutant is opened, read in all
//! directions, written, compacted, opened again and repaired; nothing of that may panic, take long, or take much memory, and
//! a write that was acknowledged must be read back.
//!
//! Always true here: the same number gives the same mutant and the same steps.

pub mod drive;
mod logs;
mod numbers;
pub mod seeds;
pub mod table;
mod text;
pub mod watch;

use firn_format::filename::{self, FileKind};
use rand::{SeedableRng, rngs::StdRng};

use numbers::Dice;
use seeds::Image;
use table::Table;

/// What a mutant is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Tables.
    Table,
    /// The MANIFEST.
    Manifest,
    /// A WAL.
    Wal,
    /// An OPTIONS file.
    Options,
    /// CURRENT.
    Current,
}

/// A database that was changed.
pub struct Mutant {
    /// Its number.
    pub number: u64,
    /// Its files.
    pub image: Image,
    /// What was changed.
    pub changes: Vec<String>,
    /// Which files were.
    pub kinds: Vec<Kind>,
    dice: Dice,
}

fn kind_of(name: &str) -> Option<FileKind> {
    filename::parse(name).map(|parsed| parsed.kind)
}

/// Puts the table `name` into the database, in whose MANIFEST its size stands.
pub fn replace_table(image: &mut Image, name: &str, bytes: Vec<u8>) {
    let (size, number) = (bytes.len() as u64, filename::parse(name).map(|parsed| parsed.number));
    image.insert(name.to_owned(), bytes);
    for (name, bytes) in image.iter_mut().filter(|(name, _)| kind_of(name) == Some(FileKind::Manifest)) {
        let _ = name;
        *bytes = logs::rewrite_manifest(bytes, |edit| {
            for (_, file) in &mut edit.new_files {
                if Some(file.number) == number {
                    file.file_size = size;
                }
            }
        });
    }
}

/// The mutant `number` of these databases.
pub fn mutant(databases: &[Image], number: u64) -> Mutant {
    let mut dice = Dice(StdRng::seed_from_u64(number));
    let mut image = dice.pick(databases).cloned().unwrap_or_default();
    let (mut changes, mut kinds) = (Vec::new(), Vec::new());
    for _ in 0..[1, 1, 1, 2, 3][dice.below(5)] {
        let kind = match dice.below(20) {
            0..10 => Kind::Table,
            10..14 => Kind::Manifest,
            14..18 => Kind::Wal,
            18 => Kind::Options,
            _ => Kind::Current,
        };
        let wanted = match kind {
            Kind::Table => FileKind::Table,
            Kind::Manifest => FileKind::Manifest,
            Kind::Wal => FileKind::Wal,
            Kind::Options => FileKind::Options,
            Kind::Current => FileKind::Current,
        };
        let names: Vec<String> = image.keys().filter(|name| kind_of(name) == Some(wanted)).cloned().collect();
        let Some(name) = dice.pick(&names).cloned() else { continue };
        let bytes = image.get(&name).cloned().unwrap_or_default();
        let file_number = filename::parse(&name).map_or(0, |parsed| parsed.number.get());
        let (bytes, what) = match kind {
            Kind::Table => {
                let Some(mut table) = Table::parse(&bytes) else { continue };
                let what = table.mutate(&mut dice);
                (table.assemble(), what)
            }
            Kind::Manifest => logs::change_manifest(&bytes, &mut dice),
            Kind::Wal => logs::change_wal(&bytes, file_number, &mut dice),
            Kind::Options => text::change_options(&bytes, &mut dice),
            Kind::Current => text::change_current(&bytes, &mut dice),
        };
        changes.push(format!("{name}: {what}"));
        kinds.push(kind);
        if kind == Kind::Table {
            replace_table(&mut image, &name, bytes);
        } else {
            image.insert(name, bytes);
        }
    }
    Mutant { number, image, changes, kinds, dice }
}
