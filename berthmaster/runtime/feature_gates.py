"""Feature gates as Kubernetes has them: what is not yet, or no longer, on for everybody."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from berthmaster.model.errors import InputError, shown

_VALUES: Final = {"true": True, "false": False}


class Gate(NamedTuple):
    """One gate.

    Attributes:
        name: as ``--feature-gates`` writes it.
        stage: how far it is.
        default: whether it is on where nobody says.
        summary: what it does, in half a line.
    """

    name: str
    stage: Literal["alpha", "beta", "stable"]
    default: bool
    summary: str


POLICY_PREEMPTION: Final = Gate(
    "PolicyPreemption", "alpha", default=False, summary="policies with preemption: Always take resources over"
)
WORKLOAD_AFFINITY: Final = Gate(
    "WorkloadAffinity", "alpha", default=False, summary="filters by where other workloads are"
)
PRIORITY_BASED_SCHEDULING: Final = Gate(
    "PriorityBasedScheduling", "beta", default=True, summary="bindings of high schedulePriority come first"
)


class FeatureGates:
    """Which gates are on."""

    def __init__(self, known: Sequence[Gate], given: Mapping[str, bool] | None = None) -> None:
        self._on = {gate.name: gate.default for gate in known} | dict(given or {})

    @classmethod
    def parse(cls, text: str, known: Sequence[Gate]) -> "FeatureGates":
        """Gates as ``A=true,B=false``; the last word on one counts, and ``AllAlpha`` and the like are not known.

        Raises:
            InputError: it is not written so, or a gate is unknown.
        """
        names = [gate.name for gate in known]
        given = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, equals, value = (piece.strip() for piece in part.partition("="))
            if name not in names:
                raise InputError(f"--feature-gates: unknown gate {shown(name)}; known are {', '.join(names)}")
            if not equals or value.lower() not in _VALUES:
                raise InputError(f"--feature-gates: {shown(part)} is not NAME=true or NAME=false")
            given[name] = _VALUES[value.lower()]
        return cls(known, given)

    def on(self, gate: Gate) -> bool:
        """Whether a gate is on."""
        return self._on[gate.name]

    def __str__(self) -> str:
        return ",".join(f"{name}={str(on).lower()}" for name, on in self._on.items())


def told(known: Sequence[Gate]) -> str:
    """The gates as ``--help`` lists them."""
    return "; ".join(
        f"{gate.name} ({gate.stage}, {str(gate.default).lower()} by default): {gate.summary}" for gate in known
    )
