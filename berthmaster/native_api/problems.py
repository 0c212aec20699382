"""What is broken in the fleet now, as the native API lists it: the worst damage first, each problem with its start."""

from datetime import datetime
from enum import Enum
from typing import Final

from berthmaster.model.meta import object_name
from berthmaster.native_api.wire import AnswerPart, Staleness

MAX_PROBLEMS: Final = 50
"""The most problems of each damage that an answer lists."""


class Damage(Enum):
    """What a problem does, the worst first."""

    NO_COPY = "no-copy"
    """No copy of a workload runs."""
    SHORT = "short"
    """Fewer replicas of a workload run than it asks for."""
    NOT_PREFERRED = "not-preferred"
    """A workload is not in the first group of its placement."""
    MOVING = "moving"
    """A move takes longer than it may, or its record cannot be read."""
    CONTROL = "control"
    """Nothing is lost yet, and the control plane does not work as it should."""
    NONE = "none"
    """A cluster is not ready, and nothing of what the reader may see misses it."""


class Subject(Enum):
    """What a problem is about."""

    CLUSTER = "cluster"
    WORKLOAD = "workload"
    MOVE = "move"
    CONTROLLERS = "controllers"
    """No controller renews the lease."""
    BRAKE = "brake"
    """The storm brake stops all moves."""
    CONFIGURATION = "configuration"
    """The configuration of moves is invalid."""
    STATE = "state"
    """The extender does not see changes of the control plane."""
    GATE = "gate"
    """The gate refused a change because it could not judge it."""


class FleetProblem(AnswerPart, frozen=True, omit_defaults=True):
    """Something that is broken.

    Attributes:
        workloads, replicas: how many workloads have this damage, and how many of their replicas do not run as they
            should; of a cluster, those on it. Only workloads that the reader may see count.
        since: when it began; null if nothing says that.
        message: what the control plane reports, as it reports it; empty if it reports nothing.
        cluster: the name of the cluster.
        namespace, workload_kind, name, binding: the workload, and the name of its binding.
        policy: the policy that holds the workload, or that the refused change is about.
        clusters: the clusters on which copies of the workload do not run.
        user: who asked for the refused change.
    """

    damage: Damage
    subject: Subject
    workloads: int = 0
    replicas: int = 0
    since: datetime | None = None
    message: str = ""
    cluster: str = ""
    namespace: str = ""
    workload_kind: str = ""
    name: str = ""
    binding: str = ""
    policy: str = ""
    clusters: list[str] = []
    user: str = ""

    @property
    def resource(self) -> str:
        """``NAMESPACE/KIND/NAME`` of the workload; empty if it is about none."""
        return object_name(self.namespace, self.workload_kind, self.name)


class ProblemList(AnswerPart, frozen=True):
    """The problems of the fleet, the worst first.

    Attributes:
        items: at most ``MAX_PROBLEMS`` of each damage.
        totals: how many problems there are, by damage.
    """

    items: list[FleetProblem]
    totals: dict[str, int]
    version: str
    gaps: list[str]
    staleness: Staleness


ORDER: Final = {each: number for number, each in enumerate(Damage)}


def worst_first(problem: FleetProblem) -> tuple[int, int, int, str, str]:
    """Return the sort key of a problem: by damage, then by the number of replicas and of workloads, then by name."""
    return ORDER[problem.damage], -problem.replicas, -problem.workloads, problem.cluster, problem.resource
