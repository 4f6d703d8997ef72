{{- define "parley.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end -}}
{{- end }}

{{- define "parley.chosen" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "parley.labels" -}}
{{ include "parley.chosen" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- /* What would start and not work, or lose what people say, is refused with a sentence. */}}
{{- define "parley.check" -}}
{{- $several := gt (int .Values.replicas) 1 }}
{{- if and $several (not .Values.postgres.secret) }}
{{- fail "replicas is more than 1 without postgres.secret: nodes share their sessions in a PostgreSQL; see docs/CLUSTER.md" }}
{{- end }}
{{- if and $several (not .Values.cluster.tlsSecret) (not .Values.cluster.insecure) }}
{{- fail "replicas is more than 1 without cluster.tlsSecret: nodes prove to each other who they are; cluster.insecure=true does without, where nobody else reaches cluster.port" }}
{{- end }}
{{- if and $several (eq .Values.auth.mode "keys") (not .Values.auth.keysSecret) (not (contains "[[auth.keys]]" .Values.config)) }}
{{- fail "replicas is more than 1 and auth.mode is keys without auth.keysSecret: each node would know keys of its own only; see docs/CLUSTER.md" }}
{{- end }}
{{- if and .Values.metrics.enabled (not .Values.metrics.keySecret) (not .Values.metrics.insecure) }}
{{- fail "metrics.enabled needs metrics.keySecret (a key with the scope admin), or metrics.insecure=true if only those reach metrics.port who may read profiles and make backups" }}
{{- end }}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.enabled) }}
{{- fail "metrics.serviceMonitor.enabled needs metrics.enabled" }}
{{- end }}
{{- if and .Values.ingress.enabled (not .Values.ingress.host) }}
{{- fail "ingress.enabled needs ingress.host: the server takes requests for names that it knows" }}
{{- end }}
{{- if regexMatch "postgres(ql)?://|whsec_|xox[bp]-|(?m)^\\s*(key|hs256_secret)\\s*=\\s*\"(parley_|sk-)" .Values.config }}
{{- fail "config holds a secret, and would stand in a ConfigMap: put it into a Secret, name that in secretEnv, and write env:NAME" }}
{{- end }}
{{- end }}
