"""What is broken now: pure functions from clusters, workloads, moves and the Lease to problems, the worst first.

``berthmaster.deciding.running`` says which copies run.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import nsmallest
from typing import Final, NamedTuple

from berthmaster.deciding.lease_record import LeaseRecord
from berthmaster.deciding.running import Hosts, running, wants_copies
from berthmaster.model.binding import holder
from berthmaster.model.cluster import Cluster
from berthmaster.native_api.fleet import WorkloadState
from berthmaster.native_api.problems import MAX_PROBLEMS, Damage, FleetProblem, Subject, worst_first
from berthmaster.native_api.wire import Staleness
from berthmaster.views.move_rows import RowState, StatedMove
from extender.state.cluster_health import not_ready_since, why_not_ready
from extender.state.copy_counts import AS_ASSIGNED, CopyCounts
from extender.state.placed_index import PlacedIndex
from extender.state.placed_workload import PlacedWorkload, message_of, since_of, unassigned

_STUCK: Final = frozenset({RowState.OVERDUE, RowState.INVALID})
_GONE: Final = "the fleet has no such cluster"


class Outage(NamedTuple):
    """What a workload lacks because clusters do not run its copies.

    Attributes:
        damage: ``NO_COPY`` or ``SHORT``.
        replicas: how many replicas do not run.
        clusters: the replicas of the copies that do not run, by cluster.
    """

    placed: PlacedWorkload
    damage: Damage
    replicas: int
    clusters: Mapping[str, int]


def outages(rows: Iterable[PlacedWorkload], hosts: Hosts, counts: CopyCounts = AS_ASSIGNED) -> Iterator[Outage]:
    """Yield the workloads of which too little runs where they are assigned. What has no replicas is no workload.

    Copies of a workload that is not divided each have all its replicas: one that runs is enough.
    """
    for placed in rows:
        binding = placed.binding
        if not placed.present or placed.state is WorkloadState.DELETING or not binding.spec.is_workload:
            continue
        exist = counts.existing(binding)
        if all(map(hosts.runs, exist)):
            continue
        runs = running(binding, exist, hosts, exist)
        stopped = {name: count for name, count in exist.items() if name not in runs}
        if not stopped:
            continue
        if not runs:
            yield Outage(placed, Damage.NO_COPY, sum(stopped.values()), stopped)
        elif binding.is_divided and (missing := counts.asked(binding) - sum(runs.values())) > 0:
            yield Outage(placed, Damage.SHORT, missing, stopped)


def known_outages(index: PlacedIndex, hosts: Hosts, counts: CopyCounts = AS_ASSIGNED) -> Sequence[Outage]:
    """Return the outages of all workloads. They are found once for each state of the workloads and clusters."""
    down = index.totals().clusters.keys() - hosts.ready
    question = "outages", hosts.ready, counts.overrides
    return index.kept(question, lambda: list(outages(index.on_clusters(down), hosts, counts)))


def damage_of(placed: PlacedWorkload) -> Damage | None:
    """Return what a workload lacks by its assignment, ``NO_COPY`` or ``SHORT``; None if it lacks nothing."""
    if placed.state is WorkloadState.SHORT:
        return Damage.SHORT
    return Damage.NO_COPY if placed.state is WorkloadState.NOWHERE and wants_copies(placed.binding) else None


class HurtWorkload(NamedTuple):
    """A workload with a problem of its own, and how many of its replicas do not run as they should."""

    placed: PlacedWorkload
    replicas: int

    @property
    def rank(self) -> tuple[int, str]:
        return -self.replicas, self.placed.text


class Hurt(NamedTuple):
    """How many workloads have a damage, and the worst of them, at most ``MAX_PROBLEMS``."""

    total: int
    worst: Sequence[HurtWorkload]


@dataclass(frozen=True, slots=True)
class ProblemFacts:
    """What problems are found in.

    Attributes:
        hurt, outages, moves: those that the reader may see.
        lease: what the Lease of the controllers records; None if it is not known.
    """

    clusters: Mapping[str, Cluster]
    hosts: Hosts
    hurt: Mapping[Damage, Hurt]
    outages: Sequence[Outage]
    moves: Sequence[StatedMove]
    lease: LeaseRecord | None
    staleness: Staleness
    now: datetime


def problems_of(facts: ProblemFacts) -> tuple[list[FleetProblem], dict[str, int]]:
    """Return the problems, the worst first and at most ``MAX_PROBLEMS`` of each damage, and how many there are."""
    few = [*_of_clusters(facts), *_of_moves(facts), *_of_the_control_plane(facts)]
    totals = Counter(each.damage for each in few)
    totals.update({damage: hurt.total for damage, hurt in facts.hurt.items()})
    items = list(few)
    for damage, hurt in facts.hurt.items():
        items += [_of_workload(each, damage, facts.now) for each in hurt.worst]
    listed: Counter[Damage] = Counter()
    shown = []
    for each in sorted(items, key=worst_first):
        listed[each.damage] += 1
        if listed[each.damage] <= MAX_PROBLEMS:
            shown.append(each)
    return shown, {each.value: totals[each] for each in Damage}


def _of_clusters(facts: ProblemFacts) -> Iterator[FleetProblem]:
    """Yield the clusters that do not run their copies. The deletion of one without copies is planned work."""
    by_cluster: defaultdict[str, list[Outage]] = defaultdict(list)
    for outage in facts.outages:
        for name in outage.clusters:
            by_cluster[name].append(outage)
    down = {name for name, each in facts.clusters.items() if name not in facts.hosts.ready and not each.deleting}
    for name in sorted(down | by_cluster.keys()):
        cluster, hit = facts.clusters.get(name), by_cluster.get(name, [])
        damage = next(
            (each for each in (Damage.NO_COPY, Damage.SHORT) if any(one.damage is each for one in hit)), Damage.NONE
        )
        worst = [each for each in hit if each.damage is damage]
        yield FleetProblem(
            damage,
            Subject.CLUSTER,
            len(worst),
            sum(each.clusters[name] for each in worst),
            None if cluster is None else not_ready_since(cluster),
            _GONE if cluster is None else why_not_ready(cluster),
            cluster=name,
        )


def hurt_workloads(workloads: Iterable[PlacedWorkload], outages: Iterable[Outage]) -> Mapping[Damage, Hurt]:
    """Return the workloads that have no place, too few replicas, or not their first choice.

    What clusters stop is a problem of these clusters.
    """
    stopped = {id(each.placed) for each in outages}
    found: dict[Damage, list[HurtWorkload]] = {Damage.NO_COPY: [], Damage.SHORT: [], Damage.NOT_PREFERRED: []}
    for placed in workloads:
        damage = damage_of(placed)
        if damage is Damage.NO_COPY:
            found[damage].append(HurtWorkload(placed, placed.binding.spec.replicas))
        elif damage is Damage.SHORT:
            if id(placed) not in stopped:
                found[damage].append(HurtWorkload(placed, unassigned(placed.binding)))
        elif placed.group_index and placed.state is WorkloadState.PLACED and id(placed) not in stopped:
            found[Damage.NOT_PREFERRED].append(HurtWorkload(placed, placed.binding.spec.replicas))
    return {
        damage: Hurt(len(rows), nsmallest(MAX_PROBLEMS, rows, key=lambda each: each.rank))
        for damage, rows in found.items()
    }


def _of_workload(hurt: HurtWorkload, damage: Damage, now: datetime) -> FleetProblem:
    placed, resource = hurt.placed, hurt.placed.binding.spec.resource
    return FleetProblem(
        damage,
        Subject.WORKLOAD,
        1,
        hurt.replicas,
        since_of(placed),
        message_of(placed, now),
        namespace=resource.namespace,
        workload_kind=resource.kind,
        name=resource.name,
        binding=placed.binding.metadata.name,
        policy=placed.policy,
    )


def _of_moves(facts: ProblemFacts) -> Iterator[FleetProblem]:
    for stated in facts.moves:
        if stated.state not in _STUCK:
            continue
        move, resource = stated.move, stated.move.binding.spec.resource
        policy = holder(move.binding.metadata)
        yield FleetProblem(
            Damage.MOVING,
            Subject.MOVE,
            1,
            move.binding.spec.replicas,
            move.state.until if move.state is not None else None,
            move.state.message if move.state is not None else move.problem,
            namespace=resource.namespace,
            workload_kind=resource.kind,
            name=resource.name,
            binding=move.binding.metadata.name,
            policy="" if policy is None else str(policy),
        )


def _of_the_control_plane(facts: ProblemFacts) -> Iterator[FleetProblem]:
    lease, staleness = facts.lease, facts.staleness
    if lease is not None and lease.silent(facts.now):
        yield FleetProblem(Damage.CONTROL, Subject.CONTROLLERS, since=lease.renewed_at)
    if lease is not None and lease.brake.reason:
        yield FleetProblem(Damage.CONTROL, Subject.BRAKE, since=lease.brake.since, message=lease.brake.reason)
    if lease is not None and lease.sources is not None and lease.sources.problem:
        yield FleetProblem(Damage.CONTROL, Subject.CONFIGURATION, message=lease.sources.problem)
    if staleness.stale_since is not None:
        yield FleetProblem(Damage.CONTROL, Subject.STATE, since=staleness.stale_since, message=staleness.problem)
