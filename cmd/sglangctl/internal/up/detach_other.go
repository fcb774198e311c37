// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package up // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/up"

import "os/exec"

// detach leaves the child in this process group: both get the terminal's Ctrl-C.
func detach(*exec.Cmd) {}
