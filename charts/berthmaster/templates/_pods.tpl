{{/* Shared parts of all pods: security, placement, access to the target. */}}

{{/*
The pod settings of a component, as JSON: (list $ "webhook"). A key of the component's own `pods` replaces the same key of the
global one. The pods of all hook Jobs have the settings of `registration`.
*/}}
{{- define "berthmaster.pods" -}}
{{- $root := index . 0 -}}
{{- $pods := deepCopy $root.Values.pods -}}
{{- range $key, $value := (get $root.Values (index . 1) | default $root.Values.registration).pods -}}
{{- $_ := set $pods $key $value -}}
{{- end -}}
{{- toJson $pods -}}
{{- end -}}

{{/* Whether the pods of a component use the network of their node: (list $ "webhook"). */}}
{{- define "berthmaster.onHostNetwork" -}}
{{- if (include "berthmaster.pods" . | fromJson).hostNetwork -}}yes{{- end -}}
{{- end -}}

{{/* The port of a component's probes and metrics: (list $ "webhook"). */}}
{{- define "berthmaster.probePort" -}}
{{- $given := int (index (index . 0).Values (index . 1)).probePort -}}
{{- $own := dict "webhook" 9080 "extender" 9081 "controllers" 9082 "console" 9083 "certs" 9084 -}}
{{- $given | default (ternary (index $own (index . 1)) 9080 (eq (include "berthmaster.onHostNetwork" .) "yes")) -}}
{{- end -}}

{{/* How an upgrade replaces pods: (list $ "webhook"). Two pods cannot have the same port of a node, so the old one ends first there. */}}
{{- define "berthmaster.rollingUpdate" -}}
{{- if include "berthmaster.onHostNetwork" . -}}
type: RollingUpdate
rollingUpdate: {maxUnavailable: 1, maxSurge: 0}
{{- else if eq (index . 1) "controllers" -}}
type: RollingUpdate
rollingUpdate: {maxUnavailable: 1, maxSurge: 1}
{{- else -}}
type: RollingUpdate
rollingUpdate: {maxUnavailable: 0, maxSurge: 1}
{{- end -}}
{{- end -}}

{{/* Part of a pod's spec: (list $ "webhook" <whether it mounts a token of the host cluster>). */}}
{{- define "berthmaster.podSettings" -}}
{{- $root := index . 0 -}}
{{- $pods := include "berthmaster.pods" . | fromJson -}}
serviceAccountName: {{ include "berthmaster.serviceAccount" . }}
automountServiceAccountToken: {{ index . 2 }}
enableServiceLinks: false
{{- if $pods.hostNetwork }}
hostNetwork: true
{{- end }}
{{- with $pods.dnsPolicy | default (ternary "ClusterFirstWithHostNet" "" $pods.hostNetwork) }}
dnsPolicy: {{ . }}
{{- end }}
{{- with $pods.schedulerName }}
schedulerName: {{ . }}
{{- end }}
securityContext:
  {{- toYaml $pods.securityContext | nindent 2 }}
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
{{- $pods := include "berthmaster.pods" . | fromJson -}}
{{- $others := dict "labelSelector" (dict "matchLabels" (include "berthmaster.selector" . | fromYaml)) "topologyKey" "kubernetes.io/hostname" -}}
{{- $affinity := $pods.affinity -}}
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
{{- $pods := include "berthmaster.pods" . | fromJson -}}
{{- with $pods.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
labels:
  {{- include "berthmaster.ownLabels" . | nindent 2 }}
  {{- with merge (dict) $pods.labels (index . 0).Values.commonLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* Part of a container: (list $ "webhook"), and optionally environment variables as YAML. */}}
{{- define "berthmaster.containerSettings" -}}
{{- $root := index . 0 -}}
{{- $pods := include "berthmaster.pods" . | fromJson -}}
image: {{ include "berthmaster.image" $root }}
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
terminationMessagePolicy: FallbackToLogsOnError
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  runAsNonRoot: true
  capabilities: {drop: [ALL]}
{{- $own := list }}
{{- if gt (len .) 2 }}{{ $own = index . 2 | fromYamlArray }}{{ end }}
{{- with concat $own $pods.extraEnv }}
env:
  {{- range . }}
  - {{ toYaml . | nindent 4 | trim }}
  {{- end }}
{{- end }}
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

{{/* The volumes of every pod: the only writable one, which is deleted with the pod, and extraVolumes. (list $ "webhook") */}}
{{- define "berthmaster.commonVolumes" -}}
- name: tmp
  emptyDir: {sizeLimit: 64Mi}
{{- if include "berthmaster.readsPrices" . }}
- name: prices
  configMap:
    name: {{ include "berthmaster.fullname" (index . 0) }}{{ include "berthmaster.pricesSuffix" (index . 0) }}
{{- end }}
{{- with (include "berthmaster.pods" . | fromJson).extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "berthmaster.commonMounts" -}}
- name: tmp
  mountPath: /tmp
{{- if include "berthmaster.readsPrices" . }}
- name: prices
  mountPath: /etc/berthmaster/prices
  readOnly: true
{{- end }}
{{- with (include "berthmaster.pods" . | fromJson).extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
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
