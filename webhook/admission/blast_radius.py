"""The limits of a change: how much may move without an approval."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from berthmaster.model.comma_lists import comma_separated
from webhook.admission.impact import PolicyImpact

RULE: Final = "blast-radius"
_UNITS: Final = {
    "moved": ("workload moves", "workloads move"),
    "percent": ("percent of all workloads moves", "percent of all workloads move"),
    "lost": ("workload has no place", "workloads have no place"),
    "deleted": ("copy is deleted", "copies are deleted"),
}
"""What each limit counts, one and many."""
_ACCEPTED: Final = "accepted is a list such as moved=50,percent=20,lost=0,deleted=100"


@dataclass(frozen=True, slots=True)
class BlastRadius:
    """The most that a change may do. None is no limit.

    Attributes:
        deleted: the most copies in clusters that are deleted. A move from one cluster to another deletes one.
    """

    moved: float | None = None
    percent: float | None = None
    lost: float | None = None
    deleted: float | None = None

    @classmethod
    def parse(cls, text: str) -> "BlastRadius":
        """Parse limits, as in ``moved=50,percent=20``.

        Raises:
            ValueError: a limit is unknown, repeated or not a number from 0; the message names it and what is accepted.
        """
        limits: dict[str, float] = {}
        for part in comma_separated(text):
            name, _, value = (each.strip() for each in part.partition("="))
            if name not in _UNITS:
                raise ValueError(f"{name!r} is not a limit; {_ACCEPTED}")
            if name in limits:
                raise ValueError(f"{name} is set twice; {_ACCEPTED}")
            limits[name] = _number(name, value)
        if not limits:
            raise ValueError(f"it has no limit; {_ACCEPTED}")
        return cls(**limits)

    def __str__(self) -> str:
        return ",".join(f"{name}={_shown(limit)}" for name, limit in self.by_name().items())

    def exceeded(self, impact: PolicyImpact) -> Iterator[str]:
        """Yield each limit that an impact exceeds, in words."""
        found: Mapping[str, float] = {
            "moved": impact.moved,
            "percent": 100 * impact.moved / impact.workloads if impact.workloads else 0,
            "lost": impact.lost,
            "deleted": impact.deleted,
        }
        for name, limit in self.by_name().items():
            if found[name] > limit:
                yield f"{_shown(found[name])} {_UNITS[name][found[name] != 1]}, at most {_shown(limit)} may"

    def by_name(self) -> dict[str, float]:
        limits = {name: getattr(self, name) for name in _UNITS}
        return {name: limit for name, limit in limits.items() if limit is not None}


DEFAULT_RADIUS: Final = BlastRadius(moved=50, percent=20, lost=0)


def _number(name: str, text: str) -> float:
    whole, _, fraction = text.partition(".")
    digits = whole + fraction
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 9 and (not fraction or name == "percent")):
        kind = "a number from 0 to 100" if name == "percent" else "a whole number from 0"
        raise ValueError(f"{name}={text!r} is not accepted; accepted is {kind}")
    if name == "percent" and float(text) > 100:
        raise ValueError(f"percent={text} is above 100; accepted is a number from 0 to 100")
    return float(text)


def _shown(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
