#!/usr/bin/env bash
# Runs the tests of all modules with `unsafe` under Miri: undefined behaviour, data races, leaks. Needs a nightly compiler with
# miri and rust-src. What is left out has to ask the operating system (firn-env's mappings and system calls).
set -euo pipefail
cd "$(dirname "$0")/.."
# Tests read the clock; cached frames stay in static pools on purpose.
export MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-ignore-leaks ${MIRIFLAGS:-}"
cargo +nightly miri test -p firn-table --lib -- frame:: pages:: sink:: cache:: table_cache::
cargo +nightly miri test -p firndb --lib -- memtable:: write::group::
