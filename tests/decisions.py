"""Decisions from clusters and a binding, for tests of the scheduling engine."""

from collections.abc import Iterable
from typing import Any

from builders import binding, placement

from berthmaster.model.binding import Binding, BindingStatus
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import convert
from berthmaster.scheduling.decision import Decision
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.peers import Peers
from berthmaster.scheduling.profile import Profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler

DUPLICATED = {"replicaSchedulingType": "Duplicated"}
AGGREGATED = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}
WEIGHTED = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}
DYNAMIC = {**WEIGHTED, "weightPreference": {"dynamicWeight": "AvailableReplicas"}}


def static(*rules: tuple[str, int]) -> dict[str, Any]:
    """Return a weighted division by rules of a cluster name and a weight. An empty name matches every cluster."""
    listed = [{"targetCluster": {"clusterNames": [name]} if name else {}, "weight": weight} for name, weight in rules]
    return {**WEIGHTED, "weightPreference": {"staticWeightList": listed}}


def spread(field: str, least: int = 0, most: int = 0) -> dict[str, Any]:
    return {"spreadByField": field, "minGroups": least, "maxGroups": most}


def asked(
    *,
    observed: str = "",
    fresh: bool = False,
    scheduling: Any = None,
    spread: Any = (),
    groups: Any = None,
    **spec: Any,
) -> Binding:
    """Return a binding. ``groups`` are its clusterAffinities, ``observed`` is the observed group."""
    fields = {"replicaScheduling": scheduling, "spreadConstraints": list(spread), "clusterAffinities": groups}
    policy_fields = {name: spec.pop(name) for name in ("clusterAffinity", "clusterTolerations") if name in spec}
    given = {name: value for name, value in fields.items() if value is not None}
    status = {"schedulerObservingAffinityName": observed, "lastScheduledTime": "2026-01-01T00:00:00Z"}
    if fresh:
        spec["reschedule_triggered_at"] = convert(
            BindingStatus, {"lastScheduledTime": "2026-01-02T00:00:00Z"}
        ).last_scheduled_time
    return binding(placement=placement(**given, **policy_fields), status=convert(BindingStatus, status), **spec)


def schedule(
    clusters: Iterable[Cluster], workload: Binding, profile: Profile | None = None, peers: Peers | None = None
) -> Decision:
    return Scheduler(Fleet(clusters), profile or karmada_profile(), peers).schedule(Request.of(workload))


def outcome(decision: Decision) -> dict[str, int] | str:
    return decision.failure.kind.value if decision.failure else decision.assignment
