{{/* Names and labels of all objects. */}}

{{- define "berthmaster.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Short enough to stay a DNS label with the longest suffix, -certs-cluster. */}}
{{- define "berthmaster.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 48 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "berthmaster.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | replace "." "-" | trunc 48 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" (.Release.Name | replace "." "-") $name | trunc 48 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A number as digits. Numbers of values files are floats, and a large one would become 1e+06. */}}
{{- define "berthmaster.number" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) -}}{{- printf "%d" (int64 .) -}}{{- else -}}{{- . -}}{{- end -}}
{{- end -}}

{{/* This installation, as the label value of what it registers in the target. */}}
{{- define "berthmaster.installation" -}}
{{- printf "%s.%s" .Release.Namespace (include "berthmaster.fullname" .) | trunc 63 | regexFind "^.*[A-Za-z0-9]" -}}
{{- end -}}

{{/* The selector labels of a component: (list $ "webhook"). They never change in an upgrade. */}}
{{- define "berthmaster.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "berthmaster.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* The labels of a component's objects: (list $ "webhook"). berthmaster.checks keeps commonLabels apart from the chart's own labels. */}}
{{- define "berthmaster.labels" -}}
{{- include "berthmaster.ownLabels" . }}
{{- with (index . 0).Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "berthmaster.ownLabels" -}}
{{- $root := index . 0 -}}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name ($root.Chart.Version | replace "+" "_") }}
{{ include "berthmaster.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
app.kubernetes.io/part-of: berthmaster
{{- end -}}

{{/*
The labels of what a Job registers in the target: (list $ "webhook"). The label app.kubernetes.io/instance is missing: Argo CD tracks
objects by it, and removes an object that has it and stands in no manifest.
*/}}
{{- define "berthmaster.registeredLabels" -}}
{{- $labels := include "berthmaster.labels" . | fromYaml -}}
{{- toYaml (omit $labels "app.kubernetes.io/instance" "app.kubernetes.io/managed-by" "helm.sh/chart") -}}
{{- end -}}

{{/* name, namespace and labels of an object of a component: (list $ "webhook" "-suffix"). */}}
{{- define "berthmaster.metadata" -}}
{{- $root := index . 0 -}}
name: {{ include "berthmaster.fullname" $root }}{{ index . 2 }}
namespace: {{ $root.Release.Namespace }}
labels:
  {{- include "berthmaster.labels" . | nindent 2 }}
{{- end -}}

{{/* The DNS name of a component's Service in the host cluster: (list $ "webhook"). */}}
{{- define "berthmaster.host" -}}
{{- $root := index . 0 -}}
{{- printf "%s-%s.%s.svc" (include "berthmaster.fullname" $root) (index . 1) $root.Release.Namespace -}}
{{- end -}}

{{/* The host in service.address without brackets and port; empty if there is none: (list $ "webhook"). */}}
{{- define "berthmaster.addressHost" -}}
{{- $given := (index (index . 0).Values (index . 1)).service.address -}}
{{- if hasPrefix "[" $given -}}
{{- $given | trimPrefix "[" | splitList "]" | first -}}
{{- else if gt (len (splitList ":" $given)) 2 -}}
{{- $given -}}
{{- else -}}
{{- $given | splitList ":" | first -}}
{{- end -}}
{{- end -}}

{{/* The HOST:PORT by which the target reaches a component's Service: (list $ "webhook"). */}}
{{- define "berthmaster.address" -}}
{{- $given := (index (index . 0).Values (index . 1)).service.address -}}
{{- $host := include "berthmaster.addressHost" . | default (include "berthmaster.host" .) -}}
{{- $port := regexFind ":[0-9]+$" (ternary "" (regexReplaceAll "^.*\\]" $given "") (eq $given $host)) | default ":443" -}}
{{- if contains ":" $host -}}{{- printf "[%s]%s" $host $port -}}{{- else -}}{{- printf "%s%s" $host $port -}}{{- end -}}
{{- end -}}

{{/* The ServiceAccount of a component's pods: (list $ "webhook"). */}}
{{- define "berthmaster.serviceAccount" -}}
{{- $root := index . 0 -}}
{{- get $root.Values.serviceAccounts.names (index . 1) | default (printf "%s-%s" (include "berthmaster.fullname" $root) (index . 1)) -}}
{{- end -}}

{{/* The Secret with a component's serving certificate: (list $ "webhook"). */}}
{{- define "berthmaster.tlsSecret" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- if eq $root.Values.certificates.source "secret" -}}
{{- $name := index $root.Values.certificates.secret $component -}}
{{- required (printf "certificates.source is secret: certificates.secret.%s must name a Secret with tls.crt, tls.key and ca.crt" $component) $name -}}
{{- else -}}
{{- printf "%s-%s-tls" (include "berthmaster.fullname" $root) $component -}}
{{- end -}}
{{- end -}}

{{/* Every name in a component's certificate, comma-separated: (list $ "webhook"). */}}
{{- define "berthmaster.certificateNames" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $host := include "berthmaster.host" . -}}
{{- $extra := index $root.Values.certificates (printf "%sExtraNames" $component) -}}
{{- $address := include "berthmaster.addressHost" . -}}
{{- concat (list $host (printf "%s.%s" $host $root.Values.clusterDomain) (trimSuffix ".svc" $host)) (compact (list $address)) $extra | uniq | join "," -}}
{{- end -}}

{{/* The enabled components, as JSON; `register` means the hook Jobs. Without a server, certs and register have nothing to do. */}}
{{- define "berthmaster.components" -}}
{{- $components := list -}}
{{- range list "webhook" "extender" "controllers" "console" -}}
{{- if (index $.Values .).enabled -}}{{- $components = append $components . -}}{{- end -}}
{{- end -}}
{{- if and .Values.certs.enabled (or .Values.webhook.enabled .Values.extender.enabled .Values.console.enabled) -}}{{- $components = append $components "certs" -}}{{- end -}}
{{- if and .Values.registration.enabled (or .Values.webhook.enabled (include "berthmaster.registersPlugin" .)) -}}{{- $components = append $components "register" -}}{{- end -}}
{{- dict "list" $components | toJson -}}
{{- end -}}

{{/* (list $ "certs") */}}
{{- define "berthmaster.runs" -}}
{{- if has (index . 1) (include "berthmaster.components" (index . 0) | fromJson).list -}}yes{{- end -}}
{{- end -}}

{{/* The components that serve over TLS, as JSON. */}}
{{- define "berthmaster.servers" -}}
{{- $servers := list -}}
{{- range list "webhook" "extender" "console" -}}
{{- if (index $.Values .).enabled -}}{{- $servers = append $servers . -}}{{- end -}}
{{- end -}}
{{- dict "list" $servers | toJson -}}
{{- end -}}

{{- define "berthmaster.image" -}}
{{- $repository := list .Values.global.imageRegistry .Values.image.repository | compact | join "/" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}
