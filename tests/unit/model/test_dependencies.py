"""What a workload needs, as Karmada's interpreters find it."""

import pytest
from builders import deployment

from berthmaster.model.dependencies import DEPENDENCIES, Dependency, dependencies_of, recorded_dependencies
from berthmaster.model.selector import LabelSelector


def needed(pod):
    found = dependencies_of(deployment(pod_spec=pod, namespace="shop"))
    assert all((each.api_version, each.namespace) == ("v1", "shop") for each in found)
    return [f"{each.kind} {each.name}" for each in found]


def env(**source):
    return {"containers": [{"name": "web", "env": [{"name": "X", "valueFrom": source}]}]}


def volume(**source):
    return {"volumes": [{"name": "v", **source}]}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param({}, [], id="nothing"),
        pytest.param({"serviceAccountName": "web"}, ["ServiceAccount web"], id="a service account"),
        pytest.param({"serviceAccountName": "default"}, [], id="the default service account"),
        pytest.param({"imagePullSecrets": [{"name": "pull"}]}, ["Secret pull"], id="a secret for images"),
        pytest.param(env(configMapKeyRef={"name": "c", "key": "k"}), ["ConfigMap c"], id="a key of a ConfigMap"),
        pytest.param(env(secretKeyRef={"name": "s", "key": "k"}), ["Secret s"], id="a key of a Secret"),
        pytest.param({"initContainers": [{"envFrom": [{"configMapRef": {"name": "c"}}, {"secretRef": {"name": "s"}}]}]},
                     ["ConfigMap c", "Secret s"], id="whole objects of an init container"),
        pytest.param({"ephemeralContainers": [{"envFrom": [{"secretRef": {"name": "s"}}]}]}, ["Secret s"],
                     id="an ephemeral container"),
        pytest.param(volume(configMap={"name": "c"}), ["ConfigMap c"], id="a volume of a ConfigMap"),
        pytest.param(volume(secret={"secretName": "s"}), ["Secret s"], id="a volume of a Secret"),
        pytest.param(volume(projected={"sources": [{"secret": {"name": "s"}}, {"configMap": {"name": "c"}}]}),
                     ["ConfigMap c", "Secret s"], id="a projected volume"),
        pytest.param(volume(persistentVolumeClaim={"claimName": "data"}), ["PersistentVolumeClaim data"], id="a claim"),
        pytest.param(volume(azureFile={"secretName": "s"}), ["Secret s"], id="a share of Azure"),
        pytest.param(volume(csi={"nodePublishSecretRef": {"name": "s"}}), ["Secret s"], id="a CSI volume"),
        pytest.param(volume(iscsi={"secretRef": {"name": "s"}}), ["Secret s"], id="a volume of iSCSI"),
        pytest.param(volume(configMap={"name": ""}), [], id="an empty name"),
        pytest.param({"containers": "x", "volumes": [3, {"secret": []}]}, [], id="fields of the wrong type"),
    ],
)  # fmt: skip
def test_what_a_pod_needs(pod, expected):
    assert needed(pod) == expected


def with_pod(kind, path, **more):
    """A resource of a kind with a pod template at a path; ``*`` is a list, and a name with ``!`` an object."""
    api_version, _, name = kind.rpartition("/")
    value = {"spec": {"serviceAccountName": "web"}}
    for step in reversed(path.split(".") if path else []):
        value = [value] if step == "*" else {step: value}
    metadata = {"name": "x", "namespace": "shop"}
    return {
        "apiVersion": api_version,
        "kind": name,
        "metadata": metadata,
        **(value if isinstance(value, dict) else {}),
        **more,
    }


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("v1/Pod", ""),
        ("apps/v1/DaemonSet", "spec.template"),
        ("batch/v1/CronJob", "spec.jobTemplate.spec.template"),
        ("apps.kruise.io/v1alpha1/CloneSet", "spec.template"),
        ("apps.kruise.io/v1alpha1/AdvancedCronJob", "spec.template.broadcastJobTemplate.spec.template"),
        ("kubeflow.org/v1/TFJob", "spec.tfReplicaSpecs.Worker.template"),
        ("ray.io/v1/RayJob", "spec.rayClusterSpec.workerGroupSpecs.*.template"),
    ],
)
def test_where_kinds_keep_their_pod_templates(kind, path):
    assert dependencies_of(with_pod(kind, path)) == (Dependency("v1", "ServiceAccount", "shop", "web"),)


def test_the_claims_of_a_stateful_set_are_its_own():
    claims = [{"name": "v", "persistentVolumeClaim": {"claimName": name}} for name in ("data", "shared")]
    raw = {**deployment(pod_spec={"volumes": claims}), "kind": "StatefulSet"}
    raw["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}}]
    assert [each.name for each in dependencies_of(raw)] == ["shared"]


def test_other_kinds():
    ingress = {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "x", "namespace": "shop"}}
    tls = {**ingress, "spec": {"tls": [{"secretName": "cert"}, {}]}}
    assert dependencies_of(tls) == (Dependency("v1", "Secret", "shop", "cert"),)
    imported = {**ingress, "apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport"}
    labels = LabelSelector(match_labels={"kubernetes.io/service-name": "derived-x"})
    assert dependencies_of(imported) == (
        Dependency("v1", "Service", "shop", "derived-x"),
        Dependency("discovery.k8s.io/v1", "EndpointSlice", "shop", label_selector=labels),
    )
    assert dependencies_of({**ingress, "kind": "Widget"}) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(None, None, id="no record"),
        pytest.param("", (), id="an empty record"),
        pytest.param("null", (), id="null, as Karmada writes no dependencies"),
        pytest.param("{broken", None, id="no JSON"),
        pytest.param('[{"apiVersion":"v1","kind":"Secret","namespace":"shop","name":"s"}]',
                     (Dependency("v1", "Secret", "shop", "s"),), id="a dependency"),
    ],
)  # fmt: skip
def test_the_record_on_a_binding(text, expected):
    assert recorded_dependencies({} if text is None else {DEPENDENCIES: text}) == expected
