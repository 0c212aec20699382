"""Why a workload does not run on a cluster: the smallest changes under which it would, confirmed by deciding again.

Each candidate is a list of changes of a simulation. They are applied to the world, and the scheduler decides as it does
in every simulation. An answer is complete: what it lists is enough, and no part of it can be left out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import combinations
from typing import Final

import msgspec
from msgspec.structs import replace

from berthmaster.deciding.move_course import ended
from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import InputError, name_list
from berthmaster.model.placement import Placement
from berthmaster.scheduling.diagnosis import ClusterDiagnosis, Outcome, cluster_remedies, explain_cluster
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.simulation.remedies import (
    NumberField,
    Remedy,
    RemedyKind,
    capacity_fields,
    division_remedies,
    filter_remedies,
    first_group,
    only_name,
    replica_fields,
    request_fields,
    rescheduled,
    spread_fields,
    weight_fields,
)
from berthmaster.simulation.results import WorkloadResult
from berthmaster.simulation.scheduling_cycle import schedule_one
from berthmaster.simulation.workload import NotScheduled, SimulatedWorkload
from berthmaster.simulation.world import World

_MOST_GROUPS: Final = 64
_MOST_CHANGES: Final = 64
_MOST_SHOWN: Final = 5
_EACH_DISTANCE: Final = 64
"""Up to this distance each value of a number is tried, once one helps. Farther ones are bisected."""
_NONE_HELPS: Final = (
    "no small change would: no label, taint, name, group order, bound, weight, request, capacity or number of replicas "
    "between half and twice the present one brings it there"
)
_OF_CLUSTER: Final = frozenset({
    RemedyKind.LABEL, RemedyKind.TAINT, RemedyKind.CAPACITY, RemedyKind.LOCATION, RemedyKind.SERVED_KIND,
})  # fmt: skip
"""What changes the cluster for all workloads."""
_SHARED: Final = (
    "the changes let other workloads use {}, too, and these can take its room first; "
    "`berthmaster simulate` decides all workloads"
)


class WhyNot(msgspec.Struct, frozen=True, rename="camel"):
    """Why a workload does not run on a cluster.

    Attributes:
        taken: whether a decision takes the cluster without any change.
        reasons: why not: for each group, in order, what rejects the cluster or prefers others.
        changes: the smallest set of changes that was found; empty if none helps or none is needed.
        clusters: the replicas by cluster after the changes; the decision without changes if none were found.
        unknown: what was not tried, and what no change of this kind can help. One sentence each.
        alternatives: other sets that are as small. Each one is complete.
    """

    cluster: str
    taken: bool
    reasons: list[str]
    changes: list[str]
    clusters: dict[str, int]
    unknown: list[str] = []
    alternatives: list[list[str]] = []


Decides = Callable[[World], Mapping[str, int]]
"""Returns the replicas by cluster of the only workload of a world, whose clusters are those of the scheduler."""


@dataclass(frozen=True, slots=True)
class WhyNotQuestion:
    """A workload and the fleet that it could run on.

    Attributes:
        world: the clusters, the policies and the workload alone, after all that is due anyway.
        scheduler: a scheduler of the clusters of the world. The search changes its fleet, and restores it.
        request: what the scheduler is asked for the workload.
        before: where the workload is now; empty if that is not known.
        decides: decides again after changes.
        is_settled: whether nothing triggers a scheduling of the workload.
    """

    world: World
    scheduler: Scheduler
    request: Request
    before: Mapping[str, int]
    decides: Decides
    is_settled: bool
    now: datetime

    @property
    def workload(self) -> SimulatedWorkload:
        return self.world.workloads[0]

    @property
    def binding(self) -> Binding:
        binding = self.workload.binding
        if binding is None:
            raise InputError(f"no scheduler places {self.workload}: it has no binding")
        return binding


def question_of(
    scheduler: Scheduler, world: World, before: SimulatedWorkload, settled: WorkloadResult, now: datetime
) -> WhyNotQuestion:
    """Return the question about a workload of a world.

    Args:
        before: the workload as it is now.
        settled: the result of what is due for it.

    Raises:
        InputError: no scheduler places the workload. The message says why.
    """
    workload, unscheduled = settled.workload, settled.unscheduled
    binding = workload.binding
    if binding is None or (unscheduled is not None and unscheduled.reason is not NotScheduled.NOT_RETRIED):
        reason = unscheduled.message if unscheduled is not None else "it has no binding"
        raise InputError(f"no scheduler places {workload}: {reason}")
    policies = [each.policy for each in workload.claims]
    alone, later = replace(world, workloads=(workload,), policies=policies), now + timedelta(seconds=1)
    request = Request.of(ended(scheduler, binding, now, world.assumptions.scheduler))

    def decides(world: World) -> Mapping[str, int]:
        (changed,) = world.workloads
        found = schedule_one(scheduler, changed, later, world, diagnose="none").assignment
        scheduler.peers.place(request, request.current)
        return found

    present = before.binding.assignment if before.present and before.binding is not None else {}
    return WhyNotQuestion(alone, scheduler, request, present, decides, settled.decision is None, later)


def why_not(question: WhyNotQuestion, cluster: str, check: Callable[[], None] = lambda: None) -> WhyNot:
    """Find the smallest change under which a workload would be on a cluster.

    Tries changes of the cluster, the policy and the template, alone and together (``remedies``).

    Args:
        check: called before each decision; an exception that it raises ends the search.
    """
    found = question.scheduler.fleet.get(cluster)
    if found is None:
        known = name_list(sorted(question.scheduler.fleet.row_of))
        raise InputError(f"there is no cluster {cluster!r}; known are {known}")
    search = Search(question, found, check)
    decided = search.assignment(())
    if cluster in decided:
        return WhyNot(cluster, taken=True, reasons=[], changes=[], clusters=dict(decided))
    reasons = _reasons(question, found)
    smallest = [] if (helpless := _helpless(question, found)) else search.smallest()
    if not smallest:
        unknown = [helpless or _NONE_HELPS]
        return WhyNot(cluster, taken=False, reasons=reasons, changes=[], clusters=dict(decided), unknown=unknown)
    best, *others = [[each.text for each in remedies] for remedies in smallest]
    clusters = dict(search.assignment(smallest[0]))
    unknown = [_SHARED.format(cluster)] if any(lets_others_in(question, each) for each in smallest) else []
    return WhyNot(
        cluster, taken=False, reasons=reasons, changes=best, clusters=clusters, unknown=unknown, alternatives=others
    )


def lets_others_in(question: WhyNotQuestion, remedies: Sequence[Remedy]) -> bool:
    """Return whether other workloads can take the room of the cluster after changes.

    The search decides the workload alone. In a simulation of all workloads, a scheduler that deducts what it has
    decided may give the room to others first.
    """
    deducts = question.world.rules_of(question.binding).deducts
    return deducts and question.request.divides_replicas and any(each.kind in _OF_CLUSTER for each in remedies)


def _helpless(question: WhyNotQuestion, cluster: Cluster) -> str:
    """Return why no change helps that the search knows; empty if one may."""
    if cluster.deleting:
        return f"{cluster.name} is being deleted; no change helps"
    if question.request.divides_replicas and not question.request.replicas:
        return "the workload has 0 replicas; no cluster gets one before it is scaled up"
    return ""


def _reasons(question: WhyNotQuestion, cluster: Cluster) -> list[str]:
    """Return why a cluster is not taken: one sentence for each group, in order, and what holds for all of them."""
    request, scheduler, name = question.request, question.scheduler, cluster.name
    found = []
    if name in question.before:
        replicas = question.before[name]
        found.append(f"{name} has the workload now (replicas: {replicas}), and the next scheduling removes it")
    elif question.is_settled:
        found.append(
            f"nothing triggers scheduling: the workload stays on {name_list(list(request.current)) or 'no cluster'}"
        )
    decision = scheduler.schedule(request)
    tried = [each.group for each in decision.attempts]
    attempts = scheduler.attempts(request, _MOST_GROUPS)
    groups = [each.group for each in attempts]
    start = groups.index(tried[0]) if tried and tried[0] in groups else 0
    for position, attempt in enumerate(attempts):
        why = _why(explain_cluster(scheduler, request, attempt, cluster))
        group = attempt.group.name
        if not group:
            found.append(why)
        elif position < start:
            found.append(f"group {group}: {why} (not tried: the workload is in group {groups[start].name})")
        elif attempt.group not in tried:
            found.append(f"group {group}: {why} (not tried: group {tried[-1].name or ''} fits)" if tried else why)
        else:
            found.append(f"group {group}: {why}")
    return found


def _why(found: ClusterDiagnosis) -> str:
    if found.rejections:
        return "; ".join(f"{found.cluster} {each.reason}" for each in found.rejections)
    return f"{found.cluster} would get it" if found.outcome is Outcome.ASSIGNED else found.reason


class Search:
    """Tries changes on one workload and one cluster."""

    def __init__(self, question: WhyNotQuestion, cluster: Cluster, check: Callable[[], None] = lambda: None) -> None:
        self._question = question
        self._cluster = cluster
        self._check = check
        self._least = _MOST_CHANGES
        self._reschedule = rescheduled(question.workload)

    def assignment(self, remedies: Sequence[Remedy]) -> Mapping[str, int]:
        """Return where the workload goes after changes: the replicas by cluster."""
        self._check()
        question, name = self._question, self._cluster.name
        world = question.world
        for remedy in remedies:
            world = remedy.change.applied(world, question.now)
        fleet = question.scheduler.fleet
        fleet.apply(world.clusters[name])
        try:
            return question.decides(world)
        finally:
            fleet.apply(self._cluster)

    def smallest(self) -> list[list[Remedy]]:
        """Return the smallest sets of changes that help, in the order in which people prefer them."""
        found: dict[tuple[str, ...], list[Remedy]] = {}
        question, placement = self._question, self._placement
        groups = question.scheduler.compile(question.request.placement).groups[:_MOST_GROUPS]
        for position, group in enumerate(groups):
            facts = cluster_remedies(question.scheduler, question.request, group, self._cluster)
            if facts is None:
                continue
            needed = filter_remedies(facts, question.workload.name, placement, self._cluster.name, position)
            for remedies in self._candidates(needed, position):
                reduced = self._narrowed(self._nearest(self._reduced(remedies)))
                self._least = min(self._least, _size(reduced))
                found.setdefault(tuple(sorted(each.text for each in reduced)), _ordered(reduced))
        smallest = [each for each in found.values() if _size(each) == self._least]
        return sorted(smallest, key=_preference)[:_MOST_SHOWN]

    @property
    def _placement(self) -> Placement:
        return self._question.binding.spec.placement or Placement()

    def _takes(self, remedies: Sequence[Remedy]) -> bool:
        return self._cluster.name in self.assignment(remedies)

    def _candidates(self, needed: list[Remedy], position: int) -> Iterator[list[Remedy]]:
        """Yield the sets that help in a group: what its filters need, with further changes and a rescheduling."""
        order = first_group(self._question.workload.name, self._placement, position)
        ends = [[], [self._reschedule], *([] if order is None else [[order], [order, self._reschedule]])]
        for end in ends:
            if self._may_be_smallest([*needed, *end]) and self._takes([*needed, *end]):
                yield [*needed, *end]
                break
        resource = self._question.workload.name
        fields, divisions = self._fields(), list(division_remedies(resource, self._placement))
        only = only_name(resource, self._placement, position, self._cluster.name)
        unnamed = [each for each in needed if each.kind is not RemedyKind.NAME]
        for end in ends:
            for some, remedy in [*((needed, each) for each in divisions), (unnamed, only)]:
                together = [*some, remedy, *end]
                if self._may_be_smallest(together) and self._takes(together):
                    yield together
            if not self._may_be_smallest([*needed, *end], more=1):
                continue  # these searches take many decisions
            for field in fields:
                if (least := self._least_helping([*needed, *end], field)) is not None:
                    yield [*needed, least, *end]
        yield from self._pairs(needed, fields)

    def _fields(self) -> list[NumberField]:
        question, resource = self._question, self._question.workload.name
        placement, fleet = self._placement, question.scheduler.fleet
        fields = [*spread_fields(resource, placement, len(fleet))]
        if question.request.divides_replicas:
            fields += weight_fields(resource, placement, self._cluster.name)
            fields += request_fields(resource, question.binding)
            fields += replica_fields(resource, question.binding)
        return [*fields, *capacity_fields(dict(question.request.requests or ()), self._cluster)]

    def _pairs(self, needed: list[Remedy], fields: Sequence[NumberField]) -> Iterator[list[Remedy]]:
        """Yield the sets with a bound or a weight and one more number. Each number is as far as it goes."""
        bounds = [each.at(each.distance) for each in fields if each.kind in {RemedyKind.SPREAD, RemedyKind.WEIGHT}]
        for end in ([], [self._reschedule]):
            for one, other in combinations(bounds, 2):
                together = [*needed, one, other, *end]
                if one.field is not other.field and self._may_be_smallest(together) and self._takes(together):
                    yield together
            for one in bounds:
                for field in fields:
                    if field.kind in {RemedyKind.SPREAD, RemedyKind.WEIGHT}:
                        continue
                    if not self._may_be_smallest([*needed, one, *end], more=1):
                        return
                    if (least := self._least_helping([*needed, one, *end], field)) is not None:
                        yield [*needed, one, least, *end]

    def _may_be_smallest(self, remedies: Sequence[Remedy], more: int = 0) -> bool:
        """Return whether a set, with so many more changes, can be one of the smallest after a reduction."""
        return _size(remedies) + more <= self._least

    def _reduced(self, remedies: Sequence[Remedy]) -> list[Remedy]:
        """Return the remedies without those that can be left out, the least wanted first."""
        kept = list(remedies)
        for remedy in sorted(remedies, key=lambda each: (each.kind is not RemedyKind.RESCHEDULE, -each.kind)):
            fewer = [each for each in kept if each is not remedy]
            if self._takes(fewer):
                kept = fewer
        return kept if len(kept) == len(remedies) else self._reduced(kept)

    def _nearest(self, remedies: list[Remedy]) -> list[Remedy]:
        """Return the remedies with each number as near to its present value as the others allow."""
        nearest = list(remedies)
        while True:
            before = [each.distance for each in nearest]
            for index, remedy in enumerate(nearest):
                if remedy.field is None:
                    continue
                others = [*nearest[:index], *nearest[index + 1 :]]
                nearest[index] = self._least_helping(others, remedy.field, remedy.distance) or remedy
            if before == [each.distance for each in nearest]:
                return nearest

    def _narrowed(self, remedies: list[Remedy]) -> list[Remedy]:
        """Return the remedies, of which a capacity has only the resources that are needed."""
        narrowed = list(remedies)
        for index, remedy in enumerate(narrowed):
            for part in remedy.field.parts if remedy.field is not None else ():
                fewer = [*narrowed[:index], part.at(remedy.distance), *narrowed[index + 1 :]]
                if self._takes(fewer):
                    narrowed = fewer
                    break
        return narrowed

    def _least_helping(self, others: Sequence[Remedy], field: NumberField, most: int | None = None) -> Remedy | None:
        """Return the value of a number nearest to the present one that helps; None if none does.

        ``most``: the largest distance to try; None for that of the field.
        """
        most = field.distance if most is None else most
        useless, distance = 0, min(1, most)
        while distance and not self._takes([*others, field.at(distance)]):
            if distance == most:
                return None
            useless, distance = distance, min(2 * distance, most)
        if 1 < distance <= _EACH_DISTANCE:
            near = (each for each in range(1, distance) if self._takes([*others, field.at(each)]))
            return field.at(next(near, distance))
        return field.at(self._bisected(others, field, useless, distance)) if distance else None

    def _bisected(self, others: Sequence[Remedy], field: NumberField, useless: int, helping: int) -> int:
        """Return the nearest distance that helps, between one that does not help and one that does."""
        while helping - useless > 1:
            middle = (helping + useless) // 2
            if self._takes([*others, field.at(middle)]):
                helping = middle
            else:
                useless = middle
        return helping


def _size(remedies: Sequence[Remedy]) -> int:
    """Return how many objects are changed. A rescheduling changes none."""
    return sum(each.kind is not RemedyKind.RESCHEDULE for each in remedies)


def _ordered(remedies: Sequence[Remedy]) -> list[Remedy]:
    """Return the remedies in the order in which people make them. A rescheduling comes last."""
    return sorted(remedies, key=lambda each: each.kind is RemedyKind.RESCHEDULE)


def _preference(remedies: Sequence[Remedy]) -> tuple[list[int], int]:
    kinds = sorted((int(each.kind) for each in remedies if each.kind is not RemedyKind.RESCHEDULE), reverse=True)
    return kinds, len(remedies)
