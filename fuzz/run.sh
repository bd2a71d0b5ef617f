#!/usr/bin/env bash
# Runs fuzz targets one after the other: fuzz/run.sh <executions per target> [target...]
#
# Each target goes on from its corpus until it has made that many executions. FIRN_FUZZ_SANITIZER is "none" (default; the
# bodies are safe code, and it is five times faster) or "address"; FIRN_FUZZ_FAST=1 does without comparison tracing and
# libFuzzer's entropic schedule, which makes targets that open or build whole files three times faster; FIRN_FUZZ_MAX_SECONDS
# bounds the time per target. One line per target goes to standard output, the rest to fuzz/logs.
# Needs a nightly compiler and cargo-fuzz; run fuzz/seed.sh first.
set -euo pipefail
cd "$(dirname "$0")/.."
executions=${1:?usage: fuzz/run.sh <executions per target> [target...]}
shift
[ $# -gt 0 ] || mapfile -t targets < <(cargo +nightly fuzz list)
[ $# -eq 0 ] || targets=("$@")
sanitizer=${FIRN_FUZZ_SANITIZER:-none}
mkdir -p fuzz/logs
build=()
schedule=()
if [ "${FIRN_FUZZ_FAST:-0}" = 1 ]; then
    build=(--no-trace-compares)
    schedule=(-entropic=0)
fi
# Contexts of compressors and filters are large; giving them back to the system each time takes longer than filling them.
export MALLOC_TRIM_THRESHOLD_=1073741824 MALLOC_MMAP_THRESHOLD_=1073741824
failed=0
for target in "${targets[@]}"; do
    log=fuzz/logs/$target.$sanitizer.log
    inputs=("fuzz/corpus/$target")
    mkdir -p "${inputs[0]}"
    [ ! -d "fuzz/regressions/$target" ] || inputs+=("fuzz/regressions/$target")
    if cargo +nightly fuzz run -s "$sanitizer" "${build[@]}" "$target" "${inputs[@]}" -- -runs="$executions" \
        "${schedule[@]}" -max_total_time="${FIRN_FUZZ_MAX_SECONDS:-0}" -max_len=4096 -rss_limit_mb=512 -timeout=5 -print_final_stats=1 \
        >"$log" 2>&1; then
        echo "$target: $(grep -a '^Done ' "$log"), $(grep -a -oE 'cov: [0-9]+' "$log" | tail -1)"
    else
        echo "$target: FAILED, see $log"
        failed=1
    fi
done
exit $failed
