"""Feature gates, as Kubernetes has them."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from berthmaster.model.comma_lists import comma_separated
from berthmaster.model.errors import InputError, shown

_VALUES: Final = {"true": True, "false": False}


class Gate(NamedTuple):
    name: str
    stage: Literal["alpha", "beta", "stable"]
    default: bool
    summary: str


POLICY_PREEMPTION: Final = Gate(
    "PolicyPreemption", "alpha", default=False, summary="policies with preemption: Always take over resources"
)
WORKLOAD_AFFINITY: Final = Gate(
    "WorkloadAffinity", "alpha", default=False, summary="filters clusters by the placement of other workloads"
)
PRIORITY_BASED_SCHEDULING: Final = Gate(
    "PriorityBasedScheduling",
    "beta",
    default=True,
    summary="bindings with a higher schedulePriority are scheduled first",
)


SCHEDULING_OVERCOMMIT_PROTECTION: Final = Gate(
    "SchedulingOvercommitProtection",
    "beta",
    default=True,
    summary="assigned replicas count until the workload is healthy on their cluster, for at most five minutes",
)
MULTIPLE_POD_TEMPLATES: Final = Gate(
    "MultiplePodTemplatesScheduling",
    "beta",
    default=True,
    summary="workloads with components are placed as complete sets of their pods",
)


class FeatureGates:
    def __init__(self, known: Sequence[Gate], given: Mapping[str, bool] | None = None) -> None:
        self._on = {gate.name: gate.default for gate in known} | dict(given or {})

    @classmethod
    def parse(cls, text: str, known: Sequence[Gate]) -> "FeatureGates":
        """Parse ``A=true,B=false``; the last value of a gate counts. Raises ``InputError`` for another text."""
        names = [gate.name for gate in known]
        given = {}
        for part in comma_separated(text):
            name, equals, value = (piece.strip() for piece in part.partition("="))
            if name not in names:
                raise InputError(f"--feature-gates: unknown gate {shown(name)}; known are {', '.join(names)}")
            if not equals or value.lower() not in _VALUES:
                raise InputError(f"--feature-gates: {shown(part)} is not NAME=true or NAME=false")
            given[name] = _VALUES[value.lower()]
        return cls(known, given)

    def on(self, gate: Gate) -> bool:
        return self._on[gate.name]

    def as_mapping(self) -> dict[str, bool]:
        return dict(self._on)

    def __str__(self) -> str:
        return ",".join(f"{name}={str(on).lower()}" for name, on in self._on.items())


def gates_help(known: Sequence[Gate]) -> str:
    return "; ".join(
        f"{gate.name} ({gate.stage}, {str(gate.default).lower()} by default): {gate.summary}" for gate in known
    )
