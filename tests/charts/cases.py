"""Every switch of the chart, with values that turn it: what the tests render."""

from typing import Any, Final

Values = dict[str, Any]

EXTENDER: Final[Values] = {"enabled": True, "auth": {"tokenSecretName": "berthmaster-tokens"}}
KUBEADMIRAL: Final[Values] = {
    "target": {"kubeconfigSecret": {"name": "kubeadmiral-kubeconfig-secret"}},
    "controllers": {"enabled": False},
    "webhook": {"reviews": {"karmada": False, "kubeAdmiral": True}},
    "extender": {
        "enabled": True,
        "watch": ["federatedclusters"],
        "auth": {"clientCASecretName": "kubeadmiral-client-ca"},
        "kubeAdmiral": {"register": True, "certData": "Y2VydA==", "keyData": "a2V5"},
    },
}

EVERYTHING: Final = ["clusters", "policies", "bindings", "workloads"]
IMPACT: Final[Values] = {"enabled": True, "token": "0123456789abcdef"}

CASES: Final[dict[str, Values]] = {
    "default": {},
    "single": {"mode": "single"},
    "shadow": {
        "webhook": {"enabled": False},
        "controllers": {"shadow": {"enabled": True, "featureGates": {"WorkloadAffinity": True}}},
    },
    "controllers-off": {"controllers": {"enabled": False}},
    "certs-off": {"certs": {"enabled": False}, "certificates": {"source": "secret", "secret": {"webhook": "my-tls"}}},
    "registration-off": {"registration": {"enabled": False}},
    "extender": {"extender": EXTENDER},
    "extender-live": {
        "extender": {**EXTENDER, "watch": ["clusters", "policies", "bindings", "workloads"]},
        "prices": {
            "entries": [{"matchLabels": {"tier": "spot"}, "cpu": 0.011, "memory": 0.0015}, {"cpu": 0.031, "memory": 0.004}],
            "costWeight": 60,
        },
    },
    "impact": {"webhook": {"impact": IMPACT}, "extender": {"enabled": True, "watch": EVERYTHING}},
    "impact-gate": {
        "mode": "single",
        "networkPolicy": {"apiServerPorts": [6443], "extenderFrom": [{"namespaceSelector": {"matchLabels": {"a": "b"}}}]},
        "webhook": {
            "rules": {"blast-radius": "deny"},
            "impact": {
                **IMPACT, "events": True, "blastRadius": {"moved": 5, "deleted": 0}, "timeoutMilliseconds": 200,
                "exemptUsers": ["alice"], "exemptGroups": ["oncall"], "clientCertificateSecretName": "webhook-client",
            },
        },
        "extender": {"enabled": True, "watch": EVERYTHING, "auth": {"clientCASecretName": "extender-client-ca"}},
    },
    "extender-only": {
        "webhook": {"enabled": False}, "controllers": {"enabled": False},
        "extender": {
            "enabled": True, "watch": [], "auth": {"insecure": True}, "workloadAffinity": True, "workerClass": "gthread",
        },
    },
    "kubeadmiral": KUBEADMIRAL,
    "kubeadmiral-without-plugin": {
        **KUBEADMIRAL, "extender": {**KUBEADMIRAL["extender"], "kubeAdmiral": {"register": False, "passInDoubt": False}},
    },
    "kube-scheduler": {
        "mode": "single",
        "webhook": {"enabled": False}, "controllers": {"enabled": False},
        "extender": {
            "enabled": True, "watch": ["nodes", "policies"], "auth": {"clientCASecretName": "kube-scheduler-client-ca"},
            "kubeScheduler": {"example": True, "members": "type=virtual-node", "completeLists": True},
        },
    },
    "cert-manager": {"certificates": {"source": "cert-manager", "webhookExtraNames": ["10.0.0.7", "hooks.example.org"]}},
    "cert-manager-issuer": {
        "certificates": {"source": "cert-manager", "certManager": {"issuerRef": {"name": "pki", "kind": "ClusterIssuer"}}},
    },
    "console": {
        "extender": {**EXTENDER, "watch": EVERYTHING},
        "console": {"enabled": True, "signIn": {"tokenSecretName": "visitors"}, "sessionSecretName": "console-session"},
    },
    "console-with-oidc": {
        "extender": {**EXTENDER, "watch": EVERYTHING},
        "console": {
            "enabled": True, "sessionSecretName": "console-session",
            "signIn": {
                "oidc": {
                    "issuerURL": "https://login.example.org", "clientID": "console", "clientSecretName": "console-oidc",
                    "publicURL": "https://console.example.org", "caSecretName": "login-ca", "groupsPrefix": "oidc:",
                },
            },
        },
    },
    "console-behind-a-proxy": {
        "mode": "single",
        "networkPolicy": {
            "apiServerPorts": [6443],
            "extenderFrom": [{"namespaceSelector": {"matchLabels": {"a": "b"}}}],
            "consoleFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}],
        },
        "extender": {
            "enabled": True, "watch": ["clusters", "bindings"], "auth": {"clientCASecretName": "extender-client-ca"},
        },
        "console": {
            "enabled": True, "title": "staging", "sessionSecretName": "console-session", "subjectAccessReviews": True,
            "clientCertificateSecretName": "console-client",
            "signIn": {
                "clientCASecretName": "visitors-ca",
                "proxy": {
                    "userHeader": "X-Forwarded-User", "groupsHeader": "X-Forwarded-Groups", "secretName": "proxy-secret",
                    "clientNames": ["oauth2-proxy"],
                },
            },
            "service": {"address": "console.example.org"},
        },
        "certificates": {"consoleExtraNames": ["console.internal.example.org"]},
        "monitoring": {"prometheusRule": {"enabled": True}},
    },
    "controllers-with-everything": {
        "controllers": {
            "enable": ["*", "workload-rebalancer"],
            "featureGates": {"PolicyPreemption": True, "PriorityBasedScheduling": False},
            "failover": {"mode": "not-ready", "tolerationSeconds": 60},
            "estimator": {"enabled": True, "tlsSecretName": "estimator-client-tls"},
            "emptyWorkloadPropagation": True,
            "unknownFields": "ignore",
        },
    },
    "moves": {
        "controllers": {
            "failover": {"mode": "not-ready"},
            "moves": {
                "config": {
                    "failback": {"mode": "On", "after": "10m"},
                    "budgets": [
                        {"name": "fleet", "maxMoves": 20, "windows": [{"schedule": "0 22 * * *", "duration": "6h"}]},
                    ],
                },
            },
        },
    },
    "ledger-on-a-volume": {
        "controllers": {"replicas": 1, "ledger": {"enabled": True, "volume": {"storageClassName": "fast"}}},
        "monitoring": {"prometheusRule": {"enabled": True}},
    },
    "moves-of-the-platform": {"controllers": {"moves": {"existingConfigMap": "our-moves"}}},
    "controllers-alone": {"controllers": {"replicas": 1, "leaderElection": {"enabled": False}}},
    "single-with-everything": {
        "mode": "single",
        "placementLimits": {"groups": 2048, "steps": 50_000_000},
        "extender": EXTENDER,
        "controllers": {"enable": ["*", "workload-rebalancer"], "featureGates": {"PolicyPreemption": True}},
    },
    "least-power": {
        "target": {
            "rbac": {"manifest": True},
            "componentKubeconfigSecrets": {
                "controllers": {"name": "berthmaster-controllers-kubeconfig"},
                "certs": {"name": "berthmaster-certs-kubeconfig", "key": "config"},
            },
            "users": {"controllers": "berthmaster-controllers", "certs": "berthmaster-certs", "register": "berthmaster-register"},
        },
    },
    "webhook-tuned": {
        "webhook": {
            "mode": "standalone",
            "peerChecks": True,
            "rules": {"spread-max-groups-unset": "deny", "selector-repeated": "off"},
            "clusterScopedKinds": ["example.org/Gadget"],
            "namespacedKinds": ["example.org/Widget"],
            "dropHandlers": ["alice"],
            "failurePolicy": "Ignore",
            "timeoutSeconds": 10,
            "requestTimeoutSeconds": 9,
            "workerClass": "gthread",
            "clientCA": {"secretName": "apiserver-client-ca"},
            "namespaceSelector": {"matchExpressions": [{"key": "berthmaster", "operator": "NotIn", "values": ["off"]}]},
            "objectSelector": {"matchLabels": {"team": "shop"}},
            "matchConditions": [{"name": "people", "expression": "!('system:nodes' in request.userInfo.groups)"}],
            "extraArgs": ["--keepalive-s=60"],
        },
    },
    "autoscaling": {"webhook": {"autoscaling": {"enabled": True}}, "extender": {**EXTENDER, "autoscaling": {"enabled": True}}},
    "network-policy-off": {"networkPolicy": {"enabled": False}},
    "network-policy": {
        "networkPolicy": {
            "apiServerPorts": [443, 5443, 6443],
            "extenderFrom": [{"namespaceSelector": {"matchLabels": {"team": "fleet"}}}],
            "metricsFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
        },
        "extender": EXTENDER,
        "controllers": {"estimator": {"enabled": True}},
        "ledger": {"secretName": "our-ledger", "secretKey": "dsn", "port": 6432},
    },
    "monitoring": {
        "monitoring": {
            "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
            "prometheusRule": {"enabled": True, "alertLabels": {"team": "fleet"}},
            "dashboard": {"enabled": True},
        },
        "webhook": {"impact": IMPACT},
        "extender": {"enabled": True, "watch": EVERYTHING},
        "console": {"enabled": True, "signIn": {"tokenSecretName": "visitors"}, "sessionSecretName": "console-session"},
        "controllers": {
            "moves": {"existingConfigMap": "our-moves"},
            "ledger": {"enabled": True},
            "replicas": 1,
        },
    },
    "placed": {
        "image": {"repository": "registry.example.org/berthmaster", "digest": "sha256:" + "0" * 64, "pullSecrets": ["registry"]},
        "bindAddress": "[::]",
        "pods": {
            "annotations": {"example.org/team": "fleet"}, "labels": {"team": "fleet"}, "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "control-plane", "operator": "Exists", "effect": "NoSchedule"}],
            "priorityClassName": "system-cluster-critical", "antiAffinity": "required", "spreadOverZones": False,
        },
        "serviceAccounts": {"annotations": {"example.org/team": "fleet"}},
    },
    "each-component-placed": {
        "pods": {"nodeSelector": {"disk": "ssd"}, "labels": {"team": "fleet"}},
        "webhook": {"pods": {"nodeSelector": {"pool": "edge"}, "antiAffinity": "required"}},
        "controllers": {"pods": {"priorityClassName": "fleet-critical", "labels": {"team": "placement"}}},
        "certs": {"pods": {"tolerations": [{"key": "control-plane", "operator": "Exists"}], "dnsPolicy": "Default"}},
        "registration": {"pods": {"nodeSelector": {}, "annotations": {"sidecar.istio.io/inject": "false"}}},
    },
    "host-network": {"webhook": {"pods": {"hostNetwork": True}}},
    "openshift": {"pods": {"securityContext": {"runAsUser": None, "runAsGroup": None, "fsGroup": None}}},
    "extras": {
        "global": {"imageRegistry": "registry.example.org:5000"},
        "image": {"repository": "fleet/berthmaster"},
        "commonLabels": {"team": "fleet"},
        "pods": {
            "labels": {"team": "placement"},
            "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example.org:3128"}],
            "extraVolumes": [{"name": "trust", "configMap": {"name": "platform-trust"}}],
            "extraVolumeMounts": [{"name": "trust", "mountPath": "/etc/ssl/certs", "readOnly": True}],
        },
        "extraObjects": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "notes", "namespace": "{{ .Release.Namespace }}"}},
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: of-{{ .Release.Name }}\n  namespace: {{ .Release.Namespace }}",
        ],
    },
    "exposed": {
        "extender": EXTENDER | {"service": {"address": "extender.example.org"}},
        "webhook": {
            "service": {
                "type": "LoadBalancer",
                "annotations": {"external-dns.alpha.kubernetes.io/hostname": "hooks.example.org"},
                "address": "hooks.example.org:8443",
            },
        },
    },
    "service-accounts-of-the-platform": {
        "mode": "single", "serviceAccounts": {"names": {"controllers": "platform-controllers", "certs": "platform-certs"}},
    },
}  # fmt: skip
