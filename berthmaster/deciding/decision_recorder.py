"""What the controllers hand to a ledger of decisions. The ledger itself is in ``berthmaster.ledger``.

Many of these values wait for the ledger at the same time. They are part of no cycle, so the garbage collector does not
look at them (``gc=False``).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from berthmaster.deciding.admissions import Waiting
from berthmaster.deciding.move_settings import MoveSettings
from berthmaster.model.binding import Binding, GracefulEvictionTask, TargetCluster
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import decode_json, encode_json
from berthmaster.model.meta import Timestamp
from berthmaster.model.move import MoveState
from berthmaster.model.note import NoteRecorder
from berthmaster.model.work import Copies

_LEAST_CHANGES: Final = 1024

Change = Cluster | None
"""A change of a cluster: the cluster; None if it is gone."""


class LoggedFleet(msgspec.Struct, frozen=True, gc=False):
    """The clusters of a fleet at one time. Any thread may read it.

    Attributes:
        changes: what changed since, in order, with the name of the cluster. Later snapshots share the list and append
            to it.
        length: how many of these changes the snapshot has.
    """

    start: Mapping[str, Cluster]
    changes: Sequence[tuple[str, Change]]
    length: int

    def clusters(self) -> dict[str, Cluster]:
        found: dict[str, Change] = {**self.start, **dict(self.changes[: self.length])}
        return {name: cluster for name, cluster in found.items() if cluster is not None}

    def since(self, other: "LoggedFleet") -> Mapping[str, Change]:
        """Return what to change in another snapshot to get this one, by cluster.

        This is quick if this one is a later snapshot of the same list of a log. A ledger gets decisions when they are
        written, which is not quite the order in which they were taken. Then all clusters are compared.
        """
        if other.changes is self.changes and other.length <= self.length:
            return dict(self.changes[other.length : self.length])
        before, after = other.clusters(), self.clusters()
        gone: dict[str, Change] = dict.fromkeys(before.keys() - after.keys())
        return gone | {name: cluster for name, cluster in after.items() if before.get(name) is not cluster}


NO_CLUSTERS: Final = LoggedFleet({}, (), 0)


class FleetLog:
    """Keeps the changes of a fleet for snapshots. Not safe for several threads."""

    def __init__(self) -> None:
        self._clusters: dict[str, Cluster] = {}
        self._start: Mapping[str, Cluster] = {}
        self._changes: list[tuple[str, Change]] = []
        self._most = _LEAST_CHANGES

    def sharing_apis(self, cluster: Cluster) -> Cluster:
        """Return a cluster that shares the served API groups with its last version if they are equal.

        They are by far its largest part, and the log keeps several versions of a cluster.
        """
        last = self._clusters.get(cluster.metadata.name)
        if last is None or last.status.api_enablements != cluster.status.api_enablements:
            return cluster
        return replace(cluster, status=replace(cluster.status, api_enablements=last.status.api_enablements))

    def put(self, cluster: Cluster) -> None:
        self._add(cluster.metadata.name, cluster)
        self._clusters[cluster.metadata.name] = cluster

    def remove(self, name: str) -> None:
        if name in self._clusters:
            self._add(name, None)
            del self._clusters[name]

    def snapshot(self) -> LoggedFleet:
        return LoggedFleet(self._start, self._changes, len(self._changes))

    def _add(self, name: str, change: Change) -> None:
        """Add a change that ``_clusters`` does not have yet. The list starts anew if it is longer than the fleet."""
        if len(self._changes) >= self._most:
            self._start, self._changes = self._clusters.copy(), []
            self._most = max(_LEAST_CHANGES, len(self._clusters))
        self._changes.append((name, change))


GroupKey = tuple[str, str]
"""The kind of a workload affinity group (``affinity`` or ``anti-affinity``), and its name."""


class MoveInputs(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a decision asked about moves, and the answers. A ledger stores and replays it as one value.

    Attributes:
        policy: what applies to the binding, as JSON; empty if the decision did not ask.
        admissions: the answers of the budgets in order; None for an admission.
        copies: the copies of the binding by their Works, as JSON; empty if they were not read.
        stuck, leaving: see ``MoveContext``.
    """

    now: datetime
    producer: str
    braked: str
    policy: bytes
    admissions: tuple[Waiting | None, ...]
    copies: bytes = b""
    stuck: Mapping[str, int] | None = None
    leaving: Mapping[str, int] = {}


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


@dataclass(frozen=True, slots=True)
class PolicyMoves:
    """What configuration and policy say about the moves of one binding."""

    settings: MoveSettings = field(default_factory=MoveSettings)
    reschedules: bool = False
    problem: str = ""


class MoveContext(NamedTuple):
    """The configuration of moves at one time.

    Attributes:
        admit: asks the budgets for a move that is about to start; returns what it waits for, or None.
        copies: the copies of the binding by their Works; None if they were not read. A decision that needs them then
            raises ``CopiesNotReadError``.
        brake: returns why the storm brake stops all moves, each time the same; empty if it does not.
        stuck: the replicas that estimators report as unschedulable, by cluster. None if the decision does not look
            for drift.
        leaving: how many more replicas of the binding fit when the moves of others have ended, by cluster.
    """

    now: Timestamp
    policy: Callable[[Binding], PolicyMoves] = lambda _: PolicyMoves()
    admit: Callable[[Binding, MoveState], Waiting | None] = lambda _binding, _state: None
    producer: str = "berthmaster"
    brake: Callable[[], str] = lambda: ""
    copies: Copies | None = None
    stuck: Mapping[str, int] | None = None
    leaving: Mapping[str, int] = {}

    @property
    def braked(self) -> str:
        return self.brake()


class MoveTrace:
    """Passes the questions of one decision on, and keeps the answers."""

    def __init__(self, context: MoveContext) -> None:
        self._asked = context
        self._policy: PolicyMoves | None = None
        self._admissions: list[Waiting | None] = []
        self._braked = ""
        self.context = context._replace(policy=self._policy_of, admit=self._admit, brake=self._brake)

    def inputs(self) -> MoveInputs:
        asked = self._asked
        return MoveInputs(
            asked.now,
            asked.producer,
            self._braked,
            b"" if self._policy is None else encode_json(self._policy),
            tuple(self._admissions),
            b"" if asked.copies is None else encode_json(asked.copies),
            asked.stuck,
            asked.leaving,
        )

    def _brake(self) -> str:
        self._braked = self._asked.braked
        return self._braked

    def _policy_of(self, binding: Binding) -> PolicyMoves:
        self._policy = self._asked.policy(binding)
        return self._policy

    def _admit(self, binding: Binding, state: MoveState) -> Waiting | None:
        answer = self._asked.admit(binding, state)
        self._admissions.append(answer)
        return answer


def context_of(inputs: MoveInputs) -> MoveContext:
    """Return a context that answers as the recorded one did. What was never asked has the default answer.

    Raises:
        InputError: the recorded answers are damaged.
    """
    policy = decode_json(PolicyMoves, inputs.policy) if inputs.policy else PolicyMoves()
    # The recorded version did not need them. Another version, or another binding, may.
    copies = decode_json(Copies, inputs.copies) if inputs.copies else Copies(problem="the Works are not on record")
    admissions = iter(inputs.admissions)

    return MoveContext(
        inputs.now,
        lambda _binding: policy,
        lambda _binding, _state: next(admissions, None),
        inputs.producer,
        lambda: inputs.braked,
        copies,
        inputs.stuck,
        inputs.leaving,
    )
