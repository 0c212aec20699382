{{/* Shared parts of all pods: security, placement, access to the target. */}}

{{/* Part of a pod's spec: (list $ "webhook" <whether it mounts a token of the host cluster>). */}}
{{- define "berthmaster.podSettings" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $pods := $root.Values.pods -}}
serviceAccountName: {{ include "berthmaster.fullname" $root }}-{{ $component }}
automountServiceAccountToken: {{ index . 2 }}
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with $pods.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $pods.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $pods.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The placement of replicas, part of a pod's spec: (list $ "webhook"). */}}
{{- define "berthmaster.placement" -}}
{{- $root := index . 0 -}}
{{- $pods := $root.Values.pods -}}
{{- $others := dict "labelSelector" (dict "matchLabels" (include "berthmaster.selector" . | fromYaml)) "topologyKey" "kubernetes.io/hostname" -}}
{{- $affinity := deepCopy $pods.affinity -}}
{{- if eq $pods.antiAffinity "required" -}}
{{- $_ := set $affinity "podAntiAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (list $others)) -}}
{{- else if eq $pods.antiAffinity "preferred" -}}
{{- $_ := set $affinity "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" (list (dict "weight" 100 "podAffinityTerm" $others))) -}}
{{- end -}}
{{- with $affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if $pods.spreadOverZones }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "berthmaster.selector" . | nindent 8 }}
{{- end }}
{{- end -}}

{{/* A pod's labels and annotations: (list $ "webhook"). */}}
{{- define "berthmaster.podMetadata" -}}
{{- $root := index . 0 -}}
{{- with $root.Values.pods.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
labels:
  {{- include "berthmaster.labels" . | nindent 2 }}
  {{- with $root.Values.pods.labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* Part of a container. */}}
{{- define "berthmaster.containerSettings" -}}
image: {{ include "berthmaster.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
terminationMessagePolicy: FallbackToLogsOnError
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  runAsNonRoot: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{/* The probes. */}}
{{- define "berthmaster.probes" -}}
startupProbe:
  httpGet: {path: /livez, port: probes}
  periodSeconds: 2
  failureThreshold: 30
livenessProbe:
  httpGet: {path: /livez, port: probes}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /readyz, port: probes}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 2
{{- end -}}

{{/* The Secret and key of a component's access to the target, as JSON: (list $ "controllers"). */}}
{{- define "berthmaster.targetSecret" -}}
{{- $root := index . 0 -}}
{{- merge (deepCopy (index $root.Values.target.componentKubeconfigSecrets (index . 1))) $root.Values.target.kubeconfigSecret | toJson -}}
{{- end -}}

{{/* Its path in a container; empty in mode single. */}}
{{- define "berthmaster.targetPath" -}}
{{- if eq .Values.mode "karmada" -}}/etc/berthmaster/target/kubeconfig{{- end -}}
{{- end -}}

{{- define "berthmaster.targetMount" -}}
{{- if eq .Values.mode "karmada" }}
- name: target
  mountPath: /etc/berthmaster/target
  readOnly: true
{{- end }}
{{- end -}}

{{/* (list $ "controllers") */}}
{{- define "berthmaster.targetVolume" -}}
{{- $root := index . 0 -}}
{{- if eq $root.Values.mode "karmada" }}
{{- $secret := include "berthmaster.targetSecret" . | fromJson }}
- name: target
  secret:
    secretName: {{ $secret.name }}
    defaultMode: 0440
    items:
      - {key: {{ $secret.key | quote }}, path: kubeconfig}
{{- end }}
{{- end -}}

{{/* The only writable volume; it is deleted with the pod. */}}
{{- define "berthmaster.scratchVolume" -}}
- name: tmp
  emptyDir: {sizeLimit: 64Mi}
{{- end -}}

{{- define "berthmaster.scratchMount" -}}
- name: tmp
  mountPath: /tmp
{{- end -}}

{{/* The serving certificate: (list $ "webhook"). */}}
{{- define "berthmaster.tlsVolume" -}}
- name: tls
  secret:
    secretName: {{ include "berthmaster.tlsSecret" . }}
    defaultMode: 0440
    items:
      - {key: tls.crt, path: tls.crt}
      - {key: tls.key, path: tls.key}
{{- end -}}

{{- define "berthmaster.tlsMount" -}}
- name: tls
  mountPath: /etc/berthmaster/tls
  readOnly: true
{{- end -}}

{{/* The items of an argument list, quoted, so that values cannot inject YAML. */}}
{{- define "berthmaster.arguments" -}}
{{- range . }}
- {{ . | quote }}
{{- end }}
{{- end -}}
