#!/usr/bin/env bash
# Installs Go programs at pinned versions into bin/tools; quick when present.
#
#   scripts/install-tools.sh test|lint|vuln|bench
#
# test: the clients and servers that tests run against ours.
# lint, vuln: the checkers of "make lint"; the second is of use only where its
#   database can be reached.
# bench: what compares Go benchmarks.
set -euo pipefail

cd "$(dirname "$0")/.."
tools=$PWD/bin/tools

test=(
	github.com/fullstorydev/grpcurl@v1.9.4/cmd/grpcurl
	github.com/letsencrypt/pebble/v2@v2.10.1/cmd/pebble
	github.com/letsencrypt/pebble/v2@v2.10.1/cmd/pebble-challtestsrv
)
lint=(honnef.co/go/tools@v0.8.2/cmd/staticcheck)
vuln=(golang.org/x/vuln@v1.9.0/cmd/govulncheck)

bench=(golang.org/x/perf@v0.0.0-20260908200009-22c9c6c9d4da/cmd/benchstat)

case ${1-} in
test) wanted=("${test[@]}") ;;
lint) wanted=("${lint[@]}") ;;
vuln) wanted=("${vuln[@]}") ;;
bench) wanted=("${bench[@]}") ;;
*) echo "usage: scripts/install-tools.sh test|lint|vuln|bench" >&2; exit 2 ;;
esac

# installed NAME MODULE VERSION: the binary is there and built from that version.
installed() {
	[ -x "$tools/$1" ] && go version -m "$tools/$1" | grep -qP "^\tmod\t\Q$2\E\t\Q$3\E(\t|$)"
}

for entry in "${wanted[@]}"; do
	module=${entry%%@*} rest=${entry#*@}
	version=${rest%%/*} dir=${rest#*/} name=${entry##*/}
	installed "$name" "$module" "$version" && continue
	echo "installing $name $version into bin/tools" >&2
	# Outside the module: its go.mod must neither be used nor changed.
	(cd / && GOBIN=$tools CGO_ENABLED=0 go install "$module/$dir@$version")
done
