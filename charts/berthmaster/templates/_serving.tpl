{{/* Objects that the webhook and the extender share: (list $ "webhook" 8443). */}}

{{- define "berthmaster.service" -}}
{{- $values := (index (index . 0).Values (index . 1)).service }}
---
apiVersion: v1
kind: Service
metadata:
  {{- include "berthmaster.metadata" (list (index . 0) (index . 1) (printf "-%s" (index . 1))) | nindent 2 }}
  {{- with $values.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  type: {{ $values.type }}
  selector:
    {{- include "berthmaster.selector" . | nindent 4 }}
  ports:
    - name: https
      port: 443
      targetPort: https
      protocol: TCP
      appProtocol: https
{{- end -}}

{{- define "berthmaster.autoscaler" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $values := (index $root.Values $component).autoscaling -}}
{{- if $values.enabled }}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  {{- include "berthmaster.metadata" (list $root $component (printf "-%s" $component)) | nindent 2 }}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: {{ include "berthmaster.fullname" $root }}-{{ $component }}
  minReplicas: {{ include "berthmaster.number" $values.minReplicas }}
  maxReplicas: {{ include "berthmaster.number" $values.maxReplicas }}
  metrics:
    - type: Resource
      resource:
        name: cpu
        target: {type: Utilization, averageUtilization: {{ include "berthmaster.number" $values.targetCPUUtilizationPercentage }}}
{{- end }}
{{- end -}}

{{/* (list $ "webhook") */}}
{{- define "berthmaster.disruptionBudget" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $values := (index $root.Values $component).podDisruptionBudget -}}
{{- if $values.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "berthmaster.metadata" (list $root $component (printf "-%s" $component)) | nindent 2 }}
spec:
  maxUnavailable: {{ include "berthmaster.number" $values.maxUnavailable }}
  unhealthyPodEvictionPolicy: AlwaysAllow # a pod that is not ready must not keep a node from its drain
  selector:
    matchLabels:
      {{- include "berthmaster.selector" . | nindent 6 }}
{{- end }}
{{- end -}}

{{- /* The mount, the volume and the option of the ledger in a database, which components share. */ -}}
{{- define "berthmaster.ledgerMount" -}}
{{- if .Values.ledger.secretName }}
- name: ledger-url
  mountPath: /etc/berthmaster/ledger
  readOnly: true
{{- end }}
{{- end -}}

{{- define "berthmaster.ledgerSecretVolume" -}}
{{- with .Values.ledger }}
{{- if .secretName }}
- name: ledger-url
  secret:
    secretName: {{ .secretName }}
    defaultMode: 0440
    items:
      - {key: {{ .secretKey | quote }}, path: url}
{{- end }}
{{- end }}
{{- end -}}

{{- define "berthmaster.ledgerArgument" -}}
{{- if .Values.ledger.secretName }}
- --ledger-file=/etc/berthmaster/ledger/url
{{- end }}
{{- end -}}

{{- /* The option for the largest placements, the same for all components that read them. */ -}}
{{- define "berthmaster.placementLimits" -}}
{{- if .Values.placementLimits }}
{{- $limits := list }}
{{- range $name, $number := .Values.placementLimits }}{{ $limits = append $limits (printf "%s=%d" $name (int64 $number)) }}{{ end }}
- --placement-limits={{ join "," $limits }}
{{- end }}
{{- end }}

{{- define "berthmaster.impactSecret" -}}
{{- include "berthmaster.fullname" . }}-impact
{{- end -}}

{{- /* The Secret and key of the tokens that the extender accepts, as JSON; an empty name for none. The webhook and the console send the first token. */ -}}
{{- define "berthmaster.tokenSecret" -}}
{{- $auth := .Values.extender.auth -}}
{{- if $auth.tokenSecretName -}}
{{- dict "name" $auth.tokenSecretName "key" $auth.tokenSecretKey | toJson -}}
{{- else if and (or (and .Values.webhook.enabled .Values.webhook.impact.enabled) .Values.console.enabled) (not $auth.clientCASecretName) (not $auth.insecure) -}}
{{- dict "name" (include "berthmaster.impactSecret" .) "key" "tokens" | toJson -}}
{{- else -}}
{{- dict "name" "" "key" "" | toJson -}}
{{- end -}}
{{- end -}}
