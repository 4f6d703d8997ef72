#!/bin/sh
# Turns the .proto files into Go. The plugin is the one of the module in go.mod;
# the compiler's version stands in the generated files, so another one is refused
# here instead of showing up as a difference later.
set -eu
cd "$(dirname "$0")/../.."

want="libprotoc 3.21.12"
have=$(protoc --version)
if [ "$have" != "$want" ]; then
	echo "conversation/wire: $want is wanted (package protobuf-compiler of Debian 12), found $have" >&2
	exit 1
fi

bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
go build -o "$bin/protoc-gen-go" google.golang.org/protobuf/cmd/protoc-gen-go

# The paths are given from the module's root: protobuf knows files by these
# names in the whole process, and other modules have an "events.proto", too.
protoc --proto_path=. --plugin=protoc-gen-go="$bin/protoc-gen-go" \
	--go_out=. --go_opt=module=parley \
	conversation/wire/events.proto conversation/wire/store.proto conversation/wire/peer.proto
