"""Conditions and events begin with the words of karmada-scheduler, so that alerts which match them keep working.

The words are from ``pkg/scheduler/framework/types.go``, its plugins, ``pkg/scheduler/core`` and
``pkg/scheduler/scheduler.go`` of Karmada.
"""

from typing import Any

import msgspec
from builders import binding, cluster, placement, quantities
from decisions import DYNAMIC, spread
from fake_clock import FakeClock
from tables import cases

from berthmaster.controllers.binding_scheduler.cluster_cache import ClusterCache
from berthmaster.deciding import writes
from berthmaster.deciding.failover import FailoverOptions
from berthmaster.model.binding import Component, GracefulEvictionTask, WorkloadAffinityGroups
from berthmaster.model.replicas import ReplicaRequirements
from berthmaster.scheduling.karmada.profile import built_in, karmada_profile

FITS = cluster("m1", cpu=4, region="r1")
ELSEWHERE = {"clusterAffinity": {"clusterNames": ["m9"]}}
TWO_CLUSTERS = [{"spreadByField": "cluster", "minGroups": 2, "maxGroups": 2}]
ONE_CLUSTER = [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]
TWO_REGIONS = [{"spreadByField": "region", "minGroups": 2, "maxGroups": 2}]
AVAILABLE = "0/1 clusters are available: 1 cluster(s) "
SELECT, ASSIGN = "failed to select clusters: ", "failed to assign replicas: "
NOT_ENOUGH = f"{SELECT}no enough resource when selecting 1 clusters"
SET = (Component("driver", 1, ReplicaRequirements(quantities({"cpu": 1}))),) * 2


def group(name: str, *clusters: str) -> dict[str, Any]:
    return {"affinityName": name, "clusterNames": list(clusters)}


def message(
    *clusters: Any,
    replicas: int = 3,
    evicted: str = "",
    components: tuple[Component, ...] = (),
    affinity: str = "",
    peer: str = "",
    **asks: Any,
) -> str:
    """The message of the condition after a binding with 1 core for each replica is decided.

    ``affinity``: the term of ``workloadAffinity`` whose group has a workload on the cluster ``peer``.
    """
    cache = ClusterCache(karmada_profile(built_in(workload_affinity=True)), FakeClock(), FailoverOptions())
    for each in clusters:
        cache.update_cluster(each)
    groups = WorkloadAffinityGroups(
        affinity_group="app=web" if affinity == "affinity" else "",
        anti_affinity_group="app=web" if affinity == "antiAffinity" else "",
    )
    if peer:
        cache.update_peers(binding("peer", clusters={peer: 1}, workload_affinity_groups=groups))
    asked = binding(replicas=replicas, placement=placement(**asks), requests={"cpu": "1"})
    tasks = (GracefulEvictionTask(from_cluster=evicted),) if evicted else ()
    spec = msgspec.structs.replace(
        asked.spec, graceful_eviction_tasks=tasks, components=components, workload_affinity_groups=groups
    )
    return cache.decide_and_assume(("default", "web"), msgspec.structs.replace(asked, spec=spec)).result.message


@cases(
    ("found", "begins"),
    {
        "scheduled": (message(FITS), "Binding has been scheduled successfully."),
        "no cluster": (message(), "0/0 clusters are available: no cluster exists."),
        "affinity": (message(FITS, **ELSEWHERE), AVAILABLE + "did not match the placement cluster affinity constraint"),
        "a taint": (message(cluster("m1", taints=["gpu:NoSchedule"])), AVAILABLE + "had untolerated taint"),
        "the kind": (message(cluster("m1", serves=())), AVAILABLE + "did not have the API resource"),
        "an eviction": (message(FITS, evicted="m1"), AVAILABLE + "is in the process of eviction"),
        "no region": (
            message(cluster("m1"), spreadConstraints=TWO_REGIONS), AVAILABLE + "did not have region property"
        ),
        "no zone": (message(FITS, spreadConstraints=[spread("zone", 1, 1)]), AVAILABLE + "did not have zones property"),
        "no provider": (
            message(FITS, spreadConstraints=[spread("provider", 1, 1)]), AVAILABLE + "did not have provider property"
        ),
        "an affinity group that is elsewhere": (
            message(FITS, cluster("m2"), peer="m9", affinity="affinity"),
            "0/2 clusters are available: 2 ResourceBinding with the same affinity group does not target this cluster",
        ),
        "an anti-affinity group that is there": (
            message(FITS, peer="m1", affinity="antiAffinity"),
            "0/1 clusters are available: 1 cluster already has workload with the same anti-affinity group",
        ),
        "two groups: as for the first": (
            message(FITS, clusterAffinities=[group("one", "m8"), group("two", "m9")]),
            AVAILABLE + "did not match the placement cluster affinity constraint",
        ),
        "too few clusters": (
            message(FITS, spreadConstraints=TWO_CLUSTERS),
            SELECT + "the number of feasible clusters is less than spreadConstraint.MinGroups",
        ),
        "too few regions": (
            message(FITS, spreadConstraints=TWO_REGIONS),
            SELECT + "the number of feasible region is less than spreadConstraint.MinGroups",
        ),
        "too few clusters in the regions": (
            message(FITS, spreadConstraints=[spread("region", 1, 1), spread("cluster", 2, 2)]),
            SELECT + "the number of clusters is less than the cluster spreadConstraint.MinGroups",
        ),
        "a spread by zone alone": (
            message(cluster("m1", zones=["z"]), spreadConstraints=[spread("zone", 1, 1)]),
            SELECT + "just support cluster and region spread constraint",
        ),
        "no cluster holds all": (
            message(FITS, replicas=9, spreadConstraints=ONE_CLUSTER, replicaScheduling=DYNAMIC),
            f"{NOT_ENOUGH}: 9 replicas are requested, but 1 cluster holds 4 at most",
        ),
        "no cluster holds a set of pods": (
            message(
                cluster("m1", cpu=1), replicas=0, components=SET,
                spreadConstraints=ONE_CLUSTER, replicaScheduling=DYNAMIC,
            ),
            f"{NOT_ENOUGH}: 1 set of pods is requested, but 1 cluster holds 0 at most",
        ),
        "too few available replicas": (
            message(FITS, replicas=9, replicaScheduling=DYNAMIC),
            ASSIGN + "Clusters available replicas 4 are not enough to schedule.",
        ),
        "too few with overflow": (
            message(
                FITS, cluster("m2", cpu=4), replicas=9, replicaScheduling=DYNAMIC,
                clusterAffinities=[{**group("one", "m1"), "overflowAffinities": [group("more", "m2")]}],
            ),
            ASSIGN + "Clusters available replicas are not enough to schedule.",
        ),
    },
)  # fmt: skip
def test_a_condition_begins_as_karmada_begins_it(found: str, begins: str) -> None:
    assert found.startswith(begins), found


def test_the_reasons_of_conditions_are_those_of_karmada() -> None:
    of_karmada = {"Success", "SchedulerError", "NoClusterFit", "Unschedulable", "QuotaExceeded"}  # work/v1alpha2
    ours = {writes.SUCCESS, writes.SCHEDULER_ERROR, writes.QUOTA_EXCEEDED, *writes.REASONS.values()}
    assert ours - of_karmada == {writes.TOO_LARGE}
    assert of_karmada <= ours
