"""The figures of the fleet: workloads by what is wrong, the worst loss, and amounts by cluster and region."""

from karmada_plane import DIVIDED, binding, cluster, deployment, policy, resource, selector
from prometheus_client import REGISTRY

from berthmaster.deciding.running import hosts_of
from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import convert
from berthmaster.native_api.fleet import FleetAmount
from extender.fleet_metrics import FleetMetrics
from extender.state.fleet_figures import Wrong, fleet_figures
from extender.state.placed_index import PlacedIndex
from extender.state.placed_workload import placed_workload
from extender.state.problems import known_outages

GROUPS = {"clusterAffinities": [{"affinityName": name, "clusterNames": [name]} for name in ("a", "b")]}
BY = policy("web", selector(), placement={**DIVIDED, **GROUPS})
FREE = {"domain": "region", "name": "eu", "resource": "cpu", "amount": "free"}
AMOUNTS_OF = {
    "a": {"cpu": FleetAmount(8000, 2000, 500)},
    "b": {"cpu": FleetAmount(4000, 1000, 0)},
    "lost": {"cpu": FleetAmount(4000, None, None)},
}


def member(name, region, *, ready=True):
    made = cluster(name)
    made["spec"]["region"] = region
    if not ready:
        made["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    return convert(Cluster, made)


def bound(name, replicas, group="a", **clusters):
    made = binding(deployment(name, replicas, by=BY), BY, **clusters)
    made["status"]["schedulerObservingAffinityName"] = group
    return made


def figures(*more):
    fleet = {each.name: each for each in (member("a", "eu"), member("b", "eu"), member("lost", "us", ready=False))}
    settings = binding(resource("settings", "ConfigMap", namespace="shop", data={}), BY, a=0)
    settings["spec"].pop("replicaRequirements", None)
    stored = [
        bound("one", 2, a=2), bound("two", 2, a=2), bound("both", 2, a=1, b=1), bound("later", 1, group="b", b=1),
        bound("gone", 3, lost=3), bound("less", 4, a=1), settings, *more,
    ]  # fmt: skip
    index, hosts = PlacedIndex(), hosts_of(fleet)
    for each in (convert(Binding, one) for one in stored):
        index.put(each.metadata.key, placed_workload(each))
    return fleet_figures(index.by_name(), known_outages(index, hosts), fleet, hosts, AMOUNTS_OF)


def test_workloads_by_what_is_wrong():
    assert figures().wrong == {Wrong.NO_COPY: 1, Wrong.SHORT: 1, Wrong.NOT_PREFERRED: 1, Wrong.MOVING: 0}


def test_a_workload_that_lacks_replicas_for_two_reasons_counts_once():
    found = figures(bound("few", 5, a=2, lost=1), bound("none", 4, lost=1)).wrong
    assert (found[Wrong.NO_COPY], found[Wrong.SHORT]) == (2, 2)


def test_the_worst_loss_counts_last_copies_of_workloads():
    assert figures().worst == {"cluster": ("a", 3), "region": ("eu", 5)}


def test_amounts_by_region_count_what_is_reported():
    found = figures()
    assert found.regions["eu"]["cpu"] == FleetAmount(12_000, 3000, 500)
    assert found.clusters["a"]["cpu"] == FleetAmount(8000, 2000, 500)


def value(metric, **labels):
    return REGISTRY.get_sample_value(f"berthmaster_extender_fleet_{metric}", labels)


def test_the_metrics_are_in_cores_and_a_region_that_left_has_nothing():
    metrics = FleetMetrics()
    metrics.show(figures())
    assert value("resources", **FREE) == 8.5
    assert value("workloads", problem="no_copy") == 1
    assert value("worst_loss_workloads", domain="region") == 5
    metrics.show(figures()._replace(regions={}))
    assert value("resources", **FREE) == 0
