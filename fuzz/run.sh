#!/usr/bin/env bash
# Runs fuzz targets one after the other: fuzz/run.sh <executions per target> [target...]
#
# Each target goes on from its corpus until it has made that many executions. FIRN_FUZZ_SANITIZER is "none" (default; the
# bodies are safe code, and it is five times faster) or "address"; FIRN_FUZZ_FLAGS are more flags of cargo-fuzz, such as
# "--no-trace-compares --strip-dead-code", which makes targets that open or build whole files some times faster;
# FIRN_FUZZ_MAX_SECONDS bounds the time per target. One line per target goes to standard output, the rest to fuzz/logs.
# Needs a nightly compiler and cargo-fuzz; run fuzz/seed.sh first.
set -euo pipefail
cd "$(dirname "$0")/.."
executions=${1:?usage: fuzz/run.sh <executions per target> [target...]}
shift
[ $# -gt 0 ] || mapfile -t targets < <(cargo +nightly fuzz list)
[ $# -eq 0 ] || targets=("$@")
sanitizer=${FIRN_FUZZ_SANITIZER:-none}
mkdir -p fuzz/logs
failed=0
for target in "${targets[@]}"; do
    log=fuzz/logs/$target.$sanitizer.log
    inputs=("fuzz/corpus/$target")
    mkdir -p "${inputs[0]}"
    [ ! -d "fuzz/regressions/$target" ] || inputs+=("fuzz/regressions/$target")
    # shellcheck disable=SC2086 # flags are words
    if cargo +nightly fuzz run -s "$sanitizer" ${FIRN_FUZZ_FLAGS:-} "$target" "${inputs[@]}" -- -runs="$executions" \
        -max_total_time="${FIRN_FUZZ_MAX_SECONDS:-0}" -max_len=4096 -rss_limit_mb=512 -timeout=5 -print_final_stats=1 \
        >"$log" 2>&1; then
        echo "$target: $(grep -a '^Done ' "$log"), $(grep -a -oE 'cov: [0-9]+' "$log" | tail -1)"
    else
        echo "$target: FAILED, see $log"
        failed=1
    fi
done
exit $failed
