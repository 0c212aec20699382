{{/* What is registered in the target: one object of each kind, so that an upgrade removes the entries that it no longer has. */}}

{{- define "berthmaster.registersPlugin" -}}
{{- if and .Values.extender.enabled .Values.extender.kubeAdmiral.register -}}yes{{- end -}}
{{- end -}}

{{/* All reviews as a YAML list of verb, path, group, resource, scope; with impact, the review asks the extender for the impact of a change. tests/charts compares it with the routes of the webhook. */}}
{{- define "berthmaster.reviews" -}}
{{- if .Values.webhook.reviews.karmada }}
- {verb: mutate, path: propagationpolicy, group: policy.karmada.io, resource: propagationpolicies, scope: Namespaced}
- {verb: mutate, path: clusterpropagationpolicy, group: policy.karmada.io, resource: clusterpropagationpolicies, scope: Cluster}
{{- if .Values.webhook.impact.enabled }}
- {verb: mutate, impact: true, path: propagationpolicy, group: policy.karmada.io, resource: propagationpolicies, scope: Namespaced}
- {verb: mutate, impact: true, path: clusterpropagationpolicy, group: policy.karmada.io, resource: clusterpropagationpolicies, scope: Cluster}
{{- end }}
- {verb: validate, path: propagationpolicy, group: policy.karmada.io, resource: propagationpolicies, scope: Namespaced}
- {verb: validate, path: clusterpropagationpolicy, group: policy.karmada.io, resource: clusterpropagationpolicies, scope: Cluster}
- {verb: validate, path: workloadrebalancer, group: apps.karmada.io, resource: workloadrebalancers, scope: Cluster}
{{- end }}
{{- if .Values.webhook.reviews.kubeAdmiral }}
- {verb: mutate, path: kubeadmiral-propagationpolicy, group: core.kubeadmiral.io, resource: propagationpolicies, scope: Namespaced}
- {verb: mutate, path: kubeadmiral-clusterpropagationpolicy, group: core.kubeadmiral.io, resource: clusterpropagationpolicies, scope: Cluster}
- {verb: validate, path: kubeadmiral-propagationpolicy, group: core.kubeadmiral.io, resource: propagationpolicies, scope: Namespaced}
- {verb: validate, path: kubeadmiral-clusterpropagationpolicy, group: core.kubeadmiral.io, resource: clusterpropagationpolicies, scope: Cluster}
{{- end }}
{{- end -}}

{{/* One Mutating- or ValidatingWebhookConfiguration without caBundle, which `register` and `certs run` write: (list $ "mutate"). */}}
{{- define "berthmaster.webhookConfiguration" -}}
{{- $root := index . 0 -}}
{{- $verb := index . 1 -}}
{{- $values := $root.Values.webhook -}}
{{- $form := $root.Values.registration.clientConfig | default (ternary "service" "url" (eq $root.Values.mode "single")) -}}
apiVersion: admissionregistration.k8s.io/v1
kind: {{ ternary "Mutating" "Validating" (eq $verb "mutate") }}WebhookConfiguration
metadata:
  name: {{ include "berthmaster.fullname" $root }}
  labels:
    {{- include "berthmaster.registeredLabels" (list $root "webhook") | nindent 4 }}
  {{- with $root.Values.registration.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
webhooks:
  {{- range include "berthmaster.reviews" $root | fromYamlArray }}
  {{- if eq .verb $verb }}
  {{- $path := printf "%s-%s" (ternary "impact" $verb (not (not .impact))) .path }}
  - name: {{ ternary "impact-" "" (not (not .impact)) }}{{ .path }}.berthmaster.io
    admissionReviewVersions: [v1]
    clientConfig:
      {{- if eq $form "url" }}
      url: https://{{ include "berthmaster.address" (list $root "webhook") }}/{{ $path }}
      {{- else }}
      service:
        name: {{ include "berthmaster.fullname" $root }}-webhook
        namespace: {{ $root.Release.Namespace }}
        port: 443
        path: /{{ $path }}
      {{- end }}
    rules:
      - operations: [CREATE, UPDATE{{ if .impact }}, DELETE{{ end }}]
        apiGroups: [{{ .group }}]
        apiVersions: ["*"]
        resources: [{{ .resource }}]
        scope: {{ .scope }}
    failurePolicy: {{ ternary "Ignore" $values.failurePolicy (not (not .impact)) }}
    matchPolicy: {{ $values.matchPolicy }}
    {{- if eq $verb "mutate" }}
    {{- /* A second review of an impact would miss the annotation that the first one dropped. */}}
    reinvocationPolicy: {{ ternary "Never" $values.reinvocationPolicy (not (not .impact)) }}
    {{- end }}
    sideEffects: {{ ternary "NoneOnDryRun" "None" (not (not (or (and .impact $values.impact.events) $root.Values.ledger.secretName))) }}
    timeoutSeconds: {{ include "berthmaster.number" $values.timeoutSeconds }}
    {{- with $values.namespaceSelector }}
    namespaceSelector:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with $values.objectSelector }}
    objectSelector:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with $values.matchConditions }}
    matchConditions:
      {{- toYaml . | nindent 6 }}
    {{- end }}
  {{- end }}
  {{- end }}
{{- end -}}

{{- define "berthmaster.schedulerPlugin" -}}
{{- $values := .Values.extender.kubeAdmiral -}}
apiVersion: core.kubeadmiral.io/v1alpha1
kind: SchedulerPluginWebhookConfiguration
metadata:
  name: {{ include "berthmaster.fullname" . }}
  labels:
    {{- include "berthmaster.registeredLabels" (list . "extender") | nindent 4 }}
  {{- with .Values.registration.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  payloadVersions: [v1alpha1]
  urlPrefix: https://{{ include "berthmaster.address" (list . "extender") }}/kubeadmiral/v1alpha1
  filterPath: /filter
  scorePath: /score
  selectPath: /select
  httpTimeout: {{ $values.httpTimeout }}
  {{- if $values.certData }}
  tlsConfig:
    certData: {{ $values.certData }}
    keyData: {{ $values.keyData }}
  {{- end }}
{{- if $values.schedulingProfile }}
---
apiVersion: core.kubeadmiral.io/v1alpha1
kind: SchedulingProfile
metadata:
  name: {{ include "berthmaster.fullname" . }}
  labels:
    {{- include "berthmaster.registeredLabels" (list . "extender") | nindent 4 }}
  {{- with .Values.registration.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  plugins:
    # No filter: while the extender is down, a failed filter removes workloads from all clusters. select knows the groups.
    score:
      enabled: [{name: {{ include "berthmaster.fullname" . }}, type: Webhook}]
    select:
      # MaxCluster would cut groups off before the extender sees them; the extender's select applies maxClusters itself.
      disabled: [{name: MaxCluster}]
      enabled: [{name: {{ include "berthmaster.fullname" . }}, type: Webhook}]
{{- end }}
{{- end -}}

{{/* A Secret if the registration contains a key, else a ConfigMap. */}}
{{- define "berthmaster.registrationKind" -}}
{{- if and (include "berthmaster.registersPlugin" .) .Values.extender.kubeAdmiral.keyData -}}Secret{{- else -}}ConfigMap{{- end -}}
{{- end -}}

{{/* Objects that an earlier release may have registered and this one does not, as documents with their names. */}}
{{- define "berthmaster.unwanted" -}}
{{- $name := include "berthmaster.fullname" . -}}
{{- $kubeAdmiral := or .Values.webhook.reviews.kubeAdmiral (has "federatedclusters" .Values.extender.watch) -}}
{{- if and .Values.registration.enabled (not .Values.webhook.enabled) }}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: {{ $name }}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: {{ $name }}}
{{- end }}
{{- if and .Values.registration.enabled $kubeAdmiral (not (include "berthmaster.registersPlugin" .)) }}
---
apiVersion: core.kubeadmiral.io/v1alpha1
kind: SchedulerPluginWebhookConfiguration
metadata: {name: {{ $name }}}
{{- end }}
{{- end -}}

{{/* Everything that a Job registers, as documents. */}}
{{- define "berthmaster.registered" -}}
{{- if .Values.webhook.enabled -}}
{{- include "berthmaster.webhookConfiguration" (list . "mutate") }}
---
{{ include "berthmaster.webhookConfiguration" (list . "validate") }}
{{- end }}
{{- if include "berthmaster.registersPlugin" . }}
{{- if .Values.webhook.enabled }}
---
{{ end }}
{{- include "berthmaster.schedulerPlugin" . }}
{{- end }}
{{- end -}}
