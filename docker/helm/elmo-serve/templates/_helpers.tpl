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

{{- define "elmo.metadata" -}}
name: {{ include "elmo.name" . }}
labels:
  {{- include "elmo.selector" . | nindent 2 }}
  app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .Release.Service }}
  helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- /* The value of ELMO_MODELS. The first model is the default of a request; a mapping has its names in
       the order of the alphabet. */}}
{{- define "elmo.models" -}}
{{- $sources := list -}}
{{- range $name, $source := .Values.models -}}
{{- $one := printf "%s=%s" $name $source -}}
{{- if eq $name $.Values.model }}{{ $sources = prepend $sources $one }}{{ else }}{{ $sources = append $sources $one }}{{ end -}}
{{- end -}}
{{- join "," $sources -}}
{{- end -}}

{{- /* Fails where a model lies in a folder that the pod does not have. */}}
{{- define "elmo.check" -}}
{{- range (.Values.models | default (dict "" .Values.model)) -}}
{{- if and (hasPrefix "/" .) (not (and $.Values.modelsClaim (hasPrefix "/models/" .))) -}}
{{- fail (printf "model %s: a path lies below /models and needs modelsClaim" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
