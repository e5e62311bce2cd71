#!/usr/bin/env bash
# Installs the Debian packages of the servers that bench compares with, without
# starting any of them. What cannot be installed is missing from the table, which
# says so.
set -uo pipefail

packages=(bind9 knot nsd pdns-server pdns-backend-sqlite3 sqlite3 strace dnsperf)

command -v dpkg-query >/dev/null || { echo "bench: not a Debian system; it would compare with ${packages[*]}" >&2; exit 0; }
missing=()
for p in "${packages[@]}"; do
	[ "$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || missing+=("$p")
done
[ ${#missing[@]} -gt 0 ] || exit 0
[ "$(id -u)" = 0 ] || { echo "bench: missing ${missing[*]}; as root: apt-get install ${missing[*]}" >&2; exit 0; }

# A daemon that started here would take port 53. An administrator's own policy
# stays untouched.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 0755 "$policy"
	trap 'rm -f "$policy"' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
apt-get -q update >&2
apt-get -q -y -o DPkg::Lock::Timeout=300 install --no-install-recommends "${missing[@]}" </dev/null >&2 ||
	echo "bench: not all of ${missing[*]} could be installed; going on without" >&2
exit 0
