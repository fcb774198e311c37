// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package tool finds what the tests need on the machine, and waits.
package tool // import "github.com/otelcol-sglang/otelcol-sglang/test/internal/tool"

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"
)

// Root is the project's folder.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}

// Need returns a program's path. Where it is missing the test is skipped, and
// fails in CI.
func Need(t testing.TB, program, how string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err == nil {
		return path
	}
	Missing(t, program, how)
	return ""
}

// Missing skips a test whose parts are not there, and fails it in CI.
func Missing(t testing.TB, what, how string) {
	t.Helper()
	missing := fmt.Sprintf("%s is missing: %s", what, how)
	if os.Getenv("CI") != "" {
		t.Fatal(missing)
	}
	t.Skip(missing)
}

// Binary is a program that `make build` makes.
func Binary(t testing.TB, name string) string {
	t.Helper()
	return Need(t, filepath.Join(Root(), "bin", name), "run make build")
}

// Python is the interpreter that has the OpenTelemetry SDK of requirements.txt.
func Python(t testing.TB) string {
	t.Helper()
	return Need(t, filepath.Join(Root(), "test", ".venv", "bin", "python"), "make e2e makes it, with python3-venv")
}

// Ports below those that the kernel gives to clients: none is taken between the
// question and the use.
const lowestPort, highestPort = 20000, 30000

// given are the ports that this process has handed out; a test may listen on
// its port much later.
var given sync.Map

// FreePort returns a port of localhost that nothing listens on, each one once.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		if _, taken := given.LoadOrStore(port, true); taken {
			continue
		}
		l, err := net.Listen("tcp", Address(port))
		if err == nil {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

// Address is a port of this machine.
func Address(port int) string { return fmt.Sprintf("localhost:%d", port) }

// listenLimit is how long a port may stay taken: a process that is being started
// by another test holds a copy of the socket that found the port free, until it
// becomes the program.
const listenLimit = 10 * time.Second

// Listen listens on an address that FreePort gave.
func Listen(t testing.TB, address string) net.Listener {
	t.Helper()
	var l net.Listener
	var err error
	Until(listenLimit, func() bool {
		l, err = net.Listen("tcp", address)
		return err == nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// every is the pause between two looks at a condition.
const every = 50 * time.Millisecond

// Until waits until done, or returns false after the limit.
func Until(limit time.Duration, done func() bool) bool {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for !done() {
		select {
		case <-deadline.C:
			return done()
		case <-ticker.C:
		}
	}
	return true
}
