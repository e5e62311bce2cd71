#!/bin/sh
# One key that signs everything. BIND names it by its tag; the Corefile wants a
# name that is known beforehand.
set -eu
cd "$(dirname "$0")"
umask 077
if [ ! -e Kdyn.example.org.private ]; then
	key=$(dnssec-keygen -a ECDSAP256SHA256 -f KSK dyn.example.org)
	mv "$key.key" Kdyn.example.org.key
	mv "$key.private" Kdyn.example.org.private
fi
