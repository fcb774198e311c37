// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package up

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// envRole makes the test binary play a child.
const (
	envRole   = "SGLANGCTL_TEST_ROLE"
	envListen = "SGLANGCTL_TEST_LISTEN"
)

func TestMain(m *testing.M) {
	switch os.Getenv(envRole) {
	case "":
		goleak.VerifyTestMain(m)
	case "broken":
		fmt.Println("invalid configuration: processors: no such thing")
		os.Exit(3)
	case "healthy":
		serve(syscall.SIGTERM)
	case "stubborn":
		serve(syscall.SIGUSR1)
	case "dying":
		go serve(syscall.SIGTERM)
		// The test asks for it once the start was noticed.
		http.HandleFunc("/die", func(http.ResponseWriter, *http.Request) {
			fmt.Println("out of memory")
			os.Exit(2)
		})
		select {}
	}
}

// serve answers as healthy until the signal.
func serve(end os.Signal) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGUSR1)
	http.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	go func() { _ = http.ListenAndServe(os.Getenv(envListen), nil) }()
	for s := range signals {
		if s == end {
			fmt.Println("flushed")
			os.Exit(0)
		}
	}
}

func fake(t *testing.T, role string) Child {
	l, err := net.Listen("tcp", "localhost:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	return Child{
		Name: "the collector", Binary: os.Args[0], Log: filepath.Join(t.TempDir(), "data", "collector.log"),
		Health: "http://" + addr + "/", Ports: []string{addr}, Grace: 20 * time.Second,
		Env: []string{envRole + "=" + role, envListen + "=" + addr},
	}
}

func TestStartAndStop(t *testing.T) {
	c := fake(t, "healthy")
	p, err := Start(t.Context(), c)
	require.NoError(t, err)
	require.ErrorContains(t, CheckPorts(c.Ports), "is not free")
	require.NoError(t, p.Stop())
	require.NoError(t, p.Stop(), "a second time")
	log, err := os.ReadFile(c.Log)
	require.NoError(t, err)
	assert.Equal(t, "flushed\n", string(log))
}

func TestChildThatDoesNotStart(t *testing.T) {
	_, err := Start(t.Context(), fake(t, "broken"))
	require.ErrorContains(t, err, "exit status 3")
	require.ErrorContains(t, err, "invalid configuration", "its last words")
}

func TestChildThatDies(t *testing.T) {
	c := fake(t, "dying")
	p, err := Start(t.Context(), c)
	require.NoError(t, err)
	_, err = (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(c.Health + "die")
	require.Error(t, err, "it dies before it answers")
	<-p.Done()
	require.ErrorContains(t, p.Death(), "out of memory")
	require.NoError(t, p.Stop())
}

func TestChildThatDoesNotEnd(t *testing.T) {
	c := fake(t, "stubborn")
	c.Grace = time.Millisecond
	p, err := Start(t.Context(), c)
	require.NoError(t, err)
	require.ErrorContains(t, p.Stop(), "was killed")
	<-p.Done()
}

func TestBusyPort(t *testing.T) {
	c := fake(t, "healthy")
	l, err := net.Listen("tcp", c.Ports[0])
	require.NoError(t, err)
	defer l.Close()
	_, err = Start(t.Context(), c)
	require.ErrorContains(t, err, c.Ports[0]+" is not free")
	require.ErrorContains(t, err, "does the collector run already?")
}

func TestNoBinary(t *testing.T) {
	c := fake(t, "healthy")
	c.Binary = filepath.Join(t.TempDir(), "otelcol-sglang")
	_, err := Start(t.Context(), c)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "the collector does not start")
}
