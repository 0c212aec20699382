"""Bursts of bindings of all strategies, and the checks of their results."""

import concurrent.futures
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

import msgspec.structs
from e2e import karmada
from e2e.api import Api
from e2e.control_plane import ControlPlane
from e2e.karmada import assigned, binding, cluster, condition
from e2e.manifests import JSON, unique

from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import convert
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.karmada.trigger import Trigger, trigger_of
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler

REPLICAS: Final = 3
GROUP: Final = "large"
"""The group that every binding ends in: each cluster of the first group is tainted or too small."""
_WRITERS: Final = 4
_OTHERS: Final = "example.org/others"
_HEALTH: Final = {"type": "FullyApplied", "status": "True", "reason": "Applied", "message": "by another controller"}
# What one of them holds beyond the others is what a scheduler that forgets its burst gives away twice.
_SHARES: Final = (0.6, 0.3, 0.25)


@dataclass(frozen=True)
class Burst:
    """Bindings that were made at once.

    Attributes:
        namespace: where they are.
        scheduler_name: who has to schedule them.
        capacity: for each cluster that several bindings share, how many replicas it holds.
        strategies: the strategy of each binding by its name.
    """

    namespace: str
    scheduler_name: str
    capacity: Mapping[str, int]
    strategies: Mapping[str, str] = field(default_factory=dict)

    def found(self, api: Api) -> list[JSON]:
        return api.list(karmada.BINDINGS, "ResourceBinding", self.namespace)

    def finished(self, api: Api) -> int:
        return sum("lastScheduledTime" in each.get("status", {}) for each in self.found(api))


def weights(*groups: tuple[str, list[str]], preference: str, static: Mapping[str, int] | None = None) -> JSON:
    """A placement that divides replicas, over the first group that holds them."""
    placement = karmada.divided(*groups)
    scheduling = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": preference}
    if static:
        listed = [{"targetCluster": {"clusterNames": [name]}, "weight": weight} for name, weight in static.items()]
        scheduling["weightPreference"] = {"staticWeightList": listed}
    return {**placement, "replicaScheduling": scheduling}


def make(plane: ControlPlane, namespace: str, scheduler_name: str, count: int) -> Burst:
    """Create a fleet and ``count`` bindings over it, of four strategies in turn."""
    api, shared = plane.api, -(-count // 4) * REPLICAS
    tainted = karmada.join(api, cluster(taints=[{"key": "broken", "effect": "NoSchedule"}]))["metadata"]["name"]
    tiny = karmada.join(api, cluster(cpu=str(REPLICAS - 1)))["metadata"]["name"]
    roomy = [karmada.join(api, cluster(cpu="100000"))["metadata"]["name"] for _ in range(2)]
    capacity = {unique("dynamic"): int(share * shared) for share in _SHARES} | {
        unique("aggregated"): int(share * shared) for share in _SHARES
    }
    for name, cpu in capacity.items():
        karmada.join(api, cluster(name, str(cpu)))
    dynamic, aggregated = list(capacity)[:3], list(capacity)[3:]
    duplicated = karmada.divided(("small", [tainted]), (GROUP, roomy))
    placements = {
        "duplicated": {**duplicated, "replicaScheduling": {"replicaSchedulingType": "Duplicated"}},
        "static": weights(
            ("small", [tainted]), (GROUP, roomy), preference="Weighted", static={roomy[0]: 2, roomy[1]: 1}
        ),
        "dynamic": karmada.divided(("small", [tiny]), (GROUP, dynamic)),
        "aggregated": weights(("small", [tiny]), (GROUP, aggregated), preference="Aggregated"),
    }

    def one(number: int) -> tuple[str, str]:
        strategy = list(placements)[number % len(placements)]
        wanted = binding(namespace, placements[strategy], replicas=REPLICAS, schedulerName=scheduler_name)
        wanted["metadata"]["annotations"] = {_OTHERS: "stays"}
        made = api.create(wanted).object
        api.patch(made, {"status": {"conditions": [_health()]}}, subresource="status")
        return str(made["metadata"]["name"]), strategy

    with concurrent.futures.ThreadPoolExecutor(_WRITERS) as writers:
        return Burst(namespace, scheduler_name, capacity, dict(writers.map(one, range(count))))


def _health() -> JSON:
    return {**_HEALTH, "lastTransitionTime": "2026-01-01T00:00:00Z"}


def judge(api: Api, burst: Burst) -> None:
    """Check that every binding is scheduled exactly as the engine decides, with status and annotations."""
    scheduler = Scheduler(_fleet(api), karmada_profile())
    found = burst.found(api)
    assert {each["metadata"]["name"] for each in found} == set(burst.strategies)
    for each in found:
        _judge_words(each)
        _judge_assignment(scheduler, each, burst.strategies[each["metadata"]["name"]])
    taken: Counter[str] = Counter()
    for each in found:
        taken.update(assigned(each))
    overfull = {name: (taken[name], limit) for name, limit in burst.capacity.items() if taken[name] > limit}
    assert not overfull, f"clusters were given more replicas than they hold: {overfull}"


def _fleet(api: Api) -> Fleet:
    fleet = Fleet()
    for each in api.list(karmada.CLUSTERS, "Cluster"):
        fleet.apply(convert(Cluster, each))
    return fleet


def _judge_words(found: JSON) -> None:
    """Check the binding's status and annotations, also those of other clients."""
    status, annotations = found["status"], found["metadata"]["annotations"]
    assert status["schedulerObservedGeneration"] == found["metadata"]["generation"]
    assert status["schedulerObservingAffinityName"] == GROUP
    assert "lastScheduledTime" in status
    assert (condition(found)["status"], condition(found)["reason"]) == ("True", "Success")
    assert {each["type"] for each in status["conditions"]} == {"FullyApplied", "Scheduled"}
    assert annotations[_OTHERS] == "stays"


def _judge_assignment(scheduler: Scheduler, found: JSON, strategy: str) -> None:
    decoded = convert(Binding, found)
    if strategy != "duplicated":  # that is scheduled at every event, as in Karmada
        assert trigger_of(decoded, scheduler.fleet) is Trigger.NONE
    if strategy in {"duplicated", "static"}:
        unassigned = msgspec.structs.replace(decoded.spec, clusters=())
        decision = scheduler.schedule(Request.of(msgspec.structs.replace(decoded, spec=unassigned)))
        assert (decision.group, assigned(found)) == (GROUP, decision.assignment)
    else:
        assert sum(assigned(found).values()) == REPLICAS


@dataclass(frozen=True)
class Writes:
    """The writes that the API server received for the bindings of a burst.

    Attributes:
        assignments, statuses: by binding, how many writes to it, and to its status, were carried out.
        refused: how many writes were not carried out, by HTTP status and binding.
    """

    assignments: Counter[str]
    statuses: Counter[str]
    refused: Counter[tuple[int, str]]

    @property
    def conflicts(self) -> dict[str, int]:
        """The number of conflicting writes by binding, after another client's write or a lost answer."""
        return {name: count for (code, name), count in self.refused.items() if code == HTTPStatus.CONFLICT}


def writes_of(events: Sequence[Mapping[str, Any]], namespace: str, user: str) -> Writes:
    """The writes of a user to the bindings of a namespace, from the audit log."""
    counted = Writes(Counter(), Counter(), Counter())
    for event in events:
        target = event["objectRef"]
        if target.get("namespace") != namespace or event["user"]["username"] != user:
            continue
        code = event.get("responseStatus", {}).get("code", 0)
        if code not in range(200, 300):
            counted.refused[code, target["name"]] += 1
        elif target.get("subresource") == "status":
            counted.statuses[target["name"]] += 1
        else:
            counted.assignments[target["name"]] += 1
    return counted
