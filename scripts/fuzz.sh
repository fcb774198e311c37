#!/usr/bin/env bash
# Runs each fuzz target for some time: scripts/fuzz.sh [TIME each, 10s]
# What one finds is in testdata/fuzz of its package, and `go test` tries it from then on.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-10s}

# package:target of each, so that none is forgotten here.
targets=$(grep -rnoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' --exclude-dir=test --exclude-dir=bench . |
	sed -E 's|^(.*)/[^/]*:[0-9]+:func (Fuzz.*)$|\1:\2|' | sort)
[[ -n $targets ]]
for target in $targets; do
	echo "--- ${target#./}"
	go test -run '^$' -fuzz "^${target#*:}\$" -fuzztime "$time" "${target%%:*}"
done
