#!/usr/bin/env bash
# Turns builder-config.yaml into otelcol-dev/. ocb writes the sources; the go.mod
# is tidied here, as ocb gives up where a module proxy lacks what only tests of
# our parts' dependencies import.
set -euo pipefail
cd "$(dirname "$0")/.."

go tool builder --config builder-config.yaml --skip-compilation --skip-get-modules 2>&1 |
	grep -v INFO || true
cd otelcol-dev
if ! tidied=$(go mod tidy -e 2>&1); then
	echo "$tidied" >&2
	exit 1
fi
# What tidy could not get must not be needed by the build.
go list -deps . >/dev/null
