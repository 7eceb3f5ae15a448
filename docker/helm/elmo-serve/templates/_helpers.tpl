{{- define "elmo.name" -}}
{{- if contains "elmo-serve" .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-elmo-serve" (.Release.Name | trunc 41 | trimSuffix "-") -}}
{{- end -}}
{{- end -}}

{{- define "elmo.selector" -}}
app.kubernetes.io/name: elmo-serve
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "elmo.labels" -}}
{{ include "elmo.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "elmo.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ if and $.Values.gpu.enabled (not .tag) }}{{ $.Values.gpu.tagSuffix }}{{ end }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "elmo.account" -}}
{{- .Values.serviceAccount.name | default (ternary (include "elmo.name" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{- define "elmo.secret" -}}
{{- .Values.apiKeys.existingSecret | default (printf "%s-keys" (include "elmo.name" .)) -}}
{{- end -}}
