#!/usr/bin/env bash
# Writes the bill of materials of a built collector, CycloneDX JSON:
# scripts/sbom.sh BINARY OUT
# It is made of what the linker wrote into the binary, so it lists what is in there and
# nothing else. Without time and serial number: one binary has one bill.
set -euo pipefail
binary=$(realpath "$1") out=$(realpath -m "$2")
cd "$(dirname "$0")/.."
mkdir -p "$(dirname "$out")"
# A pinned version outside of go.mod: no part of what ships needs it.
go run github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0 bin \
	-json -std -noserial -notimestamp -output "$out" "$binary"
# The module of our parts is replaced by this folder, and would be called "..".
module=$(go list -m) version=v$(sed -n 's/^ *version: //p' builder-config.yaml)
sed -i -e "s|\"\.\.\"|\"$module\"|; s|golang/\.\.@(devel)|golang/$module@$version|; s|\"(devel)\"|\"$version\"|" "$out"
# All modules of the binary are in it.
missing=$(comm -23 \
	<(go version -m "$binary" | awk '$1 == "dep" { print $2 }' | sort -u) \
	<(grep -o '"name": "[^"]*"' "$out" | cut -d'"' -f4 | sort -u))
if [[ -n $missing ]]; then
	echo "scripts/sbom.sh: not in $out:" "$missing" >&2
	exit 1
fi
echo "$out: $(grep -c '"purl"' "$out") modules"
