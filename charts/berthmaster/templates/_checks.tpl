{{/* What the schema cannot say: values that contradict each other. Included once. */}}
{{- define "berthmaster.checks" -}}
{{- if and .Values.webhook.enabled (ge (float64 .Values.webhook.requestTimeoutSeconds) (float64 .Values.webhook.timeoutSeconds)) -}}
{{- fail "webhook.requestTimeoutSeconds has to be less than webhook.timeoutSeconds: an answer that comes later is a failed call" -}}
{{- end -}}
{{- if and .Values.webhook.enabled (not (or .Values.webhook.reviews.karmada .Values.webhook.reviews.kubeAdmiral)) -}}
{{- fail "webhook.reviews: nothing is reviewed; set karmada or kubeAdmiral, or webhook.enabled: false" -}}
{{- end -}}
{{- if and (eq .Values.certificates.source "own") (or .Values.webhook.enabled .Values.extender.enabled) (not .Values.certs.enabled) -}}
{{- fail "certificates.source is own, which certs.enabled makes and renews; enable it, or name another source" -}}
{{- end -}}
{{- with .Values.extender -}}
{{- if and .enabled (not (or .auth.tokenSecretName .auth.clientCASecretName .auth.insecure)) -}}
{{- fail "extender.auth: name a Secret with tokens or a client CA, or say insecure: true; the extender does not serve everybody unasked" -}}
{{- end -}}
{{- if and .enabled .kubeAdmiral.register .auth.tokenSecretName -}}
{{- fail "extender.kubeAdmiral.register: KubeAdmiral's scheduler shows no bearer tokens, so extender.auth.tokenSecretName would refuse it; use clientCASecretName with certData and keyData" -}}
{{- end -}}
{{- if and .kubeAdmiral.register .enabled .auth.clientCASecretName (not (and .kubeAdmiral.certData .kubeAdmiral.keyData)) -}}
{{- fail "extender.kubeAdmiral: the extender asks for client certificates; give KubeAdmiral's scheduler one with certData and keyData" -}}
{{- end -}}
{{- end -}}
{{- if .Values.controllers.enabled -}}
{{- $on := list -}}
{{- range list "binding-scheduler" "preemption" "workload-rebalancer" -}}
{{- if include "berthmaster.controls" (list $ .) -}}{{- $on = append $on . -}}{{- end -}}
{{- end -}}
{{- if not $on -}}
{{- fail "controllers.enable leaves no controller that runs; name one (preemption needs the gate PolicyPreemption), or set controllers.enabled: false" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.controllers.enabled (not .Values.controllers.leaderElection.enabled) (gt (int .Values.controllers.replicas) 1) -}}
{{- fail "controllers.leaderElection.enabled is false: run one replica, or two would schedule the same bindings" -}}
{{- end -}}
{{- end -}}
