"""Dependencies follow the workloads that need them, and move with them."""

from builders import deployment
from fleet_dump import DIVIDED, members, stored_binding, stored_policy, stored_template
from simulated_worlds import explain, simulated_rows
from tables import cases

from berthmaster.model.dependencies import DEPENDENCIES
from berthmaster.simulation.changes import Down
from berthmaster.simulation.workload import NotScheduled, ResourceName

WITH_DEPENDENCIES = stored_policy("p", placement=DIVIDED, propagateDeps=True)
NEEDS = {"volumes": [{"name": "c", "configMap": {"name": "settings"}}], "serviceAccountName": "web"}
RECORDED = '[{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "settings"}]'


def configmap(name="settings", **metadata):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default", **metadata}}


def leader(clusters, *, policy=WITH_DEPENDENCIES, needs=NEEDS, recorded=None, **spec):
    """A Deployment that needs a ConfigMap and a service account, and its binding."""
    template = stored_template(deployment("web", replicas=2, requests={"cpu": "100m"}, pod_spec=needs), held_by=policy)
    annotations = {} if recorded is None else {DEPENDENCIES: recorded}
    return [policy, template, stored_binding(template, clusters, policy=policy, annotations=annotations, **spec)]


def attached(clusters, name="settings", by="web-deployment"):
    snapshot = {"name": by, "namespace": "default", "clusters": [{"name": each, "replicas": 2} for each in clusters]}
    template = stored_template(configmap(name))
    return [template, stored_binding(template, {}, replicas=None, requiredBy=[snapshot])]


SETTINGS = "default/ConfigMap/settings"


def test_a_dependency_follows_a_workload_of_manifests_alone():
    policy = stored_policy("p", placement=DIVIDED, propagateDeps=True, new=True)
    rows = simulated_rows(*members("a"), policy, deployment("web", pod_spec=NEEDS), configmap(), configmap("other"))
    settings = rows[SETTINGS].after
    assert (settings.clusters, settings.follows) == ({"a": 0}, ["default/Deployment/web"])
    assert (settings.not_scheduled, settings.policy) == (NotScheduled.FOLLOWS, None)
    assert rows["default/ConfigMap/other"].after.not_scheduled is NotScheduled.UNCLAIMED


@cases("recorded", {"by the template": None, "by the record on the binding": RECORDED})
def test_a_dependency_moves_with_its_workload(recorded):
    objects = [*members("a", "b"), *leader({"a": 2}, recorded=recorded), *attached(["a"])]
    rows = simulated_rows(*objects, changes=[Down("a")])
    assert rows["default/Deployment/web"].moves == {"a": (2, None), "b": (None, 2)}
    assert rows[SETTINGS].moves == {"a": (0, None), "b": (None, 0)}
    assert rows[SETTINGS].before.follows == ["default/Deployment/web"]


@cases(
    ("one", "two", "notes"),
    {
        "conflictResolution": (
            {"conflictResolution": "Overwrite"},
            {},
            ["the workloads that need it differ in conflictResolution: Overwrite counts for it"],
        ),
        "preserveResourcesOnDeletion": (
            {},
            {"preserveResourcesOnDeletion": True},
            ["the workloads that need it differ in preserveResourcesOnDeletion: true counts for it"],
        ),
        "the default and the same value": ({"conflictResolution": "Abort"}, {}, []),
    },
)
def test_a_dependency_of_workloads_whose_policies_differ(one, two, notes):
    objects = []
    for name, fields in (("one", one), ("two", two)):
        target = {"name": name, "namespace": "default"}
        objects += [
            stored_policy(name, placement=DIVIDED, propagateDeps=True, new=True, target=target, **fields),
            deployment(name, pod_spec=NEEDS),
        ]
    rows = simulated_rows(*members("a"), *objects, configmap())
    assert [each for each in rows[SETTINGS].after.notes if "differ in" in each] == notes


def test_the_policy_of_a_dependency_decides_although_others_differ():
    own = stored_policy("own", to=["a"], selects="v1/ConfigMap")
    objects = [own, stored_template(configmap(), held_by=own)]
    for name, fields in (("one", {"conflictResolution": "Overwrite"}), ("two", {})):
        target = {"name": name, "namespace": "default"}
        policy = stored_policy(name, placement=DIVIDED, propagateDeps=True, new=True, target=target, **fields)
        objects += [policy, deployment(name, pod_spec=NEEDS)]
    row = simulated_rows(*members("a"), *objects)[SETTINGS].after
    assert len(row.follows) == 2
    assert not [each for each in row.notes if "differ in" in each]


def test_a_workload_names_its_dependencies_and_those_that_are_missing():
    found = explain(*members("a"), *leader({"a": 2}), *attached(["a"]))
    assert found.followed_by == [SETTINGS]
    assert found.missing == ["default/ServiceAccount/web"]
    settings = explain(
        *members("a"), *leader({"a": 2}), *attached(["a"]), name=ResourceName("default", "ConfigMap", "settings")
    )
    assert (settings.follows, settings.clusters) == (["default/Deployment/web"], {"a": 0})


def test_a_dependency_of_a_workload_that_is_not_among_the_input_stays():
    rows = simulated_rows(*members("a", "b"), *attached(["b"], by="shop-deployment"), changes=[Down("b")])
    assert (rows[SETTINGS].after.clusters, rows[SETTINGS].moves) == ({"b": 0}, {})
    assert rows[SETTINGS].after.follows == ["default/ResourceBinding/shop-deployment"]


def test_a_dependency_with_a_policy_is_on_the_clusters_of_both():
    own = stored_policy("own", to=["b"], selects="v1/ConfigMap")
    template = stored_template(configmap(), held_by=own)
    snapshot = {"name": "web-deployment", "namespace": "default", "clusters": [{"name": "a", "replicas": 2}]}
    bound = stored_binding(template, {"b": 0}, policy=own, replicas=None, requiredBy=[snapshot])
    row = simulated_rows(*members("a", "b"), *leader({"a": 2}), own, template, bound)[SETTINGS].after
    assert (row.clusters, row.follows, row.not_scheduled) == ({"b": 0, "a": 0}, ["default/Deployment/web"], None)


def test_a_dependency_that_a_template_no_longer_needs_goes():
    edited = deployment("web", replicas=2, requests={"cpu": "100m"})
    objects = [*members("a"), *leader({"a": 2}, recorded=RECORDED), *attached(["a"])]
    applied = [each for each in objects if each.get("kind") != "Deployment"]
    assert simulated_rows(*applied, over=[edited])[SETTINGS].moves == {"a": (0, None)}
    assert simulated_rows(*objects)[SETTINGS].moves == {}


def test_without_propagate_deps_nothing_follows():
    policy = stored_policy("p", placement=DIVIDED)
    rows = simulated_rows(*members("a"), *leader({"a": 2}, policy=policy), configmap())
    assert rows[SETTINGS].after.not_scheduled is NotScheduled.UNCLAIMED


def test_unknown_dependencies_are_reported():
    policy = stored_policy("p", selects="example.io/v1/Widget", propagateDeps=True)
    widget = {"apiVersion": "example.io/v1", "kind": "Widget", "metadata": {"name": "web", "namespace": "default"}}
    template = stored_template(widget, held_by=policy)
    bound = stored_binding(template, {"a": 2}, policy=policy)
    served = {"serves": [{"groupVersion": "example.io/v1", "resources": [{"name": "widgets", "kind": "Widget"}]}]}
    rows = simulated_rows(*members("a", **served), policy, template, bound, *attached(["a"], by="web-widget"))
    assert rows["default/Widget/web"].after.notes == ["the dependencies of Widget are not known"]
    assert rows[SETTINGS].after.clusters == {"a": 0}
