#!/bin/sh
# The two TSIG keys, in the form that named.conf and the tsig plugin both read.
# Give transfer.key to the secondaries, dhcp.key to the DHCP server.
set -eu
cd "$(dirname "$0")"
umask 077
[ -e transfer.key ] || tsig-keygen -a hmac-sha256 transfer.example.org >transfer.key
[ -e dhcp.key ] || tsig-keygen -a hmac-sha256 dhcp.example.org >dhcp.key
