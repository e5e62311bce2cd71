#!/bin/sh
# Generates the Go code of hooks.proto with pinned plugins, the same bytes with every
# protoc: the descriptor does not depend on the compiler's version, so the comment that
# names that version is left out.
set -eu
cd "$(dirname "$0")/.."

if ! command -v protoc >/dev/null; then
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		apt-get install -y --no-install-recommends protobuf-compiler
	else
		echo "generate: protoc is missing: install the package protobuf-compiler" >&2
		exit 1
	fi
fi

bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
GOBIN=$bin go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
GOBIN=$bin go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2

protoc --proto_path=proto \
	--plugin=protoc-gen-go="$bin/protoc-gen-go" --go_out=proto --go_opt=paths=source_relative \
	--plugin=protoc-gen-go-grpc="$bin/protoc-gen-go-grpc" --go-grpc_out=proto --go-grpc_opt=paths=source_relative \
	hooks/v1/hooks.proto

for f in proto/hooks/v1/hooks.pb.go proto/hooks/v1/hooks_grpc.pb.go; do
	grep -v '^// *[-	 ]*protoc  *v[0-9(]' "$f" >"$bin/out"
	cat "$bin/out" >"$f"
done
