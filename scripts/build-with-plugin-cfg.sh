#!/usr/bin/env bash
# Builds CoreDNS the ordinary way: its own source, one line in its plugin.cfg.
#
#   scripts/build-with-plugin-cfg.sh [--without-cloud] [--keep DIR] OUTPUT
#
# The four commands between the rulers are what a user types in a CoreDNS
# checkout; the rest only provides such a checkout, from the module cache and
# at the version that go.mod names.
#
#   --without-cloud  comment out the plugins that link a cloud's or a cluster's
#                    client library: seconds instead of minutes, for tests
#   --keep DIR       use DIR, which must not exist, and leave it there
set -euo pipefail

usage() { sed -n '4s/^# *//p' "$0" >&2; exit 2; }

checkout=$(cd "$(dirname "$0")/.." && pwd)
without_cloud= keep= output=
while [ $# -gt 0 ]; do
	case $1 in
	--without-cloud) without_cloud=yes ;;
	--keep) [ $# -ge 2 ] || usage; keep=$2; shift ;;
	-*) usage ;;
	*) [ -z "$output" ] || usage; output=$1 ;;
	esac
	shift
done
[ -n "$output" ] || usage
case $output in /*) ;; *) output=$PWD/$output ;; esac

source=$(cd "$checkout" && go mod download -json github.com/coredns/coredns | sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p')
if [ ! -d "$source" ]; then
	echo "build-with-plugin-cfg: the CoreDNS source is not in the module cache and could not be fetched" >&2
	exit 1
fi

if [ -n "$keep" ]; then
	work=$keep
	mkdir "$work"
else
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
fi
cp -R "$source/." "$work"
chmod -R u+w "$work"
cd "$work"

if [ -n "$without_cloud" ]; then
	sed -i -E 's/^(azure|clouddns|etcd|k8s_external|kubernetes|nomad|route53|trace):/#&/' plugin.cfg
fi

# --------------------------------------------------------------------------
sed -i '/^dynupdate:dynupdate$/a ddns:github.com/coredns-ddns/ddns' plugin.cfg
go mod edit -replace "github.com/coredns-ddns/ddns=$checkout"
go get github.com/coredns-ddns/ddns@v0.0.0 # any version: the replacement has none
go generate coredns.go
# --------------------------------------------------------------------------
grep -q '^ddns:' plugin.cfg || { echo "build-with-plugin-cfg: plugin.cfg has no line dynupdate:dynupdate to stand after" >&2; exit 1; }
CGO_ENABLED=0 go build -o "$output"
