"""What the controllers hand to a ledger of decisions. The ledger itself is in ``berthmaster.ledger``.

Many of these values wait for the ledger at the same time. They are part of no cycle, so the garbage collector does not
look at them (``gc=False``).
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

import msgspec

from berthmaster.deciding.fleet_log import LoggedFleet
from berthmaster.model.binding import Binding, GracefulEvictionTask, TargetCluster
from berthmaster.model.note import NoteRecorder

GroupKey = tuple[str, str]
"""The kind of a workload affinity group (``affinity`` or ``anti-affinity``), and its name."""


class MoveInputs(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a decision asked about moves, and the answers. A ledger stores and replays it as one value.

    A new field stands at the end and has a default: records of earlier versions lack it.

    Attributes:
        policy: what applies to the binding, as JSON; empty if the decision did not ask.
        admissions: the answers of the budgets in order: reason, seconds to wait and cause; None for an admission.
        copies: the copies of the binding by their Works, as JSON; empty if they were not read.
        stuck: see ``MoveContext``.
    """

    now: datetime
    producer: str
    braked: str
    policy: bytes
    admissions: tuple[tuple[str, float, str] | None, ...]
    abouts: tuple[tuple[str, ...], ...] = ()
    copies: bytes = b""
    stuck: Mapping[str, int] | None = None


class DecisionInputs(msgspec.Struct, frozen=True, gc=False):
    """Everything that one decision read besides its binding. All values are immutable, so keeping them is cheap.

    Attributes:
        fleet: the clusters as decided on, with assumed replicas deducted.
        unready_since_s: the monotonic time since which a cluster is not ready, by name. Empty if nothing reads it:
            without failover and without moves.
        bounds: more replicas that clusters can take, as estimators report, without assumed ones; None if not asked.
        peers: for each affinity group of the binding, the clusters of each other workload, by its binding's name.
    """

    fleet: LoggedFleet
    now_s: float
    unready_since_s: Mapping[str, float]
    bounds: Mapping[str, int] | None
    peers: Mapping[GroupKey, Mapping[str, frozenset[str]]]
    moves: MoveInputs | None = None


class DecisionOutcome(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a decision says, complete: the same outcomes are the same decisions, byte for byte.

    Attributes:
        reason, message, group: the content of the condition ``Scheduled``, and the group of the assignment.
        clusters: the decided replicas by cluster; None if the assignment stays.
        annotations: the annotations of the binding that change; None removes one.
        evictions: all graceful eviction tasks; None if they do not change.
        targets: the assignment as it is written, with components; None if it does not change.
        event: the event of a move: its reason and its message; empty for none.
    """

    trigger: str
    reason: str
    message: str
    group: str
    warning: str
    clusters: dict[str, int] | None
    annotations: dict[str, str | None]
    evictions: tuple[GracefulEvictionTask, ...] | None
    refresh: bool
    requeue_after_s: float | None
    targets: tuple[TargetCluster, ...] | None = None
    event: str = ""


class DecisionRecord(msgspec.Struct, frozen=True, gc=False):
    """A decision with everything that it read, and what became of its write.

    Attributes:
        duration_s: the seconds from the start of the decision to the last write.
        error: why its assignment was not written; empty if it was, or if there was nothing to write.
    """

    at: datetime
    reconcile_id: str
    binding: Binding
    inputs: DecisionInputs
    outcome: DecisionOutcome
    duration_s: float
    error: str = ""


class DecisionRecorder(NoteRecorder, Protocol):
    """A ledger. Its methods never block and never raise. Any thread may call them."""

    def decided(self, record: DecisionRecord) -> None:
        """Record a decision."""
