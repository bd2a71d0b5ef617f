//! Databases that lie under valid checksums: a few hundred mutants, and some made by hand.
//!
//! `FIRN_HOSTILE_MUTANTS` is the number of mutants (300 by default), `FIRN_HOSTILE_FROM` the first. A failure names the mutant and
//! the command that runs it alone. The long form is the program `firn-hostile`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use firn_fuzz::hostile::replace_table;
use firn_fuzz::hostile::seeds::{DIRECTORY, Image, databases, db_options, environment, family_options, file_system_of};
use firn_fuzz::hostile::table::Table;
use firn_fuzz::hostile::watch::{Limits, run};
use firndb::options::{BlockBasedTableOptions, ReadOptions};
use firndb::{ColumnFamilyDescriptor, Cursor, Db};

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

#[test]
fn mutants_end_without_panic_loss_or_much_memory() {
    let from = number("FIRN_HOSTILE_FROM", 0);
    let numbers = from..from + number("FIRN_HOSTILE_MUTANTS", 300);
    let limits = Limits { seconds: 60, memory_bytes: 1 << 30 };
    let figures = run(databases(), numbers, limits, &mut |_| ());
    for (number, what) in &figures.violations {
        eprintln!("mutant {number}: {what}");
        eprintln!("  again: cargo run -p firn-fuzz --bin firn-hostile -- --number {number}");
    }
    eprintln!("{figures:?}");
    assert!(figures.violations.is_empty(), "{} violations", figures.violations.len());
    assert!(figures.scanned > figures.runs / 10, "most mutants are no databases at all: {figures:?}");
}

#[test]
fn databases_that_were_not_changed_are_read_whole() {
    for image in databases() {
        let (entries, error) = walk(&image, Cursor::seek_to_first, Cursor::next);
        assert_eq!((entries > 40, error.as_str()), (true, ""));
    }
}

/// How many entries a walk over the default column family shows, and the error that ends it.
fn walk(image: &Image, start: impl Fn(&mut Cursor), step: impl Fn(&mut Cursor)) -> (usize, String) {
    let options = db_options(environment(file_system_of(image), 1));
    let family = family_options(BlockBasedTableOptions::default());
    let names = Db::list_column_families(DIRECTORY, &options).unwrap();
    let families = names.into_iter().map(|name| ColumnFamilyDescriptor::new(name, family.clone())).collect();
    let db = Db::open_cf_read_only(DIRECTORY, options, families).unwrap();
    let mut cursor = db.cursor(&ReadOptions::default(), db.default_cf()).unwrap();
    start(&mut cursor);
    let mut entries = 0;
    while cursor.valid() && entries < 10_000 {
        entries += 1;
        step(&mut cursor);
    }
    (entries, cursor.status().err().map(|error| error.to_string()).unwrap_or_default())
}

/// The database with its tables changed, those that `change` takes.
fn with_tables(image: &Image, change: impl Fn(&mut Table)) -> Image {
    let mut image = image.clone();
    let names: Vec<_> = image.keys().filter(|name| name.ends_with(".sst")).cloned().collect();
    for name in names {
        let mut table = Table::parse(&image[&name]).unwrap();
        change(&mut table);
        replace_table(&mut image, &name, table.assemble());
    }
    image
}

#[test]
fn tables_that_are_put_together_again_are_read_as_before() {
    for image in databases() {
        let before = walk(&image, Cursor::seek_to_first, Cursor::next);
        let same = with_tables(&image, |_| ());
        assert_eq!(walk(&same, Cursor::seek_to_first, Cursor::next), before);
        assert_eq!(walk(&same, Cursor::seek_to_last, Cursor::prev), before);
    }
}

#[test]
fn a_repeated_index_entry_ends_scans_in_both_directions_with_an_error() {
    for (n, image) in databases().iter().enumerate() {
        let repeated = with_tables(image, |table| table.repeat_index_entry(1, 1000));
        for (entries, error) in
            [walk(&repeated, Cursor::seek_to_first, Cursor::next), walk(&repeated, Cursor::seek_to_last, Cursor::prev)]
        {
            assert!(entries < 200 && error.contains("out of order"), "database {n}: {entries} entries, {error:?}");
            assert!(error.contains(".sst") && error.contains("offset"), "{error}");
        }
    }
}

#[test]
fn a_block_that_claims_more_than_its_table_holds_is_corruption_and_one_that_does_not_is_read() {
    const BYTES: usize = 64 << 20;
    let image = &databases()[0];
    let lying = with_tables(image, |table| table.plant_bomb(BYTES, false));
    let (entries, error) = walk(&lying, Cursor::seek_to_first, Cursor::next);
    assert!(entries == 0 && error.contains("is not plausible"), "{entries} entries, {error:?}");
    assert!(error.contains(".sst") && error.contains("offset"), "{error}");
    let honest = with_tables(image, |table| table.plant_bomb(BYTES, true));
    let (entries, error) = walk(&honest, Cursor::seek_to_first, Cursor::next);
    assert!(entries > 10 && !error.contains("plausible"), "{entries} entries, {error:?}");
}
