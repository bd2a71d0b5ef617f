#!/usr/bin/env bash
# Races Firn's db_bench against another one (RocksDB's by default), interleaved, same flags, fresh directories, and prints
# for each step the medians and their ratio (above 1: Firn is faster).
#
# usage: scripts/compare_db_bench.sh [rounds] [directory]
#   PEER=/usr/bin/db_bench  NUM=5000000  READS=500000  FLAGS='...'  may be set in the environment
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3} dir=${2:-$(mktemp -d)}
peer=${PEER:-/usr/bin/db_bench} num=${NUM:-5000000} reads=${READS:-500000}
firn=${FIRN:-target/release/db_bench}
[ -x "$firn" ] || cargo build --release --bin db_bench
read -ra flags <<<"${FLAGS:---value_size=100 --key_size=16 --compression_type=none --bloom_bits=10 --cache_size=2000000000 --format_version=5 --seek_nexts=10}"
run() { # name, binary
    local out=$dir/$1.out db=$dir/$1
    bench() { "$@" --db="$db" --num="$num" --reads="$reads" "${flags[@]}" 2>/dev/null >>"$out"; }
    rm -rf "$db"
    bench "$2" --benchmarks=fillseq,readseq
    # What overwrite leaves is read: a half-full memtable, several files of level 0 and levels below.
    bench "$2" --benchmarks=fillrandom,overwrite,waitforcompaction,readrandom,seekrandom,readwhilewriting
    bench "$2" --use_existing_db=1 --batch_size=16 --benchmarks=multireadrandom
    rm -rf "$db"
}
mkdir -p "$dir"
rm -f "$dir"/{peer,firn}.out
for _ in $(seq "$rounds"); do
    run peer "$peer"
    run firn "$firn"
done
for who in peer firn; do
    tr '\r' '\n' <"$dir/$who.out" | awk '/micros\/op/ { n[$1]++; print $1, $3 }' >"$dir/$who.times"
done
awk '
    function median(list,    parts, count, i, j, t) {
        count = split(list, parts, " ")
        for (i = 1; i <= count; i++) for (j = i + 1; j <= count; j++)
            if (parts[j] + 0 < parts[i] + 0) { t = parts[i]; parts[i] = parts[j]; parts[j] = t }
        low = parts[1]; high = parts[count]
        return count % 2 ? parts[(count + 1) / 2] : (parts[count / 2] + parts[count / 2 + 1]) / 2
    }
    FNR == NR { peer[$1] = peer[$1] " " $2; next }
    { if (!($1 in firn)) order[++steps] = $1; firn[$1] = firn[$1] " " $2 }
    END {
        print "| step | peer us/op | Firn us/op | ratio |"
        print "| --- | ---: | ---: | ---: |"
        for (s = 1; s <= steps; s++) {
            p = median(peer[order[s]]); pr = sprintf("%.2f (%.2f-%.2f)", p, low, high)
            f = median(firn[order[s]]); fr = sprintf("%.2f (%.2f-%.2f)", f, low, high)
            printf "| %s | %s | %s | %.1fx |\n", order[s], pr, fr, p / f
        }
    }' "$dir/peer.times" "$dir/firn.times"
