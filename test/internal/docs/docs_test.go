// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestInMarkdown(t *testing.T) {
	const text = "Text with `make test`, `make`, `sglangctl` and `sglangctl trace ID\\|last`.\n" +
		"```sh\n# a remark\nA=1 python -m x \\\n  --flag  # why\n\n```\n" +
		"```\n$ make run\noutput of make\n```\n" +
		"```yaml\nrun: make x\n```\n`bin/otelcol-sglang`"
	assert.Equal(t, []Command{
		{Text: "make test", Line: 1},
		{Text: "sglangctl trace ID|last", Line: 1},
		{Text: "A=1 python -m x --flag", Line: 4},
		{Text: "make run", Line: 9},
		{Text: "bin/otelcol-sglang", Line: 15},
	}, InMarkdown(text))
}

func TestInComments(t *testing.T) {
	const text = "# Beside make run.\n#\n#   bin/otelcol-sglang --config config/agent.yaml\n#   NAME   what it is\n#   make run"
	assert.Equal(t, []Command{
		{Text: "bin/otelcol-sglang --config config/agent.yaml", Line: 3},
		{Text: "make run", Line: 5},
	}, InComments(text))
}
