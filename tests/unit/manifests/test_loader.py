import copy
import json

import pytest
import yaml
from builders import binding, cluster, deployment, policy
from tables import cases, data

from berthmaster.manifests import load_manifests
from berthmaster.model.decode import builtins
from berthmaster.model.errors import InputError, ManifestError
from berthmaster.model.unsupported_placement import unsupported_parts

MEMBER = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "member1"}}
POLICY = {
    "apiVersion": "policy.karmada.io/v1alpha1",
    "kind": "PropagationPolicy",
    "metadata": {"name": "p"},
    "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}]},
}
BINDING = {"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", **builtins(binding())}
CLUSTER_ROLE = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}}


def changed(raw, path, value):
    """A copy with the value at a dotted path replaced; missing parents are created."""
    raw = copy.deepcopy(raw)
    *parents, last = path.split(".")
    node = raw
    for parent in parents:
        node = node.setdefault(parent, {})
    node[last] = value
    return raw


@pytest.fixture
def write(tmp_path):
    def write(*documents, name="f.yaml"):
        path = tmp_path / name
        path.write_text(yaml.safe_dump_all(documents) if name.endswith("yaml") else json.dumps(documents[0]))
        return path

    return write


def test_documents_are_sorted_by_kind(write):
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}}
    manifests = load_manifests([write(deployment(), MEMBER, POLICY, BINDING, event, CLUSTER_ROLE)])
    assert [each.name for each in manifests.clusters] == ["member1"]
    assert [str(each) for each in manifests.policies] == ["PropagationPolicy default/p"]
    assert [each.metadata.name for each in manifests.bindings] == ["nginx-deployment"]
    assert [(each.kind, each.name, each.namespace) for each in manifests.templates] == [
        ("Deployment", "nginx", "default"),
        ("ClusterRole", "r", ""),
    ]
    ((document, reason),) = manifests.ignored
    assert (document.name, reason) == ("e", "Event of v1 is not propagated")


def test_clusters_are_decoded_completely(write):
    expected = cluster("member2", region="north", cpu=4, taints=["a:NoSchedule"])
    raw = {**builtins(expected), "apiVersion": MEMBER["apiVersion"], "kind": "Cluster"}
    assert load_manifests([write(raw)]).clusters == [expected]
    assert load_manifests([write(raw, name="f.json")]).clusters == [expected]


def test_policies_have_their_defaults(write):
    (loaded,) = load_manifests([write(MEMBER, changed(POLICY, "spec.placement", {"replicaScheduling": {}}))]).policies
    strategy = loaded.spec.placement.replica_scheduling
    assert (strategy.replica_scheduling_type, loaded.spec.scheduler_name) == ("Divided", "default-scheduler")


def test_namespaced_objects_without_a_namespace_are_in_the_default_one(write):
    cluster_policy = {**POLICY, "kind": "ClusterPropagationPolicy"}
    manifests = load_manifests([write(MEMBER, POLICY, cluster_policy, deployment(namespace=None), CLUSTER_ROLE)])
    assert [each.metadata.namespace for each in manifests.policies] == ["default", ""]
    assert [each.namespace for each in manifests.templates] == ["default", ""]


@cases(
    ("kind", "api_version", "namespace", "ignored"),
    {
        "another kind of policy": ("OverridePolicy", "policy.karmada.io/v1alpha1", "default", True),
        "a Work": ("Work", "work.karmada.io/v1alpha1", "karmada-es-a", True),
        "an autoscaler": ("FederatedHPA", "autoscaling.karmada.io/v1alpha1", "default", True),
        "a lease": ("Lease", "coordination.k8s.io/v1", "default", True),
        "a skipped namespace": ("ConfigMap", "v1", "kube-system", True),
        "a ConfigMap": ("ConfigMap", "v1", "default", False),
        "a custom resource": ("Widget", "example.io/v1", "default", False),
    },
)
def test_unpropagated_resources_are_recorded_as_ignored(write, kind, api_version, namespace, ignored):
    raw = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "namespace": namespace}}
    manifests = load_manifests([write(MEMBER, raw)])
    assert (len(manifests.ignored), len(manifests.templates)) == ((1, 0) if ignored else (0, 1))


@cases(("kind", "at", "value", "message"), data("invalid_objects"))
def test_errors_name_file_document_and_path(write, kind, at, value, message):
    path = write(deployment(), changed({"policy": POLICY, "cluster": MEMBER, "binding": BINDING}[kind], at, value))
    with pytest.raises(ManifestError) as caught:
        load_manifests([path])
    assert str(caught.value) == f"{path}: document 2: {message}"


def test_errors_in_a_list_name_the_item(write):
    path = write({"apiVersion": "v1", "kind": "List", "items": [MEMBER, changed(POLICY, "spec.priorty", 1)]})
    with pytest.raises(ManifestError) as caught:
        load_manifests([path])
    assert str(caught.value) == f"{path}: document 1: items[1].spec.priorty: unknown field; did you mean priority?"


@cases(
    ("field", "uid", "lenient", "refused"),
    {
        "a misspelled field": ("priorty", None, False, True),
        "a misspelled field, leniently": ("priorty", None, True, False),
        "a similar field of a stored policy": ("priorty", "1", False, False),
        "a field of another version of Karmada": ("orbit", None, False, False),
    },
)
def test_unknown_fields_of_policies(write, field, uid, lenient, refused):
    path = write(MEMBER, changed(changed(POLICY, f"spec.{field}", 1), "metadata.uid", uid))
    if refused:
        with pytest.raises(ManifestError, match="did you mean priority"):
            load_manifests([path], lenient=lenient)
        return
    (warning,) = load_manifests([path], lenient=lenient).warnings
    assert warning.startswith(f"{path}: document 2: spec.{field}: unknown field")
    assert warning.endswith("; it is ignored")


@cases(
    ("field", "options", "held", "effect"),
    {
        "hold": ("racks", {}, True, "no decision on its workloads is simulated"),
        "ignore": ("racks", {"hold_unknown": False}, False, "it is ignored"),
        "misspelled in a file, leniently": ("clusterAfinity", {"lenient": True}, False, "it is ignored"),
    },
)
def test_unknown_fields_of_placements(write, field, options, held, effect):
    path = write(
        MEMBER, changed(POLICY, f"spec.placement.{field}", {}), changed(BINDING, "spec.placement", {"racks": 1})
    )
    manifests = load_manifests([path], **options)
    assert bool(unsupported_parts(manifests.policies[0].spec.placement)) == held
    assert bool(unsupported_parts(manifests.bindings[0].spec.placement)) == options.get("hold_unknown", True)
    (warning,) = manifests.warnings
    assert warning.endswith(effect)


@cases(
    ("raw", "what"),
    {
        "a cluster": (MEMBER, "Cluster 'member1'"),
        "a policy": (POLICY, "PropagationPolicy 'default/p'"),
        "a binding": (BINDING, "ResourceBinding 'default/nginx-deployment'"),
        "a resource": (deployment(), "Deployment 'default/nginx'"),
        "a resource without namespace": (CLUSTER_ROLE, "ClusterRole 'r'"),
    },
)
def test_a_duplicate_is_an_error_that_names_both_positions(write, raw, what):
    first = write(raw, name="b.yaml")
    second = write(deployment("other"), raw, name="a.yaml")
    with pytest.raises(ManifestError) as caught:
        load_manifests([first, second])
    assert str(caught.value) == f"{second}: document 2: metadata.name: {what} is already defined in {first}: document 1"


@cases(
    ("one", "other"),
    {
        "in two namespaces": (deployment(), deployment(namespace="team")),
        "of two kinds": (deployment(), {**deployment(), "kind": "StatefulSet"}),
        "of two groups": (deployment(), {**deployment(), "apiVersion": "example.io/v1"}),
        "of two kinds of policy": (POLICY, {**POLICY, "kind": "ClusterPropagationPolicy"}),
    },
)
def test_names_may_repeat_for_different_objects(write, one, other):
    manifests = load_manifests([write(MEMBER, one, other)])
    assert len(manifests.templates) + len(manifests.policies) == 2


def test_two_versions_of_a_group_are_one_resource(write):
    scaler = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"}}
    with pytest.raises(ManifestError, match="is already defined in"):
        load_manifests([write(MEMBER, scaler, {**scaler, "apiVersion": "autoscaling/v1"})])


def test_manifests_without_clusters_are_an_error_with_a_remedy(write):
    path = write(deployment(), POLICY)
    with pytest.raises(InputError) as caught:
        load_manifests([path])
    assert str(caught.value).startswith(f"no cluster in {path}: pass manifests of kind Cluster")
    assert "\n" not in str(caught.value)


def test_the_policies_of_the_test_builders_are_accepted(write):
    raw = {**builtins(policy(priority=1)), "apiVersion": POLICY["apiVersion"]}
    assert len(load_manifests([write(MEMBER, raw)]).policies) == 1


NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "liqo-milan", "labels": {"tier": "gold"}}}


def test_without_clusters_nodes_count_as_clusters(write):
    loaded = load_manifests([write(NODE, deployment())])
    assert [each.name for each in loaded.clusters] == ["liqo-milan"]
    assert [each.kind for each in loaded.templates] == ["Deployment"]


def test_with_clusters_a_node_is_an_ordinary_resource(write):
    loaded = load_manifests([write(MEMBER, NODE)])
    assert [each.name for each in loaded.clusters] == ["member1"]
    assert [each.kind for each in loaded.templates] == ["Node"]


def test_an_invalid_node_is_an_error_with_the_field(write):
    with pytest.raises(ManifestError, match=r"document 1: spec\.taints"):
        load_manifests([write({**NODE, "spec": {"taints": 3}})])
    with pytest.raises(ManifestError, match=r"allocatable\[cpu\]: '-1' is negative"):
        load_manifests([write(changed(NODE, "status.allocatable", {"cpu": "-1"}))])
