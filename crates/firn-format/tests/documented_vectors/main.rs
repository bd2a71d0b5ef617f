//! The pages of `docs/format/` say what the code does: every vector on them goes through the codecs.
//!
//! Pages flow in, one failure with page and line for every vector whose stated meaning is not what the codec answers flows
//! out. The syntax of a vector block is explained in `docs/format/README.md`, parsed in `page.rs`. A kind of vectors is one
//! function that renders what a codec makes of the input; the kinds of a subject lie in one module, and a new kind is one
//! line in that module's table. Always true here: every kind named on a page is known, and every known kind stands on a page.
#![allow(clippy::unwrap_used)]

mod keys;
mod logs;
mod manifest;
mod page;
mod primitives;
mod tables;

use page::{Kind, Vector};
use std::collections::BTreeSet;

const SUBJECTS: &[&[Kind]] = &[primitives::KINDS, keys::KINDS, logs::KINDS, manifest::KINDS, tables::KINDS];

/// Blocks without a `crate=` belong to this one.
const CRATE: &str = "firn-format";

#[test]
fn the_codecs_do_what_the_pages_say() {
    let vectors = page::read_all(CRATE);
    let mut failures = Vec::new();
    let mut used = BTreeSet::new();
    for vector in &vectors {
        match SUBJECTS.iter().flat_map(|kinds| kinds.iter()).find(|(name, _)| *name == vector.kind) {
            None => failures.push(format!("{}: no kind {:?} of vectors", vector.place, vector.kind)),
            Some((name, render)) => {
                used.insert(*name);
                failures.extend(page::check(vector, *render).err());
            }
        }
    }
    for (name, _) in SUBJECTS.iter().flat_map(|kinds| kinds.iter()) {
        if !used.contains(name) {
            failures.push(format!("no page has vectors of kind {name:?}"));
        }
    }
    assert!(failures.is_empty(), "{} of {} vectors fail:\n{}", failures.len(), vectors.len(), failures.join("\n"));
}

#[test]
fn a_wrong_vector_is_found() {
    let page = "```vectors kind=varint32\n7f => 127\n80 01 => 129 # false\nff => error\n```\n";
    let vectors: Vec<Vector> = page::vectors_of("page.md", page, CRATE);
    let render = primitives::KINDS.iter().find(|(name, _)| *name == "varint32").unwrap().1;
    let verdicts: Vec<bool> = vectors.iter().map(|vector| page::check(vector, render).is_ok()).collect();
    assert_eq!(verdicts, [true, false, true]);
}
