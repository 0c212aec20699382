"""Kinds, their dependencies, and the kinds of third parties."""

import pytest
from builders import deployment
from tables import cases, data

from berthmaster.model.decode import builtins
from berthmaster.model.dependencies import DEPENDENCIES, Dependency, dependencies_of, recorded_dependencies
from berthmaster.model.errors import FieldError
from berthmaster.model.interpretation import UnknownReplicas, interpreted
from berthmaster.model.kinds import Scope, group_of, is_namespaced, scope_of
from berthmaster.model.replicas import Replicas
from berthmaster.model.selector import LabelSelector
from berthmaster.model.skipped_resources import reason_not_propagated
from berthmaster.model.third_party_replicas import OF_SEVERAL_PARTS


@pytest.mark.parametrize(
    ("api_version", "kind", "scope"),
    [
        ("v1", "Namespace", Scope.CLUSTER),
        ("v1", "ConfigMap", Scope.NAMESPACED),
        ("apps/v1", "Deployment", Scope.NAMESPACED),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", Scope.CLUSTER),
        ("rbac.authorization.k8s.io/v1beta1", "ClusterRole", Scope.CLUSTER),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", Scope.CLUSTER),
        ("policy.karmada.io/v1alpha1", "PropagationPolicy", Scope.NAMESPACED),
        ("policy.karmada.io/v1alpha1", "ClusterPropagationPolicy", Scope.CLUSTER),
        ("core.kubeadmiral.io/v1alpha1", "FederatedCluster", Scope.CLUSTER),
        ("example.io/v1", "Widget", None),
        ("example.io/v1", "Namespace", None),
    ],
)
def test_scopes_of_known_kinds(api_version, kind, scope):
    assert scope_of(api_version, kind) is scope
    assert is_namespaced(api_version, kind) is (scope is not Scope.CLUSTER)


@pytest.mark.parametrize(("api_version", "group"), [("v1", ""), ("apps/v1", "apps"), ("a.b/v2", "a.b"), ("", "")])
def test_groups(api_version, group):
    assert group_of(api_version) == group


@pytest.mark.parametrize(
    ("api_version", "kind", "namespace", "reason"),
    [
        ("apps/v1", "Deployment", "default", None),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", "", None),
        ("v1", "Event", "default", "Event of v1 is not propagated"),
        ("events.k8s.io/v1", "Event", "default", "the API group events.k8s.io is not propagated"),
        ("coordination.k8s.io/v1", "Lease", "default", "Lease of coordination.k8s.io/v1 is not propagated"),
        ("work.karmada.io/v1alpha1", "Work", "default", "the API group work.karmada.io is not propagated"),
        ("search.karmada.io/v1alpha1", "ResourceRegistry", "", None),
        ("v1", "Secret", "karmada-system", "the namespace karmada-system is reserved"),
        ("v1", "Secret", "karmada-es-member1", "the namespace karmada-es-member1 is reserved"),
        ("v1", "Secret", "kube-system", "the namespace kube-system is not propagated"),
        ("v1", "Secret", "my-kube-tools", None),
        ("v1", "Secret", "kubernetes", None),
    ],
)
def test_reasons_why_a_resource_is_not_propagated(api_version, kind, namespace, reason):
    assert reason_not_propagated(api_version, kind, namespace) == reason


def needed(pod):
    found = dependencies_of(deployment(pod_spec=pod, namespace="shop"))
    assert all((each.api_version, each.namespace) == ("v1", "shop") for each in found)
    return [f"{each.kind} {each.name}" for each in found]


@cases(("pod", "expected"), data("model/needs_of_pods"))
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


@cases(
    ("text", "expected"),
    {
        "no record": (None, None),
        "an empty record": ("", ()),
        "null, as Karmada writes no dependencies": ("null", ()),
        "no JSON": ("{broken", None),
        "a dependency": ('[{"apiVersion":"v1","kind":"Secret","namespace":"shop","name":"s"}]',
                     (Dependency("v1", "Secret", "shop", "s"),)),
    },
)  # fmt: skip
def test_the_record_on_a_binding(text, expected):
    assert recorded_dependencies({} if text is None else {DEPENDENCIES: text}) == expected


POD = deployment(requests={"cpu": "250m", "memory": "1Gi"})["spec"]["template"]


def resource(kind, **spec):
    api_version, _, name = kind.rpartition("/")
    return {"apiVersion": api_version, "kind": name, "metadata": {"name": "x", "namespace": "shop"}, "spec": spec}


def managers(**given):
    """A FlinkDeployment whose job manager requests more memory and whose task managers request more CPU."""
    sizes = {
        "jobManager": {"resource": {"cpu": 1, "memory": "2048m"}, **given.pop("job_manager", {})},
        "taskManager": {"resource": {"cpu": 2, "memory": "1024m"}, **given.pop("task_manager", {})},
    }
    return resource("flink.apache.org/v1beta1/FlinkDeployment", **sizes, **given)


def ray(workers):
    config = {"headGroupSpec": {"template": POD}, "workerGroupSpecs": workers}
    return resource("ray.io/v1/RayService", rayClusterConfig=config)


@cases(("raw", "expected"), data("model/replicas")["third-party kinds"])
def test_replicas(raw, expected):
    assert builtins(interpreted(raw)) == expected


@pytest.mark.parametrize("kind", ["argoproj.io/v1alpha1/Rollout", "apps.kruise.io/v1alpha2/CloneSet"])
def test_the_replicas_of_a_kind_that_karmada_does_not_interpret_are_unknown(kind):
    assert isinstance(interpreted(resource(kind, replicas=3)), UnknownReplicas)


@pytest.mark.parametrize("kind", sorted(OF_SEVERAL_PARTS), ids=lambda kind: kind[1])
def test_kinds_of_several_parts_are_placed_as_a_whole(kind):
    assert interpreted(resource("/".join(kind), tasks=[{"minAvailable": 2}])) == Replicas()


@cases(
    ("raw", "path"),
    {
        "no pod template": (resource("apps.kruise.io/v1alpha1/CloneSet", replicas=1), "spec.template"),
        "no number": (resource("apps.kruise.io/v1alpha1/CloneSet", replicas="x", template=POD), "spec.replicas"),
        "no quantity": (managers(job_manager={"resource": {"cpu": "much"}}), "spec.jobManager.resource[cpu]"),
        "a negative number": (ray([{"replicas": -1}]), "spec.rayClusterConfig.workerGroupSpecs[0].replicas"),
    },
)
def test_an_invalid_field_is_an_error_with_its_path(raw, path):
    with pytest.raises(FieldError) as caught:
        interpreted(raw)
    assert caught.value.path == path
