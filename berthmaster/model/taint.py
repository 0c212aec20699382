"""Taints of clusters, and the tolerations of workloads (``core/v1``)."""

from collections.abc import Iterable
from typing import Final

from berthmaster.model.meta import Int64, Value

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
EFFECTS: Final = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)
REPELLING_EFFECTS: Final = frozenset({NO_SCHEDULE, NO_EXECUTE})
"""The effects that keep new workloads off a cluster."""


class Taint(Value, frozen=True):
    """A taint: it keeps workloads that do not tolerate it off a cluster."""

    key: str
    effect: str
    value: str = ""

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


class Toleration(Value, frozen=True):
    """A toleration: it allows a workload on a tainted cluster. Empty ``effect`` and ``key`` are wildcards."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None

    def tolerates(self, taint: Taint) -> bool:
        """Return whether a taint is tolerated, without ``toleration_seconds``. An unknown operator tolerates none."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator in {"", "Equal"}:
            return self.value == taint.value
        return self.operator == "Exists"


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(toleration.tolerates(taint) for toleration in tolerations)


def repelling_taints(
    taints: Iterable[Taint], tolerations: tuple[Toleration, ...], effects: frozenset[str] = REPELLING_EFFECTS
) -> list[Taint]:
    return [taint for taint in taints if taint.effect in effects and not tolerated(taint, tolerations)]
