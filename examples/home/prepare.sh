#!/bin/sh
# A certificate of one's own for the address in the Corefile. Clients trust
# server.crt itself: curl --cacert server.crt …
set -eu
cd "$(dirname "$0")"
umask 077
[ -e server.key ] || openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 \
	-keyout server.key -out server.crt -subj /CN=ns.home.example.org \
	-addext subjectAltName=DNS:ns.home.example.org,IP:192.168.1.2
