#!/usr/bin/env bash
# Runs the Go benchmarks of the hot paths (lookup, plan, apply, commit, log) with
# allocations and summarises them with benchstat.
#
#   bench/go.sh                # this checkout
#   bench/go.sh REVISION       # beside that revision, taking turns
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -le 1 ] || { echo "usage: bench/go.sh [REVISION]" >&2; exit 2; }
scripts/install-tools.sh bench
export PATH=$PWD/bin/tools:$PATH

count=${COUNT:-6} time=${TIME:-200ms}
out=bench/results/go
mkdir -p "$out"
packages=(./internal/zone ./internal/store/bolt ./internal/wal)
pattern='^Benchmark(Lookup|Plan|Update|Changeset|Commit|Append)$'

# run DIR FILE: each benchmark once. One that the revision does not have is left out.
run() {
	for p in "${packages[@]}"; do
		[ ! -d "$1/$p" ] || (cd "$1" && go test -run '^$' -bench "$pattern" -benchmem -benchtime "$time" "$p") >>"$2"
	done
}

: >"$out/now.txt"
if [ $# = 1 ]; then
	base=$(mktemp -d)
	trap 'git worktree remove --force "$base" >/dev/null 2>&1 || true; rm -rf "$base"' EXIT
	git worktree add --detach "$base" "$1" >/dev/null
	: >"$out/base.txt"
fi
for _ in $(seq "$count"); do
	run . "$out/now.txt"
	[ $# = 0 ] || run "$base" "$out/base.txt"
done
if [ $# = 1 ]; then
	benchstat base="$out/base.txt" now="$out/now.txt" | tee "$out/table.txt"
else
	benchstat "$out/now.txt" | tee "$out/table.txt"
fi
