{{/*
A hook Job that runs `berthmaster register`. Arguments: root, name, component (the Job uses its ServiceAccount), hook, verb
("apply" or "remove"; without a hook the Job is an object like others), and either kind and object (which contains registration.yaml), or what else to remove:
certificates: true for Secrets, lease: NAMESPACE/NAME in the target.
*/}}
{{- define "berthmaster.registerJob" -}}
{{- $spec := include "berthmaster.registerJobSpec" . -}}
{{- $name := .name -}}
{{- if not .hook -}}
{{- /* A Job cannot be changed. Another name makes a new one for each change of what it does. */ -}}
{{- $name = printf "%s-%s" .name (printf "%s%s" $spec (include "berthmaster.registered" .root) | sha256sum | trunc 5) -}}
{{- end -}}
---
apiVersion: batch/v1
kind: Job
metadata:
  {{- include "berthmaster.metadata" (list .root "register" (printf "-%s" $name)) | nindent 2 }}
  {{- if .hook }}
  annotations:
    helm.sh/hook: {{ .hook }}
    helm.sh/hook-weight: "0"
    # A failed Job stays until the next attempt, so that its log can be read.
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
  {{- end }}
spec:
  {{- $spec | nindent 2 }}
{{- end -}}

{{/* The spec of such a Job. */}}
{{- define "berthmaster.registerJobSpec" -}}
{{- $values := .root.Values.registration -}}
{{- $target := or .object .lease -}}
backoffLimit: {{ include "berthmaster.number" $values.backoffLimit }}
activeDeadlineSeconds: {{ include "berthmaster.number" $values.activeDeadlineSeconds }}
template:
  metadata:
    {{- include "berthmaster.podMetadata" (list .root "register") | trim | nindent 4 }}
  spec:
    {{- include "berthmaster.podSettings" (list .root .component true) | nindent 4 }}
    restartPolicy: Never
    containers:
      - name: register
        {{- include "berthmaster.containerSettings" (list .root "register") | nindent 8 }}
        args:
          - register
          - {{ .verb }}
          {{- if .object }}
          - --filename=/etc/berthmaster/registration/registration.yaml
          {{- else }}
          - --filename=- # nothing: what was registered has gone before
          {{- end }}
          {{- if .certificates }}
          - --certificates
          {{- end }}
          {{- with .lease }}
          - "--lease={{ . }}"
          {{- end }}
          {{- if $target }}
          {{- with include "berthmaster.targetPath" .root }}
          - "--target-kubeconfig={{ . }}"
          {{- end }}
          {{- end }}
          {{- include "berthmaster.arguments" (include "berthmaster.certsArguments" (list .root "register") | fromYamlArray) | trim | nindent 10 }}
          {{- if eq .verb "apply" }}
          - "--timeout-s={{ include "berthmaster.number" $values.timeoutSeconds }}"
          {{- end }}
        resources:
          {{- toYaml $values.resources | nindent 10 }}
        volumeMounts:
          {{- include "berthmaster.commonMounts" (list .root "register") | nindent 10 }}
          {{- if $target }}
          {{- with include "berthmaster.targetMount" .root | trim }}{{ . | nindent 10 }}{{ end }}
          {{- end }}
          {{- if .object }}
          - name: registration
            mountPath: /etc/berthmaster/registration
            readOnly: true
          {{- end }}
    volumes:
      {{- include "berthmaster.commonVolumes" (list .root "register") | nindent 6 }}
      {{- if $target }}
      {{- with include "berthmaster.targetVolume" (list .root "register") | trim }}{{ . | nindent 6 }}{{ end }}
      {{- end }}
      {{- if .object }}
      - name: registration
        {{- if eq .kind "Secret" }}
        secret: {secretName: {{ .object }}, defaultMode: 0440}
        {{- else }}
        configMap: {name: {{ .object }}}
        {{- end }}
      {{- end }}
{{- end -}}

{{/* Annotations of objects that a Job of these hooks needs. */}}
{{- define "berthmaster.beforeJob" -}}
helm.sh/hook: {{ . }}
helm.sh/hook-weight: "-10"
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}
