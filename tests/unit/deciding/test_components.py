"""Workloads of several pod templates, and what counts until clusters report it."""

from typing import Any

import msgspec
from builders import binding, cluster, placement, quantities
from decisions import DYNAMIC, asked
from fake_clock import FakeClock
from tables import cases

from berthmaster.controllers.binding_scheduler.cluster_cache import ClusterCache
from berthmaster.controllers.estimators.queries import EstimatorQuery
from berthmaster.deciding.decide import BindingDecision
from berthmaster.deciding.failover import FailoverOptions
from berthmaster.deciding.writes import Version
from berthmaster.model.binding import Binding, Component, TargetCluster, TargetComponent
from berthmaster.model.replicas import ReplicaRequirements
from berthmaster.scheduling.karmada.profile import karmada_profile

KEY = "default", "job"
ONE_CLUSTER = [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]
PODS = (
    Component("driver", 1, ReplicaRequirements(quantities({"cpu": 1}))),
    Component("worker", 3, ReplicaRequirements(quantities({"cpu": 2}))),
)
WRITTEN = (TargetComponent("driver", 1), TargetComponent("worker", 3))


def job(name: str = "job", **fields: Any) -> Binding:
    """A binding of a workload of 4 pods and 7 cores, in two templates. One cluster gets it as a whole."""
    given = {"replicaScheduling": DYNAMIC, "spreadConstraints": ONE_CLUSTER}
    made = binding(name=name, replicas=0, placement=placement(**given), **fields)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, components=PODS))


def cache(
    *, component_sets: bool = True, ask: Any = None, clock: FakeClock | None = None, **options: Any
) -> ClusterCache:
    """A cache of two clusters, with 20 and 30 cores."""
    profile = karmada_profile(component_sets=component_sets)
    made = ClusterCache(profile, clock or FakeClock(), FailoverOptions(300.0), ask, **options)
    made.update_cluster(cluster("small", cpu=20))
    made.update_cluster(cluster("large", cpu=30))
    return made


def free_cores(clusters: ClusterCache, name: str) -> int:
    fleet = clusters._scheduler.fleet  # noqa: SLF001 - what is free is visible in decisions only
    return int(fleet.resources.free("cpu")[fleet.row_of[name]]) // 1000


def listed(decision: BindingDecision) -> list[tuple[str, tuple[TargetComponent, ...]]]:
    return [(each.name, each.components) for each in decision.write.clusters or ()]


def test_a_set_goes_to_one_cluster_with_its_components_and_counts_there():
    clusters = cache()
    assert listed(clusters.decide_and_assume(KEY, job())) == [("large", WRITTEN)]
    assert (free_cores(clusters, "large"), free_cores(clusters, "small")) == (23, 20)


def test_a_burst_of_sets_stops_where_no_complete_set_fits():
    clusters = cache()
    decisions = [clusters.decide_and_assume(("default", f"job{n}"), job(f"job{n}")) for n in range(7)]
    assert [sorted(each.clusters or ()) for each in decisions] == [
        ["large"], ["large"], ["large"], ["small"], ["large"], ["small"], [],
    ]  # fmt: skip
    assert "1 set of pods is requested" in decisions[-1].result.message


def test_an_observed_set_stays_assumed_until_it_is_healthy_or_gone():
    clusters = cache()
    decision = clusters.decide_and_assume(KEY, job())
    written = decision.write.applied(decision.binding, Version("2", 2))
    clusters.observe(KEY, written)
    assert free_cores(clusters, "large") == 23
    clusters.forget(KEY, ["large"])
    assert free_cores(clusters, "large") == 30


def test_components_of_a_stored_assignment_are_corrected_if_they_are_outdated():
    def write(*components: TargetComponent) -> Any:
        stored = job(clusters={"large": 0})
        target = TargetCluster("large", 0, components)
        stored = msgspec.structs.replace(stored, spec=msgspec.structs.replace(stored.spec, clusters=(target,)))
        return cache().decide_and_assume(KEY, stored).write.clusters

    assert write(TargetComponent("driver", 9)) == (TargetCluster("large", 0, WRITTEN),)
    assert write() is None, "an API without the field would drop it again and again"
    assert write(*WRITTEN) is None


def test_a_lost_cluster_is_replaced_by_one_with_room_for_a_set():
    clock = FakeClock()
    clusters = cache(clock=clock)
    clusters.update_cluster(cluster("large", cpu=30, ready=False))
    clock.pass_by(301)
    decision = clusters.decide_and_assume(KEY, job(clusters={"large": 0}))
    assert listed(decision) == [("small", WRITTEN)]


def test_without_the_gate_sets_do_not_count():
    clusters = cache(component_sets=False)
    for name in ("small", "large"):
        clusters.update_cluster(cluster(name, cpu=1, pods=2 if name == "small" else 3))
    assert listed(clusters.decide_and_assume(KEY, job())) == [("large", ())]


def test_estimators_are_asked_about_sets_and_their_answers_are_reduced_by_assumed_sets():
    queries: list[EstimatorQuery] = []

    def ask(query: EstimatorQuery) -> dict[str, int]:
        queries.append(query)
        return {"small": 2, "large": 1}

    clusters = cache(ask=ask)
    first, second, third = (clusters.decide_and_assume(("default", name), job(name)) for name in ("a", "b", "c"))
    assert [sorted(each.clusters or ()) for each in (first, second, third)] == [["small"], ["large"], ["small"]]
    assert queries[0].content == (PODS, "default")


@cases(("protected", "free"), {"on": (True, 24), "off": (False, 30)})
def test_the_gate_of_overcommit_protection(protected, free):
    clusters = cache(overcommit_protection=protected)
    web = asked(
        name="web", replicas=6, requests={"cpu": 1}, scheduling=DYNAMIC, clusterAffinity={"clusterNames": ["large"]}
    )
    clusters.decide_and_assume(("default", "web"), web)
    assert free_cores(clusters, "large") == free
    assert clusters.assumed_count() == int(protected)
