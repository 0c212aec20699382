{{/* The rights of each component in the host cluster, in the release's namespace: only the Secrets of certificates. */}}

{{- define "berthmaster.hostRules.certs" -}}
{{- include "berthmaster.secretRules" . }}
{{- end -}}

{{- define "berthmaster.hostRules.register" -}}
{{- include "berthmaster.secretRules" . }}
{{- end -}}

{{/* The Secrets with certificates, as JSON; the authority's only with source own. */}}
{{- define "berthmaster.certificateSecrets" -}}
{{- $secrets := list }}
{{- if eq .Values.certificates.source "own" }}
{{- $secrets = append $secrets (printf "%s-ca" (include "berthmaster.fullname" .)) }}
{{- end }}
{{- range (include "berthmaster.servers" . | fromJson).list }}
{{- $secrets = append $secrets (include "berthmaster.tlsSecret" (list $ .)) }}
{{- end }}
{{- dict "list" $secrets | toJson }}
{{- end -}}

{{- define "berthmaster.secretRules" -}}
{{- $own := eq .Values.certificates.source "own" -}}
- apiGroups: [""]
  resources: [secrets]
  resourceNames: {{ (include "berthmaster.certificateSecrets" . | fromJson).list | toJson }}
  verbs: {{ ternary (list "get" "patch") (list "get") $own | toJson }}
{{- if $own }}
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch] # patch: what happens again is counted in the event
{{- end }}
{{- end -}}

{{- define "berthmaster.cleanupRules" -}}
- apiGroups: [""]
  resources: [secrets]
  resourceNames: {{ (include "berthmaster.certificateSecrets" . | fromJson).list | toJson }}
  verbs: [get, delete]
{{- end -}}
