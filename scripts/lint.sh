#!/usr/bin/env bash
# gofmt, go vet, staticcheck, govulncheck over the whole module. Runs them all,
# then fails if one of them found something. Called by "make lint".
set -uo pipefail
cd "$(dirname "$0")/.."
PATH=$PWD/bin/tools:$PATH

bad=0
step() {
	echo "lint: $*" >&2
	"$@" || bad=1
}

unformatted() {
	local files
	files=$(git ls-files -z --cached --others --exclude-standard '*.go' | xargs -0 gofmt -l)
	[ -z "$files" ] || { echo "$files"; return 1; }
}

step unformatted
step go vet ./...
step staticcheck ./...

database=https://vuln.go.dev
if ! curl -fsS --max-time 10 -o /dev/null "$database/index/db.json" 2>/dev/null; then
	echo "lint: govulncheck did not run: its database, $database, cannot be reached" >&2
elif ! scripts/install-tools.sh vuln; then
	echo "lint: govulncheck did not run: it could not be installed" >&2
else
	step govulncheck ./...
fi
exit $bad
