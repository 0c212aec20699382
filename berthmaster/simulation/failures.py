"""Failures of clusters, regions, zones and providers: what each one alone stops, and what it moves.

Each failure starts from what is now, and from the scheduling that is due anyway. Only the workloads that it can affect
are scheduled again: those on a lost cluster, those that Karmada schedules at every event if a lost cluster fits them,
those that fitted no cluster, and those that move. Other workloads have no reason to move, so the result is that of a
simulation of the whole world: a property compares both.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from berthmaster.deciding.running import hosts_of
from berthmaster.model.cluster import Cluster
from berthmaster.model.move import intact_move
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.peers import Peers
from berthmaster.scheduling.profile import Profile
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.simulation.changes import Down
from berthmaster.simulation.cluster_totals import ClusterTotals
from berthmaster.simulation.losses import is_left, loss_of, runs_nowhere, wanted
from berthmaster.simulation.plan_answer import ALL_OFF, Assumptions
from berthmaster.simulation.plan_rows import moved_replicas
from berthmaster.simulation.results import PlannedWorkload, WorkloadResult
from berthmaster.simulation.scheduling_cycle import present, run, schedule_one
from berthmaster.simulation.shared_capacity import SharedCapacity
from berthmaster.simulation.workload import SimulatedWorkload, clusters_of, follow, leaders_of
from berthmaster.simulation.world import World, peers_of

_LATER: Final = timedelta(seconds=1)


class FailureDomain(StrEnum):
    """What fails as a whole."""

    CLUSTER = "cluster"
    REGION = "region"
    ZONE = "zone"
    PROVIDER = "provider"


class DomainLoss(NamedTuple):
    """A failure: the domain, its name, and the names of the clusters that are lost."""

    domain: FailureDomain
    name: str
    clusters: tuple[str, ...]


class Impact(msgspec.Struct, frozen=True, rename="camel"):
    """What a failure does: first what stops running, then what moves under the assumptions.

    Attributes:
        only_copy: the workloads that have no other copy on a cluster that is ready.
        staying: the workloads whose bindings keep a lost cluster.
        not_simulated: the workloads that lose copies and belong to a scheduler that is not simulated.
    """

    domain: FailureDomain
    name: str
    clusters: tuple[str, ...]
    nowhere: list[str]
    short: list[str]
    staying: list[str]
    moved: int
    replicas: int
    arriving: dict[str, int]
    overcommitted: dict[str, list[str]]
    stopping: int = 0
    stopped: int = 0
    only_copy: list[str] = []
    not_simulated: list[str] = []
    assumptions: Assumptions = ALL_OFF

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """The numbers of workloads without another copy, nowhere, short and staying."""
        return len(self.only_copy), len(self.nowhere), len(self.short), len(self.staying)

    @property
    def harmless(self) -> bool:
        """Whether every workload runs with all replicas afterwards, and no cluster gets more than is free."""
        _, nowhere, short, _ = self.counts
        return not (nowhere or short or self.overcommitted)


def losses(clusters: Mapping[str, Cluster], domains: Sequence[FailureDomain]) -> list[DomainLoss]:
    """Return every failure of these domains.

    A cluster in several zones is lost only with the cluster itself, its region or its provider. Clusters without a
    region, zone or provider are lost with none.
    """
    found: dict[tuple[FailureDomain, str], list[str]] = defaultdict(list)
    for cluster in clusters.values():
        for domain in domains:
            name = _domain_name(cluster, domain)
            if name:
                found[domain, name].append(cluster.name)
    ordered = sorted(found, key=lambda key: (domains.index(key[0]), key[1]))
    return [DomainLoss(domain, name, tuple(sorted(found[domain, name]))) for domain, name in ordered]


def _domain_name(cluster: Cluster, domain: FailureDomain) -> str:
    match domain:
        case FailureDomain.CLUSTER:
            return cluster.name
        case FailureDomain.REGION:
            return cluster.spec.region
        case FailureDomain.PROVIDER:
            return cluster.spec.provider
    zones = cluster.spec.zones or ((cluster.spec.zone,) if cluster.spec.zone else ())
    return zones[0] if len(zones) == 1 else ""


class Failures:
    """Simulates failures of one world.

    ``profile``: the plugins that decide. A filter must not accept a cluster because it failed.
    """

    def __init__(
        self,
        world: World,
        profile: Profile,
        now: datetime,
        *,
        shared_capacity: bool = False,
    ) -> None:
        self._shared = shared_capacity
        self._later = now + _LATER
        self._observed = world.clusters
        self._hosts = hosts_of(world.clusters)
        self._ready = frozenset(name for name, each in world.clusters.items() if each.ready)
        # Explanations of failed decisions would take longer than all the rest.
        settled, self._settled = run(world, profile, now, diagnose="none", shared_capacity=shared_capacity)
        self._present = present(world) if world.has_bindings else self._settled
        self._world = settled
        self._scheduler = Scheduler(Fleet(settled.clusters.values()), profile)
        self._has_groups = any(map(_has_affinity, settled.workloads))
        # Schedule once more, to learn which workloads are scheduled at every event, and which clusters fit them.
        _, self._idle = run(
            settled,
            profile,
            self._later,
            diagnose="none",
            shared_capacity=shared_capacity,
            keeps_rows=True,
        )
        self._holders: dict[str, set[int]] = defaultdict(set)
        self._fitting: dict[str, set[int]] = defaultdict(set)
        self._always: set[int] = set()
        # A loss changes the spec of a cluster, so that karmada-scheduler tries them again.
        self._stalled = {position for position, each in enumerate(settled.workloads) if each.stalled_at is not None}
        for position, (workload, result) in enumerate(zip(settled.workloads, self._idle, strict=True)):
            for binding in (workload.binding, self._present[position].workload.binding):
                for name in clusters_of(binding) if binding is not None else ():
                    self._holders[name].add(position)
            sees_others = shared_capacity or _has_affinity(workload) or _deducts(workload, world)
            if _is_moving(workload) or (result.decision is not None and sees_others):
                self._always.add(position)
            elif result.decision is not None:
                for attempt in result.decision.attempts:
                    for name in self._scheduler.fleet.names(attempt.rows):
                        self._fitting[name].add(position)
        # Dependencies follow their workloads, wherever these go.
        self._leaders = leaders_of([each.workload for each in self._idle])
        self._dependencies: dict[int, set[int]] = defaultdict(set)
        for position, leaders in self._leaders.items():
            for leader in leaders:
                self._dependencies[leader].add(position)

    def impacts(self, failures: Sequence[DomainLoss]) -> list[Impact]:
        return ranked(map(self.impact, failures))

    def after(self, failure: DomainLoss) -> dict[int, WorkloadResult]:
        """Return the results of the workloads that a failure may affect, by position in the world."""
        lost, changed = self._lost(failure)
        affected = self._always | self._stalled
        for name in failure.clusters:
            affected |= self._holders.get(name, set()) | self._fitting.get(name, set())
        fleet, found = self._scheduler.fleet, dict[int, WorkloadResult]()
        shared = SharedCapacity(fleet, everywhere=self._shared)
        # Peers matter only to workloads with affinity groups, which are few.
        self._scheduler.peers = peers_of(self._world) if self._has_groups else Peers()
        try:
            for name in failure.clusters:
                fleet.apply(lost.clusters[name])
            for position in sorted(affected):
                workload = changed.get(position, self._world.workloads[position])
                found[position] = schedule_one(
                    self._scheduler, workload, self._later, lost, diagnose="none", shared=shared
                )
        finally:
            shared.restore()
            for name in failure.clusters:
                fleet.apply(self._world.clusters[name])
        return self._followed(found) if self._leaders else found

    def _lost(self, failure: DomainLoss) -> tuple[World, dict[int, SimulatedWorkload]]:
        """Return the lost clusters as a world, and the workloads that change, by position."""
        world, workloads = self._world, self._world.workloads
        # A loss changes only the cluster, and the bindings that name it. To look at all others would take long.
        lost = replace(world, clusters={name: world.clusters[name] for name in failure.clusters})
        changed: dict[int, SimulatedWorkload] = {}
        for name in failure.clusters:
            here = sorted(self._holders.get(name, set()) | self._stalled)
            part = [changed.get(each, workloads[each]) for each in here]
            lost = Down(name).applied(replace(lost, workloads=part), self._later)
            changed.update(zip(here, lost.workloads, strict=True))
        return replace(lost, assumptions=self._assumptions(frozenset(failure.clusters))), changed

    def _assumptions(self, lost: frozenset[str]) -> Assumptions:
        """Return what holds after a loss. Whether it engages the storm brake depends on all clusters."""
        return self._world.assumptions.after_loss(len(lost), len(self._ready - lost))

    def _followed(self, found: Mapping[int, WorkloadResult]) -> dict[int, WorkloadResult]:
        """Return the results with those of the dependencies that follow. Only these and their leaders are looked at."""
        concerned = found.keys() | {each for leader in found for each in self._dependencies.get(leader, ())}
        part = sorted(concerned | {leader for each in concerned for leader in self._leaders.get(each, ())})
        results = [found.get(position, self._idle[position]) for position in part]
        followed = follow([each.workload for each in results])
        return {
            position: result if workload is result.workload else replace(result, workload=workload)
            for position, workload, result in zip(part, followed, results, strict=True)
            if position in found or (position in concerned and workload is not result.workload)
        }

    def impact(self, failure: DomainLoss) -> Impact:
        lost = frozenset(failure.clusters)
        hosts = self._hosts._replace(lost=lost)
        planned = [
            PlannedWorkload(self._present[position], after, self._settled[position])
            for position, after in self.after(failure).items()
        ]
        moving = [each for each in planned if each.moves and not each.is_due]
        left = [each for each in planned if is_left(each, hosts)]
        loss = loss_of(planned, hosts)
        arriving: Counter[str] = Counter()
        for each in moving:
            then, now = wanted(each.settled or each.before), wanted(each.after)
            arriving.update({name: max(0, now.get(name, 0) - then.get(name, 0)) for name in each.caused})
        totals = ClusterTotals(self._observed)
        for each in filter(attrgetter("moves"), planned):
            totals.add(each)
        reached = totals.results(arriving.keys() - lost)
        return Impact(
            domain=failure.domain,
            name=failure.name,
            clusters=failure.clusters,
            stopping=loss.workloads,
            stopped=loss.replicas,
            only_copy=loss.only_copy,
            nowhere=[each.resource for each in left if runs_nowhere(each, hosts)],
            short=[each.resource for each in left if not runs_nowhere(each, hosts)],
            staying=[each.resource for each in planned if lost & each.after.assignment.keys()],
            not_simulated=loss.not_simulated,
            moved=len(moving),
            replicas=sum(moved_replicas(each.caused) for each in moving),
            arriving={name: count for name, count in sorted(arriving.items()) if count},
            overcommitted={each.cluster: each.overcommitted for each in reached if each.overcommitted},
            assumptions=self._assumptions(lost),
        )


def ranked(impacts: Iterable[Impact]) -> list[Impact]:
    """Return the failures that stop most first, then those that leave most. Equal ones stay in their order."""
    return sorted(
        impacts,
        key=lambda each: (
            -len(each.only_copy), -each.stopping, -each.stopped, -len(each.nowhere), -len(each.short),
            -len(each.overcommitted), each.name,
        ),
    )  # fmt: skip


def _is_moving(workload: SimulatedWorkload) -> bool:
    """Return whether a move of a workload is under way. How it goes on depends on all clusters of the move."""
    return workload.binding is not None and intact_move(workload.binding) is not None


def _deducts(workload: SimulatedWorkload, world: World) -> bool:
    """Return whether the replicas that other decisions add matter to a workload. Duplicated ones ignore capacity."""
    binding = workload.binding
    return binding is not None and binding.is_divided and world.rules_of(binding).deducts


def _has_affinity(workload: SimulatedWorkload) -> bool:
    return workload.binding is not None and workload.binding.spec.workload_affinity_groups is not None
