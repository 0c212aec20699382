{{/*
All rights of each component in the target. berthmaster.targetRules.COMPONENT defines the cluster-wide rules,
berthmaster.targetRolesOf.COMPONENT the rules within namespaces, as a list of {namespace, rules}.
*/}}

{{/* tests/charts compares these with berthmaster/controllers/rbac.py. */}}
{{- define "berthmaster.targetRules.controllers" -}}
{{- $values := .Values.controllers -}}
{{- if $values.shadow.enabled -}}
- apiGroups: [cluster.karmada.io]
  resources: [clusters]
  verbs: [list, watch]
- apiGroups: [work.karmada.io]
  resources: [resourcebindings, clusterresourcebindings]
  verbs: [list, watch]
{{- else -}}
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- if include "berthmaster.controls" (list . "binding-scheduler") }}
- apiGroups: [cluster.karmada.io]
  resources: [clusters]
  verbs: [list, watch]
- apiGroups: [work.karmada.io]
  resources: [resourcebindings, clusterresourcebindings]
  verbs: [list, watch, patch]
- apiGroups: [work.karmada.io]
  resources: [resourcebindings/status, clusterresourcebindings/status]
  verbs: [patch]
- apiGroups: [work.karmada.io]
  resources: [works]
  verbs: [list] # to know which copies of a moving workload exist
- apiGroups: [policy.karmada.io]
  resources: [federatedresourcequotas]
  verbs: [list, watch] # to retry what a quota refused when it becomes looser
{{- if include "berthmaster.movesConfigMap" . }}
- apiGroups: [policy.karmada.io]
  resources: [propagationpolicies, clusterpropagationpolicies]
  verbs: [list, watch] # their annotations about moves
- apiGroups: [apps]
  resources: [daemonsets, deployments, replicasets, statefulsets]
  verbs: [get] # whether copies that Karmada has not sent yet have volumes
- apiGroups: [batch]
  resources: [cronjobs, jobs]
  verbs: [get]
- apiGroups: [""]
  resources: [persistentvolumeclaims, pods]
  verbs: [get]
{{- end }}
{{- end }}
{{- if include "berthmaster.controls" (list . "preemption") }}
- apiGroups: [policy.karmada.io]
  resources: [propagationpolicies, clusterpropagationpolicies]
  verbs: [get, list, watch, patch] # patch: to clear records of priority drops
{{- range $values.templates }}
- apiGroups: {{ .apiGroups | toJson }}
  resources: {{ .resources | toJson }}
  verbs: [get, list, watch, patch]
{{- end }}
{{- end }}
{{- if include "berthmaster.controls" (list . "workload-rebalancer") }}
- apiGroups: [apps.karmada.io]
  resources: [workloadrebalancers]
  verbs: [get, list, watch, delete] # delete: spec.ttlSecondsAfterFinished
- apiGroups: [apps.karmada.io]
  resources: [workloadrebalancers/status]
  verbs: [patch]
- apiGroups: [work.karmada.io]
  resources: [resourcebindings, clusterresourcebindings]
  verbs: [get, patch]
{{- end }}
{{- end }}
{{- end -}}

{{/* Whether a controller is enabled: (list $ "preemption"). The rebalancer is off by default, preemption has a gate. */}}
{{- define "berthmaster.controls" -}}
{{- $values := (index . 0).Values.controllers -}}
{{- $name := index . 1 -}}
{{- $on := or (has $name $values.enable) (and (has "*" $values.enable) (ne $name "workload-rebalancer")) -}}
{{- if eq $name "preemption" -}}{{- $on = and $on (index $values.featureGates "PolicyPreemption") -}}{{- end -}}
{{- if and $on (not (has (printf "-%s" $name) $values.enable)) -}}yes{{- end -}}
{{- end -}}

{{- define "berthmaster.targetRolesOf.controllers" -}}
{{- $values := .Values.controllers }}
{{- if include "berthmaster.lease" . }}
- namespace: {{ include "berthmaster.leaseNamespace" . }}
  rules:
    - apiGroups: [coordination.k8s.io]
      resources: [leases]
      verbs: [create] # which no name can restrict
    - apiGroups: [coordination.k8s.io]
      resources: [leases]
      resourceNames: [{{ $values.leaderElection.leaseName | quote }}]
      verbs: [get, update]
{{- end }}
{{- if and $values.estimator.enabled (or $values.shadow.enabled (include "berthmaster.controls" (list . "binding-scheduler"))) }}
- namespace: {{ $values.estimator.serviceNamespace }}
  rules:
    - apiGroups: [""]
      resources: [services]
      verbs: [get]
{{- end }}
{{- end -}}

{{- define "berthmaster.targetRules.extender" -}}
{{- $watch := .Values.extender.watch -}}
{{- if has "clusters" $watch }}
- apiGroups: [cluster.karmada.io]
  resources: [clusters]
  verbs: [list, watch]
{{- end }}
{{- if has "federatedclusters" $watch }}
- apiGroups: [core.kubeadmiral.io]
  resources: [federatedclusters]
  verbs: [list, watch]
{{- end }}
{{- if has "nodes" $watch }}
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch]
{{- end }}
{{- if has "policies" $watch }}
- apiGroups: [policy.karmada.io]
  resources: [propagationpolicies, clusterpropagationpolicies]
  verbs: [list, watch]
{{- end }}
{{- if has "bindings" $watch }}
- apiGroups: [work.karmada.io]
  resources: [resourcebindings, clusterresourcebindings]
  verbs: [list, watch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [list] # the events of a binding, for its page of the console
{{- end }}
{{- if has "workloads" $watch }}
- apiGroups: [policy.karmada.io]
  resources: [overridepolicies, clusteroverridepolicies]
  verbs: [list, watch] # metadata: whether the dependentOverrides of a policy exist
- apiGroups: [policy.karmada.io]
  resources: [clustertaintpolicies]
  verbs: [list, watch] # the taints of a lost cluster
- apiGroups: [scheduling.k8s.io]
  resources: [priorityclasses]
  verbs: [list, watch] # metadata: whether the priority class of a policy exists
{{- range $.Values.extender.templates }}
- apiGroups: {{ .apiGroups | toJson }}
  resources: {{ .resources | toJson }}
  verbs: [list, watch]
{{- end }}
{{- end }}
{{- end -}}

{{- define "berthmaster.targetRolesOf.extender" -}}
{{- if and (has "bindings" .Values.extender.watch) (include "berthmaster.lease" .) }}
- namespace: {{ include "berthmaster.leaseNamespace" . }}
  rules:
    - apiGroups: [coordination.k8s.io]
      resources: [leases]
      resourceNames: [{{ .Values.controllers.leaderElection.leaseName | quote }}]
      verbs: [get] # what moves wait for
{{- end }}
{{- end -}}

{{- define "berthmaster.targetRules.webhook" -}}
{{- if and .Values.webhook.impact.enabled .Values.webhook.impact.events }}
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch] # about policies, which are in any namespace
{{- end }}
{{- end -}}

{{- define "berthmaster.targetRolesOf.webhook" -}}{{- end -}}

{{- define "berthmaster.targetRules.console" -}}
{{- if .Values.console.subjectAccessReviews }}
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create] # which namespaces a visitor may see; nothing is stored
{{- end }}
{{- end -}}

{{- define "berthmaster.targetRolesOf.console" -}}{{- end -}}

{{- define "berthmaster.targetRules.certs" -}}
{{- include "berthmaster.registeredRules" (list . "get" "patch") }}
{{- end -}}

{{- define "berthmaster.targetRolesOf.certs" -}}
{{- include "berthmaster.configurationEvents" . }}
{{- end -}}

{{- define "berthmaster.targetRules.register" -}}
{{- if include "berthmaster.runs" (list . "register") }}
{{- include "berthmaster.registerRules" . }}
{{- end }}
{{- end -}}

{{- define "berthmaster.registerRules" -}}
{{- if .Values.webhook.enabled }}
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations]
  verbs: [create] # which no name can restrict
{{- end }}
{{- if include "berthmaster.registersPlugin" . }}
- apiGroups: [core.kubeadmiral.io]
  resources: [schedulerpluginwebhookconfigurations{{ if .Values.extender.kubeAdmiral.schedulingProfile }}, schedulingprofiles{{ end }}]
  verbs: [create]
{{- end }}
{{- include "berthmaster.registeredRules" (list . "get" "patch" "delete") }}
{{- if and (include "berthmaster.registersPlugin" .) .Values.extender.kubeAdmiral.schedulingProfile }}
- apiGroups: [core.kubeadmiral.io]
  resources: [schedulingprofiles]
  resourceNames: [{{ include "berthmaster.fullname" . }}]
  verbs: [get, patch, delete]
{{- end }}
{{- end -}}

{{/* In mode single, the Job that removes the Lease has its own role, because this one is already deleted. */}}
{{- define "berthmaster.targetRolesOf.register" -}}
{{- if include "berthmaster.runs" (list . "register") }}
{{- include "berthmaster.configurationEvents" . }}
{{- end }}
{{- if and (include "berthmaster.lease" .) (ne .Values.mode "single") }}
- namespace: {{ include "berthmaster.leaseNamespace" . }}
  rules:
    {{- include "berthmaster.leaseCleanupRules" . | nindent 4 }}
{{- end }}
{{- end -}}

{{- define "berthmaster.leaseCleanupRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ .Values.controllers.leaderElection.leaseName | quote }}]
  verbs: [get, delete]
{{- end -}}

{{/* Events about cluster-scoped objects are in this namespace. */}}
{{- define "berthmaster.configurationEvents" -}}
- namespace: default
  rules:
    - apiGroups: [events.k8s.io]
      resources: [events]
      verbs: [create, patch]
{{- end -}}

{{/* Verbs on the registered configurations, by their name: (list $ VERB...). */}}
{{- define "berthmaster.registeredRules" -}}
{{- $root := first . -}}
{{- $verbs := rest . -}}
{{- if $root.Values.webhook.enabled }}
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations]
  resourceNames: [{{ include "berthmaster.fullname" $root }}]
  verbs: {{ $verbs | toJson }}
{{- end }}
{{- if include "berthmaster.registersPlugin" $root }}
- apiGroups: [core.kubeadmiral.io]
  resources: [schedulerpluginwebhookconfigurations]
  resourceNames: [{{ include "berthmaster.fullname" $root }}]
  verbs: {{ $verbs | toJson }}
{{- end }}
{{- end -}}

{{/* The namespace, in the target, of the controllers' Lease. */}}
{{- define "berthmaster.leaseNamespace" -}}
{{- .Values.controllers.leaderElection.namespace | default (ternary .Release.Namespace "karmada-system" (eq .Values.mode "single")) -}}
{{- end -}}

{{/* The Lease, NAMESPACE/NAME; empty without leader election. */}}
{{- define "berthmaster.lease" -}}
{{- if and .Values.controllers.enabled .Values.controllers.leaderElection.enabled (not .Values.controllers.shadow.enabled) -}}
{{- printf "%s/%s" (include "berthmaster.leaseNamespace" .) .Values.controllers.leaderElection.leaseName -}}
{{- end -}}
{{- end -}}

{{/* The RBAC subject of a component in the target: (list $ "controllers"). */}}
{{- define "berthmaster.targetSubject" -}}
{{- $root := index . 0 -}}
{{- if eq $root.Values.mode "single" -}}
kind: ServiceAccount
name: {{ include "berthmaster.serviceAccount" . }}
namespace: {{ $root.Release.Namespace }}
{{- else -}}
kind: User
apiGroup: rbac.authorization.k8s.io
name: {{ index $root.Values.target.users (index . 1) | quote }}
{{- end -}}
{{- end -}}

{{/* The user name of a component in the target. */}}
{{- define "berthmaster.targetUser" -}}
{{- $root := index . 0 -}}
{{- if eq $root.Values.mode "single" -}}
{{- printf "system:serviceaccount:%s:%s" $root.Release.Namespace (include "berthmaster.serviceAccount" .) -}}
{{- else -}}
{{- index $root.Values.target.users (index . 1) -}}
{{- end -}}
{{- end -}}

{{/* All roles and role bindings in the target, as documents. */}}
{{- define "berthmaster.targetRBAC" -}}
{{- range $component := append (without (include "berthmaster.components" . | fromJson).list "register") "register" }}
{{- $rules := include (printf "berthmaster.targetRules.%s" $component) $ }}
{{- if trim $rules }}
{{ include "berthmaster.role" (dict "root" $ "component" $component "kind" "Cluster" "suffix" "-target" "rules" $rules "subject" (include "berthmaster.targetSubject" (list $ $component))) }}
{{- end }}
{{- range $index, $role := include (printf "berthmaster.targetRolesOf.%s" $component) $ | fromYamlArray }}
{{ include "berthmaster.role" (dict "root" $ "component" $component "kind" "" "suffix" (printf "-target-%d" $index) "namespace" $role.namespace "rules" (toYaml $role.rules) "subject" (include "berthmaster.targetSubject" (list $ $component))) }}
{{- end }}
{{- end }}
{{- end -}}

{{/* A Role or ClusterRole and its binding: root, component, kind ("" or "Cluster"), suffix, namespace, rules, subject and annotations (YAML). */}}
{{- define "berthmaster.role" -}}
{{- $name := printf "%s-%s%s" (include "berthmaster.fullname" .root) .component .suffix -}}
{{- if ne (.namespace | default "") .root.Release.Namespace -}}
{{- /* Releases with the same name in other namespaces have roles here too. */ -}}
{{- $name = printf "%s-%s" .root.Release.Namespace $name -}}
{{- end -}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Role
metadata:
  name: {{ $name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "berthmaster.labels" (list .root .component) | nindent 4 }}
  {{- with .annotations }}
  annotations: {{- . | nindent 4 }}
  {{- end }}
rules:
  {{- .rules | trim | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}RoleBinding
metadata:
  name: {{ $name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "berthmaster.labels" (list .root .component) | nindent 4 }}
  {{- with .annotations }}
  annotations: {{- . | nindent 4 }}
  {{- end }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}Role
  name: {{ $name }}
subjects:
  - {{ .subject | nindent 4 | trim }}
{{- end -}}
