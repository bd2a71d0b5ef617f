#!/usr/bin/env bash
# Writes the first inputs of every target to fuzz/corpus/<target>/, from the golden databases.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo run --quiet -p firn-fuzz --bin seed -- fuzz/corpus
