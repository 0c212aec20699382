{{/* Checks that the schema cannot express: values that contradict each other. Included once. */}}
{{- define "berthmaster.checks" -}}
{{- if and (eq .Values.image.repository "berthmaster") (not .Values.global.imageRegistry) -}}
{{- fail "image.repository is the default: no image of Berthmaster is published; build one (docs/release.md), push it to your registry, and set image.repository=REGISTRY/NAME" -}}
{{- end -}}
{{- $labels := dict "commonLabels" .Values.commonLabels "pods.labels" .Values.pods.labels -}}
{{- range list "webhook" "extender" "controllers" "console" "certs" "registration" -}}
{{- $_ := set $labels (printf "%s.pods.labels" .) (index $.Values .).pods.labels -}}
{{- end -}}
{{- $own := include "berthmaster.ownLabels" (list . "") | fromYaml -}}
{{- range $path, $given := $labels -}}
{{- range $label, $_ := $given -}}
{{- if hasKey $own $label -}}{{- fail (printf "%s: the chart sets the label %s itself; remove it" $path $label) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.webhook.enabled (ge (float64 .Values.webhook.requestTimeoutSeconds) (float64 .Values.webhook.timeoutSeconds)) -}}
{{- fail "webhook.requestTimeoutSeconds must be less than webhook.timeoutSeconds: a later response is a failed call" -}}
{{- end -}}
{{- if and .Values.webhook.enabled (not (or .Values.webhook.reviews.karmada .Values.webhook.reviews.kubeAdmiral)) -}}
{{- fail "webhook.reviews: no kind is reviewed; set karmada or kubeAdmiral, or webhook.enabled: false" -}}
{{- end -}}
{{- if and .Values.webhook.enabled .Values.webhook.impact.enabled -}}
{{- if not .Values.webhook.reviews.karmada -}}
{{- fail "webhook.impact.enabled needs webhook.reviews.karmada: impacts are those of Karmada's policies" -}}
{{- end -}}
{{- if not (and .Values.extender.enabled (has "workloads" .Values.extender.watch)) -}}
{{- fail "webhook.impact.enabled needs extender.enabled and extender.watch: [clusters, policies, bindings, workloads]: the extender computes the impact" -}}
{{- end -}}
{{- if and .Values.extender.auth.clientCASecretName (not .Values.webhook.impact.clientCertificateSecretName) -}}
{{- fail "webhook.impact: the extender requires client certificates; name a Secret with tls.crt and tls.key in webhook.impact.clientCertificateSecretName" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.webhook.enabled (not .Values.webhook.impact.enabled) (has (get .Values.webhook.rules "blast-radius" | default "off") (list "warn" "deny")) -}}
{{- fail "webhook.rules.blast-radius needs webhook.impact.enabled: the extender computes the impact" -}}
{{- end -}}
{{- if and (eq .Values.certificates.source "own") (or .Values.webhook.enabled .Values.extender.enabled .Values.console.enabled) (not .Values.certs.enabled) -}}
{{- fail "certificates.source own needs certs.enabled; enable it, or choose another source" -}}
{{- end -}}
{{- with .Values.extender -}}
{{- if and .enabled (not (or (include "berthmaster.tokenSecret" $ | fromJson).name .auth.clientCASecretName .auth.insecure)) -}}
{{- fail "extender.auth: name a Secret with tokens or a client CA, or set insecure: true to serve without authentication" -}}
{{- end -}}
{{- if and .enabled .kubeAdmiral.register .auth.tokenSecretName -}}
{{- fail "extender.kubeAdmiral.register: KubeAdmiral's scheduler sends no bearer token, so extender.auth.tokenSecretName would reject it; use clientCASecretName with certData and keyData" -}}
{{- end -}}
{{- if and .enabled .kubeScheduler.example (include "berthmaster.tokenSecret" $ | fromJson).name -}}
{{- fail "extender.kubeScheduler.example: kube-scheduler sends no bearer token, so the tokens of the extender (auth.tokenSecretName, or those for the webhook and the console) would reject it; use clientCASecretName with a client certificate for kube-scheduler" -}}
{{- end -}}
{{- if and .enabled .kubeScheduler.example (eq .kubeScheduler.whenDown "wait") (not (get (include "berthmaster.pods" (list $ "extender") | fromJson) "schedulerName")) -}}
{{- fail "extender.kubeScheduler.whenDown is wait: while no pod of the extender runs, kube-scheduler schedules no pod, the extender's own included; choose wait-placed or ignore, or name another scheduler for them in extender.pods.schedulerName" -}}
{{- end -}}
{{- if and .kubeAdmiral.register .enabled .auth.clientCASecretName (not (and .kubeAdmiral.certData .kubeAdmiral.keyData)) -}}
{{- fail "extender.kubeAdmiral: the extender requires client certificates; set certData and keyData for KubeAdmiral's scheduler" -}}
{{- end -}}
{{- end -}}
{{- with .Values.console -}}
{{- if and .enabled (not (and $.Values.extender.enabled (has "bindings" $.Values.extender.watch))) -}}
{{- fail "console.enabled needs extender.enabled and extender.watch with bindings, better [clusters, policies, bindings, workloads]: the extender answers the console's questions" -}}
{{- end -}}
{{- if and .enabled $.Values.extender.auth.clientCASecretName (not .clientCertificateSecretName) -}}
{{- fail "console: the extender requires client certificates; name a Secret with tls.crt and tls.key in console.clientCertificateSecretName" -}}
{{- end -}}
{{- $proxy := .signIn.proxy -}}
{{- if and .enabled (not (or .signIn.oidc.issuerURL .signIn.tokenSecretName .signIn.clientCASecretName $proxy.userHeader)) -}}
{{- fail "console.signIn: name a provider of OpenID Connect, a Secret with tokens, a Secret with a client CA, or the header of a proxy" -}}
{{- end -}}
{{- with .signIn.oidc -}}
{{- if and $.Values.console.enabled .issuerURL (not (and .clientID .publicURL)) -}}
{{- fail "console.signIn.oidc.issuerURL needs clientID and publicURL: the provider must know the console and its address" -}}
{{- end -}}
{{- end -}}
{{- if and .enabled $proxy.userHeader (not (or $proxy.secretName $proxy.clientNames)) -}}
{{- fail "console.signIn.proxy: anyone can send a header; name a Secret with a secret of the proxy in secretName, or the names of its client certificate in clientNames" -}}
{{- end -}}
{{- if and .enabled $proxy.clientNames (not .signIn.clientCASecretName) -}}
{{- fail "console.signIn.proxy.clientNames needs console.signIn.clientCASecretName: the names are those of client certificates" -}}
{{- end -}}
{{- end -}}
{{- if .Values.controllers.enabled -}}
{{- $on := list -}}
{{- range list "binding-scheduler" "preemption" "workload-rebalancer" -}}
{{- if include "berthmaster.controls" (list $ .) -}}{{- $on = append $on . -}}{{- end -}}
{{- end -}}
{{- if not $on -}}
{{- fail "controllers.enable enables no controller; name one (preemption needs the gate PolicyPreemption), or set controllers.enabled: false" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.controllers.enabled (eq (include "berthmaster.ledgerVolume" .) "true") .Values.ledger.secretName -}}
{{- fail "ledger.secretName and controllers.ledger.enabled are two ledgers: set one of them" -}}
{{- end -}}
{{- if and .Values.controllers.enabled (eq (include "berthmaster.ledgerVolume" .) "true") (gt (int .Values.controllers.replicas) 1) -}}
{{- fail "controllers.ledger.enabled uses a volume that one pod can mount: set controllers.replicas to 1" -}}
{{- end -}}
{{- if and .Values.controllers.enabled .Values.controllers.shadow.enabled (or .Values.controllers.ledger.enabled (include "berthmaster.movesConfigMap" .)) -}}
{{- fail "controllers.shadow.enabled only compares decisions: remove controllers.ledger and controllers.moves, or use a release of its own for the shadow" -}}
{{- end -}}
{{- if and .Values.controllers.enabled (not .Values.controllers.leaderElection.enabled) (gt (int .Values.controllers.replicas) 1) -}}
{{- fail "controllers.leaderElection.enabled is false: set controllers.replicas to 1, because two replicas would schedule the same bindings" -}}
{{- end -}}
{{- end -}}
