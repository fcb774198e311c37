# Works on a machine with Go and make: build, run, test. The other targets say
# what else they need; where it is missing they are skipped, and fail if CI is set.
GO    ?= go
PYTHON ?= python3

# No C compiler is needed, and one build cache serves builds and tests.
export CGO_ENABLED = 0

TOOLS := $(GO) tool -modfile=internal/tools/go.mod
LINT  := $(TOOLS) golangci-lint

# need ends a recipe where a program is missing. It must be in one shell with the rest.
need = for t in $(1); do command -v $$t >/dev/null 2>&1 && continue; \
	if [ -n "$$CI" ]; then echo "make $@: $$t is missing" >&2; exit 1; fi; \
	echo "make $@: skipped, as $$t is missing"; exit 0; done

.DEFAULT_GOAL := help

## build: bin/otelcol-sglang, bin/sglangctl and bin/sglang-sim
.PHONY: build
build:
	cd otelcol-dev && $(GO) build -trimpath -ldflags="-s -w" -o ../bin/otelcol-sglang .
	$(GO) build -trimpath -ldflags="-s -w" -o bin/sglangctl ./cmd/sglangctl
	$(GO) build -trimpath -ldflags="-s -w" -o bin/sglang-sim ./cmd/sglang-sim

## run: the collector with a simulated engine; SIM='--tp-size=8 ...' for another one, ENGINE=http://host:30000 for a real one
.PHONY: run
run: build
	@exec bin/sglangctl up $(if $(ENGINE),--engine $(ENGINE)) $(if $(SIM),-- $(SIM))

## demo-pd: the collector with a simulated prefill and a decode engine
.PHONY: demo-pd
demo-pd: build
	@exec bin/sglangctl up --pd

## test: unit, golden and property tests
.PHONY: test
test:
	$(GO) test ./...
	cd bench && $(GO) test ./...
	cd boards && $(GO) test -short ./...

# How often each property is tried; there are ten.
CHECKS ?= 100000

## property: the property tests of rankdedup's traces, more than a million cases (an hour or more)
.PHONY: property
property:
	$(GO) test -count=1 -timeout 12h -run 'Late|Union|Conversation|Parallel|Cold|Engines|Shutdown|LongTrace' \
		./processor/rankdedupprocessor/internal/fold -rapid.checks=$(CHECKS)

# Whole engines run on one goroutine and take many minutes here; their parts are in.
## race: the same under the race detector (gcc)
.PHONY: race
race:
	@$(call need,gcc); set -x; CGO_ENABLED=1 $(GO) test -race -short -timeout 20m $$($(GO) list ./... | grep -v /engine$$)

## e2e: the built binary with Python OpenTelemetry SDKs and Prometheus (python3-venv, prometheus)
.PHONY: e2e
e2e: build test/.venv/ready
	cd test && $(GO) test -count=1 -timeout 20m -v -skip '^Test(Kafka|Jaeger|OwnClock)' ./...

## e2e-kafka: agents and gateways with a Kafka broker between them (java, maven)
.PHONY: e2e-kafka
e2e-kafka: build .cache/kafka/ready
	cd test && $(GO) test -count=1 -timeout 20m -v -run '^TestKafka' .

.cache/kafka/ready: test/backends/kafka/pom.xml
	@$(call need,java mvn); set -x; rm -rf $(@D); \
	mvn -q -B -f $< dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$(@D)/libs -DincludeScope=runtime && touch $@

# Built anew where the collector's own parts or this script changed: minutes of CPU time.
## e2e-clock: the clock of the collector's own host jumps, in a build of the collector for that
.PHONY: e2e-clock
e2e-clock: build
	scripts/build-clock-jump.sh bin/otelcol-sglang-clock
	cd test && $(GO) test -count=1 -timeout 10m -v -run '^TestOwnClock' .

# Built once, which takes ten minutes of CPU time.
## e2e-jaeger: what Jaeger shows of the spans of Python OpenTelemetry SDKs (python3-venv)
.PHONY: e2e-jaeger
e2e-jaeger: build bin/jaeger test/.venv/ready
	cd test && $(GO) test -count=1 -timeout 10m -v -run '^TestJaeger' .

bin/jaeger: test/backends/jaeger/go.sum
	cd $(<D) && $(GO) build -trimpath -ldflags="-s -w" -o $(CURDIR)/$@ github.com/jaegertracing/jaeger/cmd/jaeger

# Where Python is missing the tests that need it say so, and fail if CI is set.
test/.venv/ready: test/requirements.txt
	@$(call need,$(PYTHON)); set -x; rm -rf test/.venv; \
	if $(PYTHON) -m venv test/.venv && test/.venv/bin/pip install -q -r test/requirements.txt; then touch $@; \
	else test -z "$$CI"; fi

## bench: benchmarks of the components and of the simulated engine
.PHONY: bench
bench:
	$(GO) test -run '^$$' -bench . -benchmem ./receiver/... ./processor/... ./connector/... ./engine/...

# Linux; about a quarter of an hour. BENCH='-rounds 1' and others: see bench/main.go.
## bench-compare: CPU time and memory of whole pipelines side by side (docs/performance.md)
.PHONY: bench-compare
bench-compare: build bench/otelcol-peer/otelcol-peer
	cd bench && $(GO) run . $(BENCH)

# Linux; ten minutes. SIZING='-long 16' and others: see bench/sizing/main.go.
## sizing: CPU, memory and network of an agent and a gateway at several loads (docs/sizing.md)
.PHONY: sizing
sizing: build
	cd bench && $(GO) run ./sizing $(SIZING)

bench/otelcol-peer/otelcol-peer: bench/builder-config.yaml
	GOFLAGS="$$($(GO) env GOFLAGS) -e" $(GO) tool builder --config $<

## lint: golangci-lint with .golangci.yaml
.PHONY: lint
lint:
	$(LINT) run ./...
	cd test && $(GO) tool -modfile=../internal/tools/go.mod golangci-lint run ./...
	cd bench && $(GO) tool -modfile=../internal/tools/go.mod golangci-lint run ./...
	cd boards && $(GO) tool -modfile=../internal/tools/go.mod golangci-lint run ./...

## fmt: format all Go files
.PHONY: fmt
fmt:
	$(LINT) fmt

## check-fmt: fail where fmt would change a file
.PHONY: check-fmt
check-fmt:
	$(LINT) fmt --diff

# -e lets `go mod tidy`, which ocb runs, go on where a module proxy lacks what only
# tests of our parts' dependencies import.
## generate: components' metadata, metric catalogue, otelcol-dev/, dashboards
.PHONY: generate
generate:
	$(GO) generate ./...
	GOFLAGS="$$($(GO) env GOFLAGS) -e" $(GO) tool builder --config builder-config.yaml --skip-compilation
	cd boards && $(GO) run ./generate

## check-generate: fail where generate would change a file
.PHONY: check-generate
check-generate:
	scripts/unchanged.sh $(MAKE) --no-print-directory generate

## check-boards: rules, alerts and dashboards against what simulated engines show (prometheus)
.PHONY: check-boards
check-boards: build
	@$(call need,prometheus promtool); set -xe; cd boards; \
	dir=$$(mktemp -d); trap "rm -rf $$dir" EXIT; \
	$(GO) test -count=1 ./record ./dashboards/... ./generate/... ./internal/...; \
	$(GO) test -count=1 -timeout 20m -v ./rules -recordings $$dir

## boards-pictures: draws the dashboards of simulated engines in .data/boards (prometheus)
.PHONY: boards-pictures
boards-pictures:
	@$(call need,prometheus promtool); set -x; mkdir -p .data/boards && cd boards && \
	BOARDS_PICTURES=$(CURDIR)/.data/boards $(GO) test -count=1 -timeout 30m -run EveryPanel ./dashboards

FUZZTIME ?= 10s

## fuzz: each fuzz target for FUZZTIME
.PHONY: fuzz
fuzz:
	scripts/fuzz.sh $(FUZZTIME)

# 24 minutes.
## soak: a day of an engine, fast: memory and series stay flat
.PHONY: soak
soak: build
	cd test && $(GO) test -count=1 -timeout 60m -v -run '^TestSoak$$' . -engine-time 24h

## sbom: dist/otelcol-sglang.sbom.json, the parts of the built collector
.PHONY: sbom
sbom: build
	scripts/sbom.sh bin/otelcol-sglang dist/otelcol-sglang.sbom.json

## vulncheck: known vulnerabilities of the built collector (needs the Go vulnerability database)
.PHONY: vulncheck
vulncheck: build
	scripts/vulncheck.sh bin/otelcol-sglang

# Builds helm and kubectl-validate into bin/tools: some minutes the first time.
## check-kubernetes: the manifests and the Helm chart, by the schemas of Kubernetes
.PHONY: check-kubernetes
check-kubernetes: build
	scripts/check-kubernetes.sh

## clean: remove what was built and recorded
.PHONY: clean
clean:
	rm -rf bin dist .data test/.venv bench/otelcol-peer

## help: this list
.PHONY: help
help:
	@sed -n 's/^## \([a-z0-9-]*\): \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "  make %-15s %s\n", $$1, $$2 }'
