// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

// Package kafka runs a Kafka broker.
package kafka // import "github.com/otelcol-sglang/otelcol-sglang/test/internal/kafka"

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-sglang/otelcol-sglang/test/internal/tool"
)

const (
	startLimit = 3 * time.Minute
	stopLimit  = 30 * time.Second
)

// Partitions is how many a topic has that is made by its first use.
const Partitions = 8

// cluster is any id in Kafka's form: 16 bytes in base64.
const cluster = "b3RlbGNvbC1zZ2xhbmctLQ"

// properties are of one node that is broker and controller, without replicas.
const properties = `
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@localhost:%[2]d
listeners=PLAINTEXT://localhost:%[1]d,CONTROLLER://localhost:%[2]d
advertised.listeners=PLAINTEXT://localhost:%[1]d
controller.listener.names=CONTROLLER
log.dirs=%[3]s
num.partitions=%[4]d
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
`

// Broker is one that runs.
type Broker struct {
	t testing.TB
	// Address is its host:port.
	Address string
	dir     string
	cmd     *exec.Cmd
}

// Topic is one that a test has for itself, made by its first use.
type Topic struct{ broker, name string }

// Topic is a topic of the broker.
func (b *Broker) Topic(name string) Topic { return Topic{b.Address, name} }

// Env makes collectors use the topic, and a consumer group of the same name.
func (t Topic) Env() []string {
	return []string{"KAFKA_BROKERS=" + t.broker, "KAFKA_TOPIC=" + t.name, "KAFKA_GROUP=" + t.name}
}

// Start runs a broker until the test's end.
func Start(t testing.TB) *Broker {
	t.Helper()
	port := tool.FreePort(t)
	b := &Broker{t: t, Address: tool.Address(port), dir: t.TempDir()}
	text := fmt.Sprintf(properties, port, tool.FreePort(t), filepath.Join(b.dir, "data"), Partitions)
	require.NoError(t, os.WriteFile(b.config(), []byte(text), 0o600))
	out, err := b.java("kafka.tools.StorageTool", "format", "--cluster-id", cluster, "--config", b.config()).CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Cleanup(b.stop)
	b.run()
	return b
}

func (b *Broker) config() string { return filepath.Join(b.dir, "server.properties") }

func (b *Broker) java(args ...string) *exec.Cmd {
	b.t.Helper()
	libs := filepath.Join(tool.Root(), ".cache", "kafka", "libs")
	if _, err := os.Stat(libs); err != nil {
		tool.Missing(b.t, libs, "make e2e-kafka fetches them, with maven")
	}
	java := tool.Need(b.t, "java", "apt-get install openjdk-17-jre-headless")
	cmd := exec.Command(java, append([]string{"-Xmx512m", "-cp", filepath.Join(libs, "*")}, args...)...)
	cmd.Dir = b.dir
	return cmd
}

func (b *Broker) run() {
	b.t.Helper()
	log, err := os.Create(filepath.Join(b.dir, "log"))
	require.NoError(b.t, err)
	defer log.Close()
	b.cmd = b.java("kafka.Kafka", b.config())
	b.cmd.Stdout, b.cmd.Stderr = log, log
	require.NoError(b.t, b.cmd.Start())
	if !tool.Until(startLimit, b.listens) {
		raw, _ := os.ReadFile(log.Name())
		b.t.Fatalf("the broker did not start:\n%s", raw)
	}
}

func (b *Broker) listens() bool {
	conn, err := net.DialTimeout("tcp", b.Address, time.Second)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

func (b *Broker) stop() {
	if b.cmd == nil || b.cmd.Process == nil {
		return
	}
	_ = b.cmd.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(stopLimit, func() { _ = b.cmd.Process.Kill() })
	defer late.Stop()
	_ = b.cmd.Wait()
}
