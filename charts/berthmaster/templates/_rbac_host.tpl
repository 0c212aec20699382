{{/* What each component may do in the host cluster, in the release's namespace: the Secrets of certificates, and nothing else. */}}

{{- define "berthmaster.hostRules.certs" -}}
{{- include "berthmaster.secretRules" . }}
{{- end -}}

{{- define "berthmaster.hostRules.register" -}}
{{- include "berthmaster.secretRules" . }}
{{- end -}}

{{- define "berthmaster.secretRules" -}}
{{- $own := eq .Values.certificates.source "own" }}
{{- $secrets := list }}
{{- if $own }}
{{- $secrets = append $secrets (printf "%s-ca" (include "berthmaster.fullname" .)) }}
{{- end }}
{{- range (include "berthmaster.servers" . | fromJson).list }}
{{- $secrets = append $secrets (include "berthmaster.tlsSecret" (list $ .)) }}
{{- end }}
{{- if $secrets }}
- apiGroups: [""]
  resources: [secrets]
  resourceNames: {{ $secrets | toJson }}
  verbs: {{ ternary (list "get" "update") (list "get") $own | toJson }}
{{- if $own }}
- apiGroups: [""]
  resources: [secrets]
  verbs: [create] # which no name can restrict
{{- end }}
{{- end }}
{{- end -}}
