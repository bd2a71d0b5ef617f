#!/usr/bin/env bash
# Runs concurrent tests under ThreadSanitizer. Needs a nightly compiler with rust-src, since the standard library is built with
# it; takes a target directory of its own. Arguments are test targets of firndb; by default the concurrency test.
#
# Where rustup cannot bring rust-src, a compiler and its sources of one version from elsewhere do, such as Debian's rustc-web and
# rust-web-src, with the nightly toolchain's librustc-nightly_rt.tsan.a copied to librustc-stable_rt.tsan.a in their sysroot:
#   RUSTC=/usr/bin/rustc RUSTDOC=/usr/bin/rustdoc RUSTC_BOOTSTRAP=1 scripts/tsan.sh
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/tsan
export RUSTFLAGS="-Zsanitizer=thread ${RUSTFLAGS:-}"
export RUSTDOCFLAGS="-Zsanitizer=thread"
export TSAN_OPTIONS="halt_on_error=1 ${TSAN_OPTIONS:-}"
tests=("$@")
[ ${#tests[@]} -gt 0 ] || tests=(concurrency)
for test in "${tests[@]}"; do
    cargo +nightly test -Zbuild-std --target x86_64-unknown-linux-gnu -p firndb --test "$test"
done
cargo +nightly test -Zbuild-std --target x86_64-unknown-linux-gnu -p firndb --lib -- memtable::tests::threads write::group::
cargo +nightly test -Zbuild-std --target x86_64-unknown-linux-gnu -p firn-table --lib -- cache:: table_cache:: frame::
