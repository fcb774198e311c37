#!/usr/bin/env bash
# Builds the collector with a clock that jumps: scripts/build-clock-jump.sh TO
# CLOCK_JUMP_AFTER seconds after its start the wall clock is off by CLOCK_JUMP_BY seconds;
# the monotonic one goes on, as on a host whose clock is set. No machine's clock is
# touched: Go's own time.Now is replaced in this build alone, for a static program takes
# no other one from outside.
set -euo pipefail
to=$(realpath -m "$1")
cd "$(dirname "$0")/.."

source=$(go env GOROOT)/src/time/time.go
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
awk '
	/^func Now\(\) Time {$/ { inside = 1 }
	{ print }
	inside && /runtimeNow\(\)$/ {
		print "\tif clockJumpBy != 0 && mono-startNano > clockJumpAfter {\n\t\tsec += clockJumpBy\n\t}"
		inside = 0; done = 1
	}
	END { if (!done) exit 1 }
' "$source" >"$work/time.go"
cat >"$work/jump.go" <<'GO'
package time

import "syscall"

var (
	clockJumpAfter = 1e9 * seconds("CLOCK_JUMP_AFTER")
	clockJumpBy    = seconds("CLOCK_JUMP_BY")
)

func seconds(name string) int64 {
	text, _ := syscall.Getenv(name)
	n, _ := atoi(text)
	return int64(n)
}
GO
printf '{"Replace": {"%s": "%s", "%s": "%s"}}\n' \
	"$source" "$work/time.go" "${source%/*}/zz_jump.go" "$work/jump.go" >"$work/overlay.json"
cd otelcol-dev && go build -overlay "$work/overlay.json" -trimpath -o "$to" .
