#!/usr/bin/env bash
# Runs a command and fails if it changed, added or removed a file of the checkout.
# Uncommitted changes from before don't count, so it works in a dirty tree.
# otelcol-dev/go.sum may gain lines: how many depends on what the module proxy has.
set -euo pipefail
cd "$(dirname "$0")/.."

sums() {
	# A file that git knows and that is gone has no sum, and so shows up.
	git ls-files --cached --others --exclude-standard -z -- ':!otelcol-dev/go.sum' |
		{ xargs -0 sha256sum 2>/dev/null || true; } | sort -k 2
}

before=$(sums)
"$@"
if ! changed=$(diff <(echo "$before") <(sums)); then
	echo "not up to date; run: $*" >&2
	echo "$changed" | awk '/^[<>]/ { print "  " $3 }' | sort -u >&2
	exit 1
fi
