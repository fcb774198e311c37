// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package up // import "github.com/otelcol-sglang/otelcol-sglang/cmd/sglangctl/internal/up"

import (
	"os/exec"
	"syscall"
)

// detach gives the child a process group of its own: the terminal's Ctrl-C does
// not reach it, so it ends after those who send to it. It outlives this process
// where that is killed.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
