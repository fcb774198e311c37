{{- define "otelcol-sglang.name" -}}
{{- printf "%s-gateway" .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "otelcol-sglang.selector" -}}
app.kubernetes.io/name: otelcol-sglang
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: gateway
{{- end -}}

{{- define "otelcol-sglang.labels" -}}
{{ include "otelcol-sglang.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}
