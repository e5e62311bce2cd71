#!/usr/bin/env bash
# Starts bin/coredns on loopback, for trying things out: "make run" calls it.
#
#   scripts/run.sh DIR
#
# The first start makes DIR with a token, a policy that knows its hash and a
# Corefile; later starts keep all three, and the database. DNS_PORT (1053) and
# HTTP_PORT (8053) count for the first start only, then DIR/Corefile does.
set -euo pipefail

[ $# = 1 ] && [ -n "$1" ] || { echo "usage: scripts/run.sh DIR" >&2; exit 2; }
data=$1
bin=$(cd "${BIN:-$(dirname "$0")/../bin}" && pwd)
zone=dyn.example.org
name=laptop.$zone

umask 077
mkdir -p "$data"

if [ ! -e "$data/policy" ]; then
	rm -f "$data/token" # of a first start that did not get this far
	{
		echo '# Who may do what. The server keeps no token, only this hash of it; the token'
		echo '# itself is in the file "token". A new one: /token/generate. Then /reload.'
		# This token may also make the server read this file again.
		"$bin/ddns-token" -o "$data/token" "$name" | sed 's/^}/    reload\n}/'
	} >"$data/policy.new"
	mv "$data/policy.new" "$data/policy"
fi

if [ ! -e "$data/Corefile" ]; then
	cat >"$data/Corefile.new" <<-COREFILE
	$zone:${DNS_PORT:-1053} {
	    bind 127.0.0.1
	    ddns {
	        ns ns.$zone 127.0.0.1
	        store bolt ddns.db
	        policy policy
	        http 127.0.0.1:${HTTP_PORT:-8053}
	    }
	    errors
	    log
	    reload
	}
	COREFILE
	mv "$data/Corefile.new" "$data/Corefile"
fi

dns=$(sed -nE "s/^$zone:([0-9]+) .*/\1/p" "$data/Corefile")
http=$(sed -nE 's/^ *http 127\.0\.0\.1:([0-9]+)$/\1/p' "$data/Corefile")
if [ -z "$dns" ] || [ -z "$http" ]; then
	echo "run: $data/Corefile is no longer as the first start made it; start it yourself:" >&2
	echo "    cd $data && $bin/coredns" >&2
	exit 1
fi

listening() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

for port in "$dns" "$http"; do
	if listening "$port"; then
		echo "run: port $port of 127.0.0.1 is in use: stop what listens there, or change it in $data/Corefile" >&2
		exit 1
	fi
done

# Paths in the Corefile are relative to its directory, which may so be moved.
(cd "$data" && exec "$bin/coredns" -conf Corefile) &
server=$!
stopped=
stop() { stopped=yes; kill -TERM "$server" 2>/dev/null || true; }
trap stop INT TERM HUP

until listening "$http" && listening "$dns"; do
	if ! kill -0 "$server" 2>/dev/null; then
		code=0
		wait "$server" || code=$?
		[ -z "$stopped" ] || exit 0
		echo "run: coredns did not start; its last line above says why" >&2
		exit $((code == 0 ? 1 : code))
	fi
	sleep 0.1
done

printf -v token %q "$data/token"
cat <<LINES

ddns serves $zone from 127.0.0.1. In another terminal, in $PWD:

    curl -H "Authorization: Bearer \$(cat $token)" 'http://127.0.0.1:$http/update?fqdn=$name&ip=192.0.2.7'
    dig +short @127.0.0.1 -p $dns $name

Everything is in $data and stays there. Ctrl-C stops it.

LINES

# A signal to this script ends the wait, not yet the server.
while
	code=0
	wait "$server" || code=$?
	kill -0 "$server" 2>/dev/null
do :; done
[ -z "$stopped" ] || exit 0
[ "$code" = 0 ] || echo "run: coredns ended with status $code" >&2
exit "$code"
