"""Taints and tolerations (``core/v1``)."""

from collections.abc import Iterable
from typing import Final

from berthmaster.model.base import Int64, Value

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
EFFECTS: Final = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)
REPELLING_EFFECTS: Final = frozenset({NO_SCHEDULE, NO_EXECUTE})
"""Effects that keep new workloads away."""


class Taint(Value, frozen=True):
    """What keeps workloads off a cluster unless they tolerate it."""

    key: str
    effect: str
    value: str = ""

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


class Toleration(Value, frozen=True):
    """What lets a workload onto a tainted cluster. Empty ``effect`` and ``key`` are wildcards."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None

    def tolerates(self, taint: Taint) -> bool:
        """Whether this taint is tolerated; ``toleration_seconds`` plays no part. An unknown operator tolerates none."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator in {"", "Equal"}:
            return self.value == taint.value
        return self.operator == "Exists"


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Whether any of the tolerations tolerates the taint."""
    return any(toleration.tolerates(taint) for toleration in tolerations)


def repelling_taints(
    taints: Iterable[Taint], tolerations: tuple[Toleration, ...], effects: frozenset[str] = REPELLING_EFFECTS
) -> list[Taint]:
    """The taints of some effects, those that keep a new workload away, that none of the tolerations tolerates."""
    return [taint for taint in taints if taint.effect in effects and not tolerated(taint, tolerations)]
