#!/usr/bin/env bash
# Runs every native fuzz target of the module for the given time, one after the
# other, and prints how many executions each reached. A target that fails does
# not keep the others from running. Inputs are made smaller for a moment only: with
# large ones that would be all that a minute is spent on.
#
#   scripts/fuzz.sh DURATION
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# = 1 ] || { echo "usage: scripts/fuzz.sh DURATION" >&2; exit 2; }

bad=0
for file in $(git ls-files --cached --others --exclude-standard '*_test.go' | xargs grep -l '^func Fuzz'); do
	dir=./$(dirname "$file")
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file"); do
		if out=$(go test -run '^$' -fuzz "^$target\$" -fuzztime "$1" -fuzzminimizetime 100x "$dir" 2>&1); then
			execs=$(sed -n 's/.*execs: \([0-9]*\).*/\1/p' <<<"$out" | tail -n 1)
			printf '%-24s %-32s %12s executions\n' "$dir" "$target" "${execs:-0}"
		else
			bad=1
			echo "$out"
			printf '%-24s %-32s did not pass; an input it found is in testdata/fuzz/%s\n' "$dir" "$target" "$target"
		fi
	done
done
exit $bad
