#!/usr/bin/env bash
# Installs the Debian packages that tests run against ours, without starting
# any service; says so and goes on when it cannot.
#
# The packages: other name servers (named, knotd, nsd, unbound), DHCP servers
# that send updates (Kea), ACME clients (certbot, lego), clients (dig, nsupdate,
# kdig, knsupdate, drill, curl), what hooks tell (nft, wg, nginx), and tools that
# observe (strace, promtool, ss, shellcheck).
# gcc is for the race detector, protoc for "make proto".
#
# With CI set a package that cannot be installed is a failure, otherwise the
# tests that need it are skipped.
set -euo pipefail

packages=(
	bind9 bind9-dnsutils bind9-utils knot knot-dnsutils nsd unbound ldnsutils
	kea-dhcp4-server kea-dhcp6-server kea-dhcp-ddns-server
	certbot python3-certbot-dns-rfc2136 lego
	nftables wireguard-tools nginx shellcheck
	ca-certificates curl git gcc libc6-dev iproute2 openssl procps prometheus protobuf-compiler strace
)

give_up() {
	echo "test clients: $*" >&2
	[ -n "${CI-}" ] && exit 1
	echo "test clients: going on without; tests that need them are skipped" >&2
	exit 0
}

command -v dpkg-query >/dev/null || give_up "not a Debian system; install what these packages hold: ${packages[*]}"

present=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null | sed -n 's/^installed //p' || true)
missing=()
for p in "${packages[@]}"; do
	grep -qxF "$p" <<<"$present" || missing+=("$p")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" != 0 ]; then
	command -v sudo >/dev/null && sudo -n true 2>/dev/null || give_up "missing ${missing[*]}; run as root or with sudo: apt-get install ${missing[*]}"
	as_root=(sudo -n)
fi

# A daemon that started here would take port 53 or 67, so no package may start
# one. An administrator's own policy stays untouched.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
	"${as_root[@]}" chmod 0755 "$policy"
	trap '"${as_root[@]}" rm -f "$policy"' EXIT
fi

# apt waits for the lock of dpkg by itself, but not for the one of the lists,
# and a mirror in the middle of its own update gives errors that pass.
apt() {
	local try
	for try in 1 2 3; do
		"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
			-o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@" </dev/null >&2 && return
		echo "test clients: apt-get $1 did not succeed, try $try of 3" >&2
		sleep $((try * 5))
	done
	return 1
}

echo "test clients: installing ${missing[*]}" >&2
apt update || give_up "the package lists could not be fetched; missing ${missing[*]}"
apt install --no-install-recommends "${missing[@]}" && exit 0

# One package that this release does not have must not cost all the others.
failed=()
for p in "${missing[@]}"; do
	apt install --no-install-recommends "$p" || failed+=("$p")
done
[ ${#failed[@]} = 0 ] || give_up "these could not be installed: ${failed[*]}"
