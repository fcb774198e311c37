// Copyright The otelcol-sglang Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/otelcol-sglang/otelcol-sglang/test/internal/certs"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/docs"
	"github.com/otelcol-sglang/otelcol-sglang/test/internal/tool"
)

// trial is how a command of the documentation is tried. It is run as it stands, in the
// project's folder, unless a field says otherwise.
type trial struct {
	// as is what is typed here: with names in place of ID, or a shorter time.
	as string
	// while is the command of the documentation that runs meanwhile.
	while string
	// ready is what a command that runs on answers once it works; it is interrupted
	// then, after all that runs while it does.
	ready string
	// want is a pattern of what it prints, exit its exit code.
	want string
	exit int
	// notRun says why it is not run, and check what is looked at instead.
	notRun string
	check  func(t *testing.T, command string)
}

// Reasons not to run a command here.
const (
	inCI     = "a step of .ci/run runs it"
	byHand   = "it takes long, and what it measures depends on the machine"
	asAParts = "its parts are run one by one"
)

// Addresses that tell whether something works.
const (
	collectorUp = "http://localhost:13133/"
	engineUp    = "http://localhost:30000/ready"
)

// Commands that others run beside.
const (
	makeRun    = "make run"
	makePair   = "make demo-pd"
	makeReal   = "make run ENGINE=http://localhost:30000"
	upByPath   = "sglangctl up"
	launch     = "SGLANG_TRACE_LEVEL=2 python -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B-Instruct --tp 4 --port 30000 --enable-metrics --enable-trace --otlp-traces-endpoint localhost:4317"
	simLoad    = "bin/sglang-sim load --target http://localhost:30000 --load rag:rate=5,for=60s"
	aCollector = "bin/otelcol-sglang --config config/quickstart.yaml"
)

// trials are all commands of the documentation, by what the reader types.
var trials = map[string]trial{
	// make
	"make help":              {want: `make e2e-kafka +agents and gateways`},
	"make build":             {},
	"make sbom":              {notRun: inCI, check: inSteps},
	"make build test":        {notRun: inCI, check: inSteps},
	"make test":              {notRun: inCI, check: inSteps},
	"make lint check-fmt":    {notRun: inCI, check: inSteps},
	"make check-generate":    {notRun: inCI, check: inSteps},
	"make race":              {notRun: inCI, check: inSteps},
	"make e2e":               {notRun: inCI, check: inSteps},
	"make check-kubernetes":  {notRun: inCI, check: inSteps},
	"make generate":          {notRun: "check-generate, a step of .ci/run, runs it", check: isTarget},
	"go run ./generate":      {notRun: "make generate runs it in boards/", check: isPackageOf("boards")},
	"make e2e-kafka":         {notRun: inCI, check: inSteps},
	"make e2e-jaeger":        {notRun: inCI, check: inSteps},
	"make e2e-clock":         {notRun: "TestOwnClockJump/back fails as long as rankdedup reckons by the wall clock", check: isTarget},
	"make check-boards":      {notRun: inCI, check: inSteps},
	"make boards-pictures":   {notRun: byHand, check: isTarget},
	"make bench":             {notRun: byHand, check: isTarget},
	"make vulncheck":         {notRun: "it asks a database that may be out of reach", check: isTarget},
	"make fuzz FUZZTIME=10s": {notRun: byHand, check: isTarget},
	"make run demo-pd":       {notRun: asAParts, check: isTarget},
	".ci/run":                {notRun: "it is what runs this", check: isScript},
	"make sizing":            {notRun: byHand, check: isTarget},
	"make sizing SIZING='-long 16 -short 16 -engines 1'":                   {notRun: byHand, check: hasFlagsOf("./sizing")},
	"make sizing SIZING='-doc ../docs/sizing.md'":                          {notRun: byHand, check: hasFlagsOf("./sizing")},
	"make bench-compare":                                                   {notRun: byHand, check: isTarget},
	"make bench-compare BENCH='-rounds 1 -only ab'":                        {notRun: byHand, check: hasFlagsOf(".")},
	"make bench-compare BENCH='-profile /tmp'":                             {notRun: byHand, check: hasFlagsOf(".")},
	"make bench-compare BENCH='-doc ../docs/performance.md'":               {notRun: byHand, check: hasFlagsOf(".")},
	"make bench-compare BENCH='-step 6.4ms -requests 225 -rounds 2'":       {notRun: byHand, check: hasFlagsOf(".")},
	"BENCH_COMPRESSION=none make bench-compare BENCH='-only ab -rounds 1'": {notRun: byHand, check: hasFlagsOf(".")},
	"cd bench && go run . -help":                                           {want: `-rounds int`},
	"go test -v":                                                           {notRun: "make e2e runs it", check: isHowE2ERuns},
	"go test -bench . ./engine/trace":                                      {as: "go test -run xxx -bench . -benchtime 1x ./engine/trace", want: `(?m)^Benchmark`},
	"go test -run '^$' -bench CPU ./processor/genaiprocessor":              {as: "go test -run '^$' -bench CPU -benchtime 1x ./processor/genaiprocessor", want: `(?m)^Benchmark`},
	"go test ./engine -run 'TestTruth' -v -requests 10000 -timeout 60m":    {as: "go test ./engine -list 'TestTruth' -requests 10000", want: `(?m)^TestTruth`},
	"go test -run xxx -bench . -cpu 1 ./engine/trace":                      {as: "go test -run xxx -bench . -benchtime 1x -cpu 1 ./engine/trace", want: `(?m)^Benchmark`},
	"go run ./dashboards/picture/draw -prometheus http://localhost:9090": {
		as: "cd boards && go run ./dashboards/picture/draw -help", want: `-prometheus string`,
	},

	// The quickstart, and what one looks at beside it.
	makeRun:                       {ready: summaryLine},
	"bin/sglangctl traces":        {while: makeRun, want: `TTFT`},
	"bin/sglangctl trace slowest": {while: makeRun, want: `where the time went`},
	"bin/sglangctl doctor":        {while: makeRun, want: `ok +ranks `},
	"bin/sglangctl doctor --want ranks,device-timer --json": {while: makeRun, exit: 1, want: `"flag-device-timer"`},
	"bin/sglangctl summary":                                 {while: makeRun, want: summaryLine},
	"bin/sglangctl explain ID":                              {while: makeRun, as: "bin/sglangctl explain last", want: `sglang\.budget`},
	upByPath:                                                {ready: summaryLine},
	"sglangctl doctor":                                      {while: upByPath, want: `ok +spans `},
	"sglangctl traces":                                      {while: upByPath, want: `TTFT`},
	"sglangctl summary":                                     {while: upByPath, want: summaryLine},
	"sglangctl trace slowest":                               {while: upByPath, want: `where the time went`},
	"sglangctl trace ID|last|slowest":                       {while: upByPath, as: "sglangctl trace last", want: `where the time went`},
	"sglangctl explain REQUEST [NAME]":                      {while: upByPath, as: "sglangctl explain last time_in_queue", want: `gen_ai\.latency\.time_in_queue`},
	"sglangctl explain ID gen_ai.latency.time_to_first_token": {
		while: upByPath, as: "sglangctl explain slowest gen_ai.latency.time_to_first_token", want: `time_to_first_token`,
	},
	"sglangctl explain --series 'sglang:num_running_reqs'": {while: upByPath, want: `result`},
	makePair: {ready: summaryLine},
	"bin/sglangctl doctor --engine http://host-a:30000 --engine http://host-b:30000 --collector http://localhost:8888/metrics": {
		while: makePair, want: `ok +engine `,
		as: "bin/sglangctl doctor --engine http://localhost:30000 --engine http://localhost:30001 --collector http://localhost:8888/metrics",
	},
	"make run SIM='--tp-size=8 --enable-metrics --fault=kv-pressure:after=20s --load=rag:rate=4'": {ready: summaryLine},
	"bin/sglangctl up --captures all": {ready: `requests from [1-9]\d* processes; kept`},
	aCollector:                        {ready: collectorUp},
	"sglangctl replay":                {while: aCollector, want: `^sent [\d ]+ spans of [\d ]+ requests from \d+ processes\n$`},

	// A real engine, whose place the simulated one takes.
	launch:   {ready: engineUp, as: standIn(launch)},
	makeReal: {while: launch, ready: collectorUp},
	simLoad:  {while: launch, as: strings.Replace(simLoad, "for=60s", "for=5s", 1), want: `TTFT`},
	`curl "http://ENGINE/set_trace_level?level=1"`: {while: launch, as: `curl -fsS "http://localhost:30000/set_trace_level?level=1"`},
	`pip install "sglang[tracing]"`:                {notRun: "the engine needs a GPU"},
	`OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf OTEL_EXPORTER_OTLP_CERTIFICATE=/etc/tls/ca.crt OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20$TOKEN" python -m sglang.launch_server ... --enable-trace --otlp-traces-endpoint https://collector:4318/v1/traces`: {
		notRun: "the engine needs a GPU; its exporter is run", check: sendsOverTLS,
	},

	// The simulated engine.
	"bin/sglang-sim --help":       {want: `--fault`},
	"sglang-sim --help":           {want: `--fault`},
	"bin/sglang-sim --fault list": {want: `slow-rank`},
	"sglang-sim load":             {while: launch, as: "sglang-sim load --load chat:for=3s", want: `TTFT`},
	"bin/sglang-sim --tp-size 4 --enable-metrics --enable-trace --load chat":                                                        {ready: engineUp},
	"bin/sglang-sim --tp-size 4 --dp-size 2 --enable-dp-attention --enable-metrics --load mixed --fault slow-rank:rank=3,after=30s": {ready: engineUp},

	// Where it is to stay.
	"otelcol-sglang validate --config FILE": {as: "otelcol-sglang validate --config config/gateway.yaml"},
	"bin/otelcol-sglang --config config/agent.yaml --config config/security/bearer.yaml": {
		notRun: "TestBearer runs it with certificates", check: isValid,
	},
	"bin/otelcol-sglang --config config/agent.yaml --config config/security/mtls.yaml": {
		notRun: "TestMutualTLS runs it with certificates", check: isValid,
	},
	"docker build -t otelcol-sglang .": {notRun: "it needs a Docker daemon and a registry", check: hasWhatItCopies},
	"helm install traces config/helm/otelcol-sglang --set image.repository=YOUR-REGISTRY/otelcol-sglang --set env.OTLP_ENDPOINT=YOUR-BACKEND:4317": {
		notRun: "it needs a cluster; make check-kubernetes renders the chart", check: hasValues,
	},
	"kubectl describe pod":                               {notRun: "it needs a cluster"},
	"install -m 0755 bin/otelcol-sglang /usr/local/bin/": {notRun: "TestUnit installs to another root", check: isInUnitTest},
	"install -d /etc/otelcol-sglang && install -m 0644 config/*.yaml /etc/otelcol-sglang/": {
		notRun: "TestUnit installs to another root", check: isInUnitTest,
	},
	"install -m 0644 config/systemd/otelcol-sglang.service /etc/systemd/system/": {
		notRun: "TestUnit installs to another root", check: isInUnitTest,
	},
	"systemctl enable --now otelcol-sglang": {notRun: "it needs systemd; TestUnit looks at the unit"},
}

// TestDocumented: each command of the documentation is run, or a reason stands above
// and what can be checked is checked; none is unknown, and none is left from a
// documentation of the past.
func TestDocumented(t *testing.T) {
	all, err := docs.Commands(tool.Root())
	require.NoError(t, err)
	where := map[string]string{}
	for _, c := range all {
		where[c.Text] = fmt.Sprintf("%s:%d", c.File, c.Line)
		_, known := trials[c.Text]
		assert.True(t, known, "%s:%d has a command that nothing tries: %s", c.File, c.Line, c.Text)
	}
	for command, how := range trials {
		assert.Contains(t, where, command, "no document has it")
		assert.False(t, how.notRun == "" && how.check != nil, "%s: a check stands in for a run", command)
	}
	if t.Failed() {
		return
	}
	tryAll(t, where, "")
}

// tryAll tries the commands that go beside another one; first those that end.
func tryAll(t *testing.T, where map[string]string, while string) {
	var ending, running []string
	for command := range where {
		switch how := trials[command]; {
		case how.while != while:
		case how.ready == "":
			ending = append(ending, command)
		default:
			running = append(running, command)
		}
	}
	slices.Sort(ending)
	slices.Sort(running)
	// Where an engine has a collector beside it others speak to both.
	if while != "" {
		slices.Reverse(running)
	}
	for _, command := range ending {
		t.Run(where[command], func(t *testing.T) { try(t, command) })
	}
	for _, command := range running {
		t.Run(where[command], func(t *testing.T) {
			started := startTyped(t, typed(command))
			started.becomes(trials[command].ready)
			tryAll(t, where, command)
			started.interrupt()
			assert.NotContains(t, started.printed(), "was killed")
		})
	}
}

// typed is what is typed for a command.
func typed(command string) string {
	if as := trials[command].as; as != "" {
		return as
	}
	return command
}

// try runs a command that ends by itself, again until it prints what it should: the
// first requests may not be through.
func try(t *testing.T, command string) {
	how := trials[command]
	t.Log(command)
	if how.notRun != "" {
		t.Log("not run:", how.notRun)
		if how.check != nil {
			how.check(t, command)
		}
		return
	}
	var out []byte
	var code int
	tries := 0
	good := tool.Until(outLimit, func() bool {
		tries++
		out, code = run(t, typed(command))
		return code == how.exit && regexp.MustCompile(how.want).Match(out) || how.while == ""
	})
	require.True(t, good && code == how.exit, "exit code %d after %d tries:\n%s", code, tries, out)
	require.Regexp(t, how.want, string(out))
}

// run types a command in the project's folder.
func run(t *testing.T, command string) (out []byte, code int) {
	t.Helper()
	const limit = 5 * time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Dir, cmd.Env = tool.Root(), typist()
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out, cmd.ProcessState.ExitCode()
}

// typist is the environment of one who has the programs in the path, and in which no
// other make runs.
func typist() []string {
	env := slices.DeleteFunc(os.Environ(), func(s string) bool {
		name, _, _ := strings.Cut(s, "=")
		return slices.Contains([]string{"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "ENGINE", "CI"}, name)
	})
	return append(env, "PATH="+filepath.Join(tool.Root(), "bin")+":"+os.Getenv("PATH"))
}

// startTyped starts what runs until it is interrupted, as a terminal does: by a signal
// to all of it.
func startTyped(t *testing.T, command string) *demo {
	t.Helper()
	t.Log(command)
	cmd := exec.Command("sh", "-c", command)
	cmd.Env = typist()
	return watch(t, cmd)
}

// becomes waits until a URL answers, or for a line.
func (d *demo) becomes(ready string) {
	d.t.Helper()
	if !strings.HasPrefix(ready, "http") {
		d.says(ready)
		return
	}
	answers := func() bool {
		resp, err := http.Get(ready) //nolint:gosec,noctx // a constant of ours
		if err != nil {
			return false
		}
		return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	}
	require.True(d.t, tool.Until(upLimit, func() bool { return d.ended() || answers() }) && !d.ended(),
		"no answer from %s:\n%s", ready, d.printed())
}

// standIn is the simulated engine in place of SGLang.
func standIn(command string) string {
	return strings.NewReplacer("python -m sglang.launch_server", "bin/sglang-sim", "--tp ", "--tp-size ").Replace(command)
}

var assignment = regexp.MustCompile(`\w+=('[^']*'|\S+)`)

// targets are what `make` is asked for.
func targets(command string) []string {
	_, after, _ := strings.Cut(command, "make")
	return strings.Fields(assignment.ReplaceAllString(after, ""))
}

// isTarget: the list of targets has it, and make knows how.
func isTarget(t *testing.T, command string) {
	t.Helper()
	list, _ := run(t, "make help")
	for _, target := range targets(command) {
		assert.Regexp(t, `(?m)^  make `+target+` `, string(list))
		out, code := run(t, "make --dry-run "+target)
		assert.Zero(t, code, "%s", out)
	}
}

// inSteps: .ci/run has it.
func inSteps(t *testing.T, command string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(tool.Root(), ".ci", "run"))
	require.NoError(t, err)
	for _, target := range targets(command) {
		assert.Regexp(t, `(?m)^step make `+target+`$`, string(raw))
	}
}

func isScript(t *testing.T, command string) {
	t.Helper()
	out, code := run(t, "test -x "+command+" && bash -n "+command)
	assert.Zero(t, code, "%s", out)
}

// isPackageOf: what `go run` names is a program of the module in a folder.
func isPackageOf(module string) func(t *testing.T, command string) {
	return func(t *testing.T, command string) {
		t.Helper()
		out, code := run(t, "cd "+module+" && go list -f {{.Name}} "+command[strings.LastIndex(command, " "):])
		assert.Zero(t, code)
		assert.Equal(t, "main\n", string(out))
	}
}

var dashed = regexp.MustCompile(`(?:^|[ '])-([a-z]+)`)

// hasFlagsOf: the program in bench/ has each flag that make hands on.
func hasFlagsOf(program string) func(t *testing.T, command string) {
	return func(t *testing.T, command string) {
		t.Helper()
		isTarget(t, command)
		help, _ := run(t, "cd bench && go run "+program+" -help")
		_, handed, _ := strings.Cut(command, "make")
		flags := dashed.FindAllStringSubmatch(assignment.FindString(handed), -1)
		assert.NotEmpty(t, flags)
		for _, f := range flags {
			assert.Regexp(t, `(?m)^  -`+f[1]+`( |$)`, string(help))
		}
	}
}

func isHowE2ERuns(t *testing.T, _ string) {
	t.Helper()
	out, _ := run(t, "make --dry-run e2e")
	assert.Regexp(t, `go test .*-v `, string(out))
}

// isValid: the collector takes the configurations, with the files that they name.
func isValid(t *testing.T, command string) {
	t.Helper()
	t.Setenv("TLS_DIR", certs.New(t).Dir)
	t.Setenv("SGLANG_QUEUE", t.TempDir())
	for _, name := range []string{"CLIENT_TOKENS", "ENGINE_TOKEN", "BACKEND_TOKEN"} {
		file := filepath.Join(t.TempDir(), "token")
		require.NoError(t, os.WriteFile(file, []byte(clientToken), 0o600))
		t.Setenv(name, file)
	}
	out, code := run(t, strings.Replace(command, "otelcol-sglang", "otelcol-sglang validate", 1))
	assert.Zero(t, code, "%s", out)
}

// oneSpan sends a span with the exporter that an engine uses for this protocol.
const oneSpan = `
import sys
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=sys.argv[1])))
provider.get_tracer("x").start_span("x").end()
provider.shutdown()
`

// sendsOverTLS: with this environment the exporter of the OpenTelemetry SDK gets
// through to a collector with config/security/bearer.yaml.
func sendsOverTLS(t *testing.T, command string) {
	t.Helper()
	python := tool.Python(t)
	s := startSecured(t, "bearer.yaml", true, "")
	program := filepath.Join(t.TempDir(), "span.py")
	require.NoError(t, os.WriteFile(program, []byte(oneSpan), 0o600))
	environment, _, _ := strings.Cut(command, "python")
	environment = strings.Replace(environment, "/etc/tls", s.authority.Dir, 1)
	out, code := run(t, "unset REQUESTS_CA_BUNDLE CURL_CA_BUNDLE; TOKEN="+clientToken+"; NO_PROXY=localhost "+environment+python+" "+program+" https://"+s.HTTP+"/v1/traces")
	assert.Zero(t, code, "%s", out)
	assert.True(t, until(func() bool { return s.backend.taken.Load() > 0 }), "%s", out)
}

// hasWhatItCopies: the files that the Dockerfile takes exist, and its configuration.
func hasWhatItCopies(t *testing.T, _ string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(tool.Root(), "Dockerfile"))
	require.NoError(t, err)
	sources := regexp.MustCompile(`(?m)^COPY .*?/src/(\S+)`).FindAllStringSubmatch(string(raw), -1)
	require.NotEmpty(t, sources)
	for _, m := range sources {
		found, err := filepath.Glob(filepath.Join(tool.Root(), m[1]))
		require.NoError(t, err)
		assert.NotEmpty(t, found, m[1])
	}
	command := regexp.MustCompile(`(?m)^CMD \["--config=/etc/otelcol-sglang/(.*)"\]$`).FindStringSubmatch(string(raw))
	require.NotNil(t, command)
	assert.FileExists(t, filepath.Join(tool.Root(), "config", command[1]))
}

// hasValues: the chart is where it is said to be, and has the values that are set.
func hasValues(t *testing.T, command string) {
	t.Helper()
	words := strings.Fields(command)
	raw, err := os.ReadFile(filepath.Join(tool.Root(), words[3], "values.yaml"))
	require.NoError(t, err)
	var values map[string]any
	require.NoError(t, yaml.Unmarshal(raw, &values))
	for _, m := range regexp.MustCompile(`--set (\w+)\.(\w+)=`).FindAllStringSubmatch(command, -1) {
		assert.Contains(t, values[m[1]], m[2])
	}
	helm := filepath.Join(tool.Root(), "bin", "tools", "helm")
	if _, err := os.Stat(helm); err != nil {
		t.Log("make check-kubernetes has built no helm")
		return
	}
	out, code := run(t, strings.Replace(command, "helm install", helm+" template", 1))
	assert.Zero(t, code, "%s", out)
	assert.Contains(t, string(out), "YOUR-REGISTRY/otelcol-sglang")
}

const unitFile = "config/systemd/otelcol-sglang.service"

func isInUnitTest(t *testing.T, command string) {
	t.Helper()
	assert.Contains(t, installs(t), command)
}

// installs are the unit's commands that put files in their places.
func installs(t *testing.T) (commands []string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(tool.Root(), unitFile))
	require.NoError(t, err)
	for _, c := range docs.InComments(string(raw)) {
		if strings.HasPrefix(c.Text, "install ") {
			commands = append(commands, c.Text)
		}
	}
	return commands
}

// TestUnit: the commands in the head of the systemd unit put everything where the unit
// looks for it, and systemd has nothing against it.
func TestUnit(t *testing.T) {
	t.Parallel()
	there := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(there, "usr/local/bin"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(there, "etc/systemd/system"), 0o755))
	for _, command := range installs(t) {
		out, code := run(t, regexp.MustCompile(` /(usr|etc)/`).ReplaceAllString(command, " "+there+"/$1/"))
		require.Zero(t, code, "%s", out)
	}
	unit := filepath.Join(there, "etc/systemd/system", filepath.Base(unitFile))
	raw, err := os.ReadFile(unit)
	require.NoError(t, err)
	start := regexp.MustCompile(`(?m)^ExecStart=(\S+) --config=(\S+)$`).FindStringSubmatch(string(raw))
	require.NotNil(t, start)
	out, code := run(t, there+start[1]+" validate --config="+there+start[2])
	assert.Zero(t, code, "%s", out)
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Log("no systemd here that would look at the unit")
		return
	}
	// Other units may be absent here; what is wrong with a line is said with its number.
	out, _ = run(t, "systemd-analyze verify --man=no "+unit)
	assert.NotRegexp(t, regexp.QuoteMeta(filepath.Base(unitFile))+`:\d+:`, string(out), "a line is not understood")
}
