#!/usr/bin/env bash
# Checks what Kubernetes gets, without a cluster: the manifests and what the Helm chart
# renders, by the schemas of several Kubernetes releases and of the Prometheus operator,
# and the configurations in a pod by the collector itself.
set -euo pipefail
cd "$(dirname "$0")/.."

# Each at a release that is served; kubectl-validate has the schemas built in.
readonly helm_version=v3.19.5 validate_version=v0.0.4 operator_version=v0.85.0
readonly kubernetes="1.29 1.30" chart=config/helm/otelcol-sglang

tools=$PWD/bin/tools
export GOBIN=$tools CGO_ENABLED=0
[[ -x $tools/helm ]] || go install "helm.sh/helm/v3/cmd/helm@$helm_version"
[[ -x $tools/kubectl-validate ]] || go install "sigs.k8s.io/kubectl-validate@$validate_version"
operator=$(cd "$(mktemp -d)" && go mod init x 2>/dev/null &&
	go mod download -json "github.com/prometheus-operator/prometheus-operator@$operator_version" |
	sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')

rendered=$(mktemp -d)
trap 'rm -rf "$rendered"' EXIT

# render NAME FLAGS...: one way to use the chart.
render() {
	local name=$1
	shift
	"$tools/helm" template --kube-version "${kubernetes%% *}.0" traces "$chart" "$@" >"$rendered/$name.yaml"
}
# refuse FLAGS...: values that the chart must not take.
refuse() {
	if "$tools/helm" template --kube-version "${kubernetes%% *}.0" traces "$chart" "$@" >/dev/null 2>&1; then
		echo "the chart takes $*" >&2
		return 1
	fi
}

"$tools/helm" lint --quiet "$chart"
render defaults
render all --set replicas=3,podMonitor.enabled=true,podMonitor.labels.release=prometheus \
	--set configFile=gateway-kafka.yaml --set 'secretMounts={kafka-tls}' \
	--set secretEnv.KAFKA_PASSWORD.name=kafka,secretEnv.KAFKA_PASSWORD.key=password \
	--set queue.storageClass=fast,podAnnotations.team=inference
render own --set 'config.receivers.sglang.protocols.grpc.endpoint=${env:POD_IP}:4317' --set networkPolicy.enabled=false
refuse --set replicas=0
refuse --set configFile=none.yaml
refuse --set unknown=1
refuse --set queue.size=2

for release in $kubernetes; do
	"$tools/kubectl-validate" --version "$release" --local-crds "$operator/example/prometheus-operator-crd" \
		config/kubernetes/engine-with-agent.yaml "$rendered"
done

# What the image's configurations say in a pod.
export POD_IP=127.0.0.1 OTLP_LISTEN=127.0.0.1 SGLANG_METRICS_ADDR=127.0.0.1:8889 COLLECTOR_ID=gateway-0
SGLANG_QUEUE=$rendered/queue && export SGLANG_QUEUE
for config in agent agent-gateway agent-kafka agent-routing gateway gateway-kafka; do
	bin/otelcol-sglang validate --config "config/$config.yaml" --config config/kubernetes/pod.yaml
done
echo "Kubernetes manifests, chart and configurations are fine"
