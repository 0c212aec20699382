"""Why a workload does not run on a cluster: the smallest change under which it would, confirmed by deciding again."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, combinations
from typing import Final

import msgspec

from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import InputError, name_list
from berthmaster.scheduling.diagnosis import explain
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.simulation.remedies import (
    Case,
    NumberField,
    Remedy,
    capacity_field,
    filter_remedies,
    first_group,
    multiplies_capacity,
    replica_fields,
    rescheduled,
    spread_fields,
    terms_of,
    weight_fields,
)
from berthmaster.simulation.run import WorkloadResult
from berthmaster.simulation.workload import NotScheduled

_MOST_GROUPS: Final = 64
_MOST_CHANGES: Final = 64
_MOST_SHOWN: Final = 5
_SLACK: Final = 1
"""How many more changes than the smallest set so far are tried: some of them may turn out to be unnecessary."""
_EDITS: Final = frozenset({"affinity", "label", "location", "weight"})
_OF_THE_CLUSTER: Final = frozenset({"capacity", "eviction", "kind", "label", "location", "taint"})
"""Changes after which Karmada does not schedule a divided workload again that has its replicas."""


class WhyNot(msgspec.Struct, frozen=True, rename="camel"):
    """Why a workload does not run on a cluster.

    Attributes:
        taken: whether a decision takes the cluster without any change.
        reasons: why not: for each group that was tried, what rejected the cluster or preferred others.
        changes: the smallest set of changes that was found; empty if none helps or none is needed.
        clusters: the replicas by cluster after the changes; the decision without changes if none were found.
        unknown: what was not tried, and what no change of this kind can help. One sentence each.
    """

    cluster: str
    taken: bool
    reasons: list[str]
    changes: list[str]
    clusters: dict[str, int]
    unknown: list[str] = []
    alternatives: list[list[str]] = []


def request_of(result: WorkloadResult) -> Request:
    """Return the request of a workload that was examined.

    Raises:
        InputError: no scheduler places the workload. The message says why.
    """
    binding = result.workload.binding
    unscheduled = result.unscheduled
    if binding is None or (unscheduled is not None and unscheduled.reason is not NotScheduled.NOT_RETRIED):
        reason = unscheduled.message if unscheduled is not None else "it has no binding"
        raise InputError(f"no scheduler places {result.workload}: {reason}")
    return Request.of(binding)


def why_not(
    scheduler: Scheduler, request: Request, cluster: str, check: Callable[[], None] = lambda: None, *, due: bool = True
) -> WhyNot:
    """Find the smallest change under which a workload would be on a cluster.

    Tries changes of the cluster and of the workload, alone and together: taints, labels, names, kinds, evictions,
    locations, capacity, group order, replicas, spread constraints, rescheduling. The answer is confirmed: the changed
    decision takes the cluster, and no part of the change can be left out.

    Args:
        scheduler: decides. Its fleet is changed and restored.
        due: whether something triggers scheduling. Otherwise the workload stays where it is until something does.
    """
    found = scheduler.fleet.get(cluster)
    if found is None:
        known = name_list(sorted(scheduler.fleet.row_of))
        raise InputError(f"there is no cluster {cluster!r}; known are {known}")
    search = Search(scheduler, request, found, check)
    decided = search.assignment(())
    if cluster in decided:
        if not due and cluster not in request.current:
            return _not_due(search, request, cluster)
        return WhyNot(cluster, taken=True, reasons=[], changes=[], clusters=decided)
    reasons = [*_held(request, cluster, due=due), *search.reasons()]
    unknown = _limits(found)
    smallest = search.smallest()
    if not smallest:
        unknown.append("no combination of the changes that were tried helps")
        return WhyNot(cluster, taken=False, reasons=reasons, changes=[], clusters=decided, unknown=unknown)
    if not due and {each.kind for each in smallest[0]} <= _OF_THE_CLUSTER:
        unknown.append(f"the changes alone do not trigger scheduling: then {rescheduled().text}")
    best, *others = [[each.text for each in remedies] for remedies in smallest]
    return WhyNot(
        cluster, taken=False, reasons=reasons, changes=best, clusters=search.assignment(smallest[0]), unknown=unknown,
        alternatives=others,
    )  # fmt: skip


def _held(request: Request, cluster: str, *, due: bool) -> list[str]:
    """Return what happens to the replicas that a cluster has, if the next decision does not take it."""
    if cluster not in request.current:
        return []
    follows = "the next scheduling removes it" if due else "it stays until something triggers scheduling"
    return [f"{cluster} has the workload now (replicas: {request.current[cluster]}), and {follows}"]


def _not_due(search: "Search", request: Request, cluster: str) -> WhyNot:
    """Return the answer for a cluster that the next decision takes, if nothing triggers this decision."""
    reasons = [f"nothing triggers scheduling: the workload stays on {', '.join(request.current) or 'no cluster'}"]
    anew = search.assignment([rescheduled()])
    if cluster in anew:
        return WhyNot(cluster, taken=False, reasons=reasons, changes=[rescheduled().text], clusters=anew)
    unknown = [f"a decision that something else triggers would take {cluster}"]
    return WhyNot(cluster, taken=False, reasons=reasons, changes=[], clusters=request.current, unknown=unknown)


def _preference(remedies: Sequence[Remedy]) -> tuple[int, int, int]:
    """Order equally small sets: more replicas come last, and before them what concerns other workloads.

    Of the others, a change of the workload comes before one of the cluster, which its owner often cannot make.
    """
    kinds = [each.kind for each in remedies]
    of_cluster = sum(each in _OF_THE_CLUSTER for each in kinds)
    return kinds.count("more replicas"), sum(each in _EDITS for each in kinds), of_cluster


def _limits(cluster: Cluster) -> list[str]:
    return [f"{cluster.name} is being deleted; no change helps"] if cluster.deleting else []


class Search:
    """Tries changes on one workload and one cluster."""

    def __init__(self, scheduler: Scheduler, request: Request, cluster: Cluster, check: Callable[[], None]) -> None:
        self._scheduler = scheduler
        self._check = check
        self._case = Case(request, cluster)
        self._least = _MOST_CHANGES

    def assignment(self, remedies: Sequence[Remedy]) -> dict[str, int]:
        """Return the decision after changes."""
        self._check()
        case = self._case
        for remedy in remedies:
            case = remedy.applied(case)
        fleet = self._scheduler.fleet
        fleet.apply(case.cluster)
        try:
            return self._scheduler.schedule(case.request).assignment
        finally:
            fleet.apply(self._case.cluster)

    def reasons(self) -> list[str]:
        """Return why the cluster is not taken, one sentence for each group that was tried."""
        request, name = self._case.request, self._case.cluster.name
        diagnosis = explain(self._scheduler, request, self._scheduler.schedule(request))
        found = []
        for group in diagnosis.groups:
            prefix = f"group {group.group}: " if group.group else ""
            for each in group.clusters:
                if each.cluster == name:
                    why = "; ".join(f"{name} {rejection.reason}" for rejection in each.rejections) or each.reason
                    found.append(f"{prefix}{why}")
        if diagnosis.untried:
            found.append(f"not tried, because a group before fits: {', '.join(diagnosis.untried)}")
        return found

    def smallest(self) -> list[list[Remedy]]:
        """Return the smallest sets of changes that help, those that a user can make and edit few selectors first."""
        found: dict[tuple[str, ...], list[Remedy]] = {}
        terms = terms_of(self._case.request.placement)[:_MOST_GROUPS] or (None,)
        for position, term in enumerate(terms):
            needed = filter_remedies(self._case, term)
            for more in self._additions(needed, position):
                if len(needed) + len(more) <= self._least + _SLACK and self._takes([*needed, *more]):
                    reduced = self._narrowed(self._nearest(self._reduced([*needed, *more])))
                    self._least = min(self._least, len(reduced))
                    found.setdefault(tuple(sorted(each.text for each in reduced)), reduced)
        smallest = [each for each in found.values() if len(each) == self._least]
        modest = [each for each in smallest if not any(multiplies_capacity(self._case, remedy) for remedy in each)]
        return sorted(modest or smallest, key=_preference)[:_MOST_SHOWN]

    def _takes(self, remedies: Sequence[Remedy]) -> bool:
        return self._case.cluster.name in self.assignment(remedies)

    def _reduced(self, remedies: list[Remedy]) -> list[Remedy]:
        """Return the remedies without those that can be left out."""
        for remedy in list(remedies):
            fewer = [each for each in remedies if each is not remedy]
            if self._takes(fewer):
                remedies = fewer
        return remedies

    def _nearest(self, remedies: list[Remedy]) -> list[Remedy]:
        """Return the remedies with each number as near to its present value as the others allow."""
        while True:
            before = [each.value for each in remedies]
            for index, remedy in enumerate(remedies):
                if remedy.field is not None:
                    others = [*remedies[:index], *remedies[index + 1 :]]
                    remedies[index] = self._bisected(
                        others, remedy.field, 0, abs(remedy.value - remedy.field.now), self._takes
                    )
            if before == [each.value for each in remedies]:
                return remedies

    def _narrowed(self, remedies: list[Remedy]) -> list[Remedy]:
        """Return the remedies, of which a capacity has only the resources that are needed."""
        for index, remedy in enumerate(remedies):
            for part in remedy.field.parts if remedy.field is not None else ():
                fewer = [*remedies[:index], part.at(remedy.value), *remedies[index + 1 :]]
                if self._takes(fewer):
                    remedies = fewer
                    break
        return remedies

    def _additions(self, needed: list[Remedy], position: int) -> Iterator[list[Remedy]]:
        """Yield what may be needed beside the filters of a group, the smallest additions first."""
        yield []
        placement = self._case.request.placement
        order = first_group(placement, position)
        basic = [*([] if order is None else [order]), rescheduled()]
        yield from ([each] for each in basic)
        spreads = list(spread_fields(placement, len(self._scheduler.fleet)))
        fields = [*spreads, *weight_fields(placement, self._case.cluster.name)]
        for start in chain([[]], ([each] for each in basic)):
            if len(needed) + len(start) + 1 > self._least:
                continue  # these searches take many decisions
            for field in (*replica_fields(self._case), *fields, capacity_field(self._case)):
                if (found := self._helping([*needed, *start], field)) is not None:
                    yield [*start, found]
        farthest = [each.at(each.distance) for each in fields]
        for one, other in combinations(farthest, 2):
            if len(needed) + 2 <= self._least and one.field is not other.field:
                yield [one, other]
        for one in farthest:
            for field in (capacity_field(self._case), *replica_fields(self._case)):
                if len(needed) + 2 <= self._least and (found := self._helping([*needed, one], field)):
                    yield [one, found]

    def _helping(self, before: list[Remedy], field: NumberField) -> Remedy | None:
        """Return the value of a number nearest to the present one that helps; None if none does."""
        helps = self._takes
        if field.kind == "replicas" and not self.assignment(before):
            helps = self._fits  # fewer replicas than fit may all go to other clusters
        useless, distance = 0, 1
        while not helps([*before, field.at(min(distance, field.distance))]):
            if distance >= field.distance:
                return None
            useless, distance = distance, distance * 4
        found = self._bisected(before, field, useless, min(distance, field.distance), helps)
        return found if self._takes([*before, found]) else None

    def _fits(self, remedies: Sequence[Remedy]) -> bool:
        return bool(self.assignment(remedies))

    def _bisected(
        self,
        before: list[Remedy],
        field: NumberField,
        useless: int,
        helping: int,
        helps: Callable[[Sequence[Remedy]], bool],
    ) -> Remedy:
        """Return the nearest value that helps, between a distance that does not help and one that does."""
        while helping - useless > 1:
            middle = (helping + useless) // 2
            if helps([*before, field.at(middle)]):
                helping = middle
            else:
                useless = middle
        return field.at(helping)
