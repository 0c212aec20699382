"""A redacted dump holds no secret, and decisions depend on nothing that it leaves out."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from karmada_plane import JSON, binding, cluster, deployment, policy, resource, selector
from tables import cases, data

from berthmaster.manifests.redaction import redacted

SECRETS = st.lists(st.text("0123456789", min_size=12, max_size=12), min_size=14, max_size=14, unique=True)
"""Values that may not reach a file. Numbers of this length stand nowhere else."""


def holding(secrets: list[str]) -> list[JSON]:
    """Objects that hold secrets wherever workloads, members and tools put them."""
    env, image, command, probe, note, applied, data, key, path, header, status, init, arg, message = secrets
    claimant = policy("web", selector(name="web"))
    claimant["metadata"]["annotations"] = {"note": note}
    web = deployment("web", 4, by=claimant)
    web["metadata"]["annotations"] |= {"note": note, "kubectl.kubernetes.io/last-applied-configuration": applied}
    web["metadata"]["managedFields"] = [{"manager": applied}]
    web["status"]["conditions"] = [{"message": status}]
    pod = web["spec"]["template"]["spec"]
    web["spec"]["template"]["metadata"]["annotations"] = {"vault.example/secret": note}
    pod["containers"][0] |= {
        "env": [{"name": key, "value": env}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": key}}}],
        "image": image,
        "command": ["sh", "-c", command],
        "readinessProbe": {"exec": {"command": [probe]}},
        "unknownField": {"token": probe},
    }
    pod["initContainers"] = [{"name": "init", "image": init, "args": [arg]}]
    pod["volumes"] = [
        {"name": "v", "nfs": {"server": path, "path": path}},
        {"name": "w", "secret": {"secretName": "s"}},
    ]
    bound = binding(web, claimant, member1=4)
    bound["status"]["aggregatedStatus"][0] |= {"status": {"message": message}, "appliedMessage": message}
    member = cluster("member1")
    member["spec"] |= {"proxyHeader": {"Authorization": header}, "proxyURL": f"http://{header}@proxy"}
    widget = resource("w", "Widget", "example.org/v1", spec={"replicas": 2, "pods": {"containers": [{"image": image}]}})
    widget["spec"]["env"] = {"A": env}
    federated = resource("web", "FederatedObject", "core.kubeadmiral.io/v1alpha1", spec={
        "template": web,
        "overrides": [{"override": [{"clusters": [{"patches": [
            {"op": "replace", "path": "/spec/replicas", "value": 3},
            {"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": image},
        ]}]}]}],
    })  # fmt: skip
    settings = resource("settings", "ConfigMap", data={"a": data}, binaryData={"b": data})
    secret = resource("s", "Secret", data={"a": data}, stringData={"b": data}, type="Opaque")
    return [claimant, web, bound, member, widget, federated, settings, secret]


@given(SECRETS)
def test_no_value_of_an_environment_an_image_or_data_is_kept(secrets):
    text = json.dumps([redacted(each) for each in holding(secrets)])
    assert [each for each in secrets if each in text] == []


def at(value: Any, *path: Any) -> Any:
    for step in path:
        value = value[step]
    return value


@cases(("index", "path", "kept"), data("redacted_objects"))
def test_what_a_decision_depends_on_is_kept(index, path, kept):
    objects = holding([f"{number:012}" for number in range(14)])
    assert at(redacted(objects[index]), *path) == kept


def leaking(secret: str) -> list[JSON]:
    """Objects that hold a secret where Karmada and Kubernetes put addresses, messages and values of overrides."""
    web = deployment("web", 4)
    web["spec"]["template"]["spec"] |= {
        "hostAliases": [{"ip": secret, "hostnames": [secret]}],
        "dnsConfig": {"nameservers": [secret], "searches": [secret]},
        "hostname": secret,
    }
    claimant = policy("web", selector(name="web"))
    bound = binding(deployment("web", 4), claimant, member1=4)
    bound["metadata"]["annotations"] |= {"policy.karmada.io/applied-overrides": secret}
    bound["spec"]["gracefulEvictionTasks"] = [
        {"fromCluster": "member2", "reason": "TaintUntolerated", "message": secret}
    ]
    bound["status"]["conditions"] = [{"type": "Scheduled", "status": "False", "message": secret}]
    member = cluster("member1")
    member["status"]["conditions"][0]["message"] = secret
    service = resource("web", "Service", spec={
        "type": "ExternalName", "externalName": secret, "externalIPs": [secret], "loadBalancerIP": secret,
    })  # fmt: skip
    work = resource("web", "Work", "work.karmada.io/v1alpha1", spec={"workload": {"manifests": [web, {
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "annotations": {"note": secret}},
        "stringData": {"a": secret},
    }]}})  # fmt: skip
    overriders = {
        "plaintext": [{"path": "/spec/x", "operator": "replace", "value": {"a": [secret]}}],
        "imageOverrider": [{"component": "Registry", "operator": "replace", "value": secret}],
        "commandOverrider": [{"containerName": "web", "operator": "add", "value": [secret]}],
        "labelsOverrider": [{"operator": "add", "value": {"a": secret}}],
        "fieldOverrider": [{"fieldPath": "/data/a", "json": [{"subPath": "/x", "operator": "add", "value": secret}]}],
    }
    override = resource("web", "OverridePolicy", "policy.karmada.io/v1alpha1", spec={
        "resourceSelectors": [selector(name="web")],
        "overrideRules": [{"targetCluster": {"clusterNames": ["member1"]}, "overriders": overriders}],
        "overriders": overriders,
    })  # fmt: skip
    ingress = resource("web", "Ingress", "networking.k8s.io/v1", spec={
        "rules": [{"host": secret}], "tls": [{"hosts": [secret], "secretName": "s"}],
    })  # fmt: skip
    volume = resource("v", "PersistentVolume", namespace="", spec={
        "capacity": {"storage": "1Gi"}, "nfs": {"server": secret, "path": secret},
        "csi": {"driver": "d", "volumeHandle": secret, "volumeAttributes": {"a": secret}},
    })  # fmt: skip
    spark = resource("etl", "SparkApplication", "sparkoperator.k8s.io/v1beta2", spec={
        "dbPassword": secret, "auth": {"accessToken": secret, "api_key": secret, "AWS_SECRET_ACCESS_KEY": secret},
        "endpoint": {"url": secret}, "credentials": {"passphrase": secret},
    })  # fmt: skip
    interpreter = {
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterWebhookConfiguration",
        "metadata": {"name": "w"}, "webhooks": [{"name": "w", "clientConfig": {"url": secret, "caBundle": secret}}],
    }  # fmt: skip
    return [web, bound, member, service, work, override, ingress, volume, spark, interpreter]


def test_scripts_of_interpreters_and_references_to_secrets_are_kept():
    script = {
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "r"}, "spec": {"customizations": {"replicaResource": {"luaScript": "return 1"}}},
    }  # fmt: skip
    spark = resource("etl", "SparkApplication", spec={"tokenRef": {"name": "s"}, "secretName": "s", "tokens": 3})
    assert redacted(script)["spec"] == script["spec"]
    assert redacted(spark)["spec"] == spark["spec"]


def test_no_address_message_or_value_of_an_override_is_kept():
    dumped = [redacted(each) for each in leaking("hunter2")]
    for each in dumped:
        assert "hunter2" not in json.dumps(each), each["kind"]


def test_what_decisions_depend_on_is_kept():
    _, bound, member, _, work, override, *_ = (redacted(each) for each in leaking("hunter2"))
    assert bound["spec"]["gracefulEvictionTasks"] == [{"fromCluster": "member2", "reason": "TaintUntolerated"}]
    assert member["status"]["conditions"][0]["status"] == "True"
    assert [each["kind"] for each in work["spec"]["workload"]["manifests"]] == ["Deployment", "Secret"]
    (rule,) = override["spec"]["overrideRules"]
    assert rule["targetCluster"] == {"clusterNames": ["member1"]}
    assert rule["overriders"]["plaintext"] == [{"path": "/spec/x", "operator": "replace"}]
