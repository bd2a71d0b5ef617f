//! Writes the first inputs of every fuzz target to `<directory>/<target>/`, named by their contents.
#![allow(clippy::unwrap_used, reason = "a script that stops at the first error")]

use std::path::PathBuf;

use firn_env::posix::PosixFileSystem;
use firn_env::{create_dir_all, write_file};
use firn_fuzz::{TARGETS, seeds::Golden};

fn main() {
    let directory = PathBuf::from(std::env::args_os().nth(1).expect("usage: seed <directory>"));
    let fs = PosixFileSystem::new();
    let golden = Golden::load();
    for target in TARGETS {
        let folder = directory.join(target.name);
        create_dir_all(&fs, &folder).unwrap();
        let seeds = (target.seeds)(&golden);
        for seed in &seeds {
            let name = format!("{:016x}", firn_format::hash::xxph3_64(seed));
            write_file(&fs, &folder.join(name), seed, false).unwrap();
        }
        println!("{}: {} seeds", target.name, seeds.len());
    }
}
