"""Where a workload is, as its stored binding says. Pure: no decision is made, and no clock is read."""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

import msgspec

from berthmaster.deciding.copies import present_replicas
from berthmaster.deciding.writes import assigned_group
from berthmaster.model.binding import Binding, holder
from berthmaster.model.meta import moment_of
from berthmaster.model.move import AFTER_FAILURE, MovePhase, intact_move, move_of
from berthmaster.model.policy import PolicyReference
from berthmaster.native_api.fleet import WorkloadRow, WorkloadState
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.resources import PODS
from berthmaster.simulation.move_notes import move_note

_MAX_MESSAGE: Final = 512


class PlacedWorkload(msgspec.Struct, frozen=True, gc=False):
    """What lists and totals need of a binding. Strings are shared, because a fleet has many of these.

    Attributes:
        text: ``NAMESPACE/KIND/NAME`` of the workload in lower case.
        group_index: the position of the group in the placement; None if the placement has no such group.
    """

    binding: Binding
    text: str
    state: WorkloadState
    policy: str
    group: str
    group_index: int | None
    groups: int
    moving: bool
    held_down_until: datetime | None
    present: bool

    @property
    def preferred(self) -> bool | None:
        """Whether the workload is in its first group; None without groups, or if its group is not known."""
        return None if self.group_index is None else self.group_index == 0

    def held_down(self, now: datetime) -> bool:
        """Whether no move except a failover may start at this time."""
        return self.held_down_until is not None and self.held_down_until > now


def placed_workload(
    binding: Binding, held_by: PolicyReference | None = None, *, present: bool = True
) -> PlacedWorkload:
    """Return what a binding says about the place of its workload.

    Args:
        held_by: the policy that holds the workload; None if only the annotations of the binding can name it.
        present: whether the control plane has the binding. One that is only due says nothing about a place.
    """
    policy = held_by or holder(binding.metadata)
    group = assigned_group(binding)
    placement = binding.spec.placement
    terms = placement.cluster_affinities if placement is not None else None
    names = [each.affinity_name for each in terms or ()]
    move = move_of(binding)
    resource = binding.spec.resource
    return PlacedWorkload(
        binding=binding,
        text=f"{resource.namespace}/{resource.kind}/{resource.name}".lower(),
        state=_state(binding) if present else WorkloadState.PENDING,
        policy="" if policy is None else sys.intern(str(policy)),
        group=sys.intern(group),
        group_index=names.index(group) if group in names else None,
        groups=len(names),
        moving=move is not None and move.under_way,
        held_down_until=None if move is None or move.under_way else move.held_down_until,
        present=present,
    )


def row_of(placed: PlacedWorkload, now: datetime, *, stopped: bool = False) -> WorkloadRow:
    """Return a workload as the API lists it. ``stopped``: whether no copy of it runs where it is assigned."""
    binding, resource = placed.binding, placed.binding.spec.resource
    return WorkloadRow(
        api_version=resource.api_version,
        kind=resource.kind,
        namespace=resource.namespace,
        name=resource.name,
        binding=binding.metadata.name,
        policy=placed.policy or None,
        scheduler=binding.scheduler if binding.spec.placement is not None else None,
        group=placed.group or None,
        group_index=placed.group_index,
        groups=placed.groups,
        clusters=binding.deployed,
        replicas=binding.spec.replicas,
        state=placed.state,
        preferred=placed.preferred,
        moving=placed.moving,
        held_down=placed.held_down(now),
        message=message_of(placed, now),
        last_scheduled_time=binding.status.last_scheduled_time,
        since=since_of(placed),
        stopped=stopped,
    )


def message_of(placed: PlacedWorkload, now: datetime) -> str:
    """Return what its move waits for, or why its scheduler did not place it; empty without either."""
    return _message(placed, now)[:_MAX_MESSAGE]


def since_of(placed: PlacedWorkload) -> datetime | None:
    """Return since when a workload is as its state says; None if nothing says that.

    A condition that is not True says it. Without one, it is so since the decision that made the assignment.
    """
    if placed.state is WorkloadState.DELETING:
        return placed.binding.metadata.deletion_timestamp
    condition = placed.binding.scheduled
    if condition is not None and condition.status != "True":
        return moment_of(condition.last_transition_time)
    return placed.binding.status.last_scheduled_time if placed.binding.spec.clusters else None


def moving_between(binding: Binding) -> tuple[frozenset[str], frozenset[str]]:
    """Return the clusters that a move brings a workload to, and those that a move or an eviction removes it from."""
    evicted = binding.evicted_from
    left = intact_move(binding)
    if left is None:
        return frozenset(), evicted
    return frozenset(left.arriving), evicted | left.leaving.keys()


def not_running_yet(binding: Binding) -> Iterator[tuple[str, Mapping[str, int]]]:
    """Yield each cluster of the assignment that does not run the workload yet, and the amounts that it requests there.

    Amounts have the units of ``berthmaster.scheduling.resources``. Pods are among them.
    """
    present = present_replicas(binding)
    missing = {name: count for name, count in binding.assignment.items() if name not in present}
    if not missing:
        return
    request = Request.of(binding)
    for name, count in request.occupied(missing).items():
        amounts: Counter[str] = Counter()
        for pods, requests in request.pods(count):
            for resource, amount in ((PODS, 1), *requests):
                amounts[resource] += pods * amount
        yield name, amounts


def _state(binding: Binding) -> WorkloadState:
    spec = binding.spec
    if binding.metadata.deletion_timestamp is not None:
        return WorkloadState.DELETING
    if binding.suspended:
        return WorkloadState.SUSPENDED
    if spec.placement is None:
        return WorkloadState.PLACED if spec.clusters or spec.required_by else WorkloadState.NOWHERE
    if spec.clusters:
        return WorkloadState.SHORT if unassigned(binding) else WorkloadState.PLACED
    condition = binding.scheduled
    if condition is None or condition.status == "True":
        return WorkloadState.PENDING
    return WorkloadState.NOWHERE if condition.status == "False" else WorkloadState.UNKNOWN


def unassigned(binding: Binding) -> int:
    """Return how many replicas an assignment lacks; without a division, on all of its clusters together."""
    spec = binding.spec
    if len(spec.components) > 1 or spec.placement is None or not spec.clusters:
        return 0
    assigned = [target.replicas for target in spec.clusters]
    if binding.is_divided:
        return max(0, spec.replicas - sum(assigned))
    return sum(max(0, spec.replicas - each) for each in assigned)


def _shortage(binding: Binding) -> str:
    """Return which replicas an assignment lacks, in words; empty if it lacks none."""
    spec, missing = binding.spec, unassigned(binding)
    if not missing:
        return ""
    if binding.is_divided:
        return f"{spec.replicas - missing} of {spec.replicas} replicas are assigned"
    short = sum(target.replicas < spec.replicas for target in spec.clusters)
    return f"{short} of {len(spec.clusters)} clusters have fewer than {spec.replicas} replicas"


def _message(placed: PlacedWorkload, now: datetime) -> str:
    binding = placed.binding
    if not placed.present:
        return "its binding does not exist yet"
    if binding.spec.placement is None:
        needed = bool(binding.spec.required_by)
        return "it follows the workloads that need it" if needed else "no policy holds it, and no workload needs it"
    move, condition = move_of(binding), binding.scheduled
    is_over = move is not None and (
        move.phase is MovePhase.RELEASED or (move.phase in AFTER_FAILURE and not move.held_down(now))
    )
    parts = ["" if is_over else move_note(binding)]
    if condition is not None and condition.status != "True":
        parts.append(condition.message or condition.reason)
    else:
        parts.append(_shortage(binding))
    return "; ".join(filter(None, parts))
