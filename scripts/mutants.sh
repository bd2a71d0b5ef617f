#!/bin/sh
# Applies each mutant of crates/firn-sim/mutants to a scratch copy and runs the test that its first line names, which must fail.
# Usage: scripts/mutants.sh [name...]; all without names. The scratch copy and its build are kept in $TMPDIR/firn-mutants.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
scratch=${TMPDIR:-/tmp}/firn-mutants
names=${*:-$(cd "$root/crates/firn-sim/mutants" && ls *.patch | sed 's/\.patch$//')}
mkdir -p "$scratch"
survivors=0
for name in $names; do
    patch=$root/crates/firn-sim/mutants/$name.patch
    (cd "$root" && git ls-files -z | xargs -0 tar cf -) | tar xf - -C "$scratch"
    (cd "$scratch" && git apply --unsafe-paths --directory="$scratch" "$patch" 2>/dev/null || patch -s -p1 < "$patch")
    test=$(sed -n '1s/^# //p' "$patch")
    (cd "$scratch" && ${test% -- *} --no-run) || { echo "$name: does not build"; exit 2; }
    if (cd "$scratch" && $test) > "$scratch/$name.log" 2>&1; then
        echo "$name: SURVIVED ($test)"
        survivors=$((survivors + 1))
    else
        echo "$name: killed by $test"
    fi
done
exit "$survivors"
