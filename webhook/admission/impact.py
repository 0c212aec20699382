"""A change of a policy, what it would move, and what the gate did with it.

The limits of a change: how much may move without an approval.

What users and the audit log read about an impact.

API servers cut warnings at 256 characters and drop all after 4,096 in total. kubectl prints one warning a line, so a
line is short enough for a terminal.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol

from berthmaster.model.errors import printable


class ReviewedChange(NamedTuple):
    """A policy that would be stored or deleted.

    Attributes:
        document: the policy as it would be stored; None if it is deleted.
    """

    kind: str
    namespace: str
    name: str
    document: Mapping[str, Any] | None
    creates: bool = False
    author: str = ""
    dry_run: bool = False
    accepts: bool = False

    @property
    def deletes(self) -> bool:
        return self.document is None

    @property
    def is_lazy(self) -> bool:
        """Whether the policy changes a binding only when its template changes."""
        spec = (self.document or {}).get("spec")
        return isinstance(spec, Mapping) and spec.get("activationPreference") == "Lazy"


class PolicyImpact(NamedTuple):
    """What a change would move.

    Attributes:
        plan: the id of the plan. The same change with the same effect has the same id. Empty if the change was not
            planned in full; the numbers are lower bounds then.
        deleted: how many copies in clusters are deleted.
        worst: what happens to single workloads, one line each, the worst first.
    """

    plan: str
    workloads: int
    concerned: int
    moved: int
    replicas: int
    lost: int
    short: int
    deleted: int
    complete: bool = True
    worst: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    planning: bool = False
    assumes_preemption: bool = False
    lazy: bool = False

    @property
    def planned(self) -> bool:
        return bool(self.plan)

    @property
    def extent(self) -> str:
        """How much of the change was planned, for metrics and the audit log."""
        if not self.planned:
            return "bounded"
        return "computed" if self.complete else "incomplete"


class Unanswered(StrEnum):
    """Why the impact of a change was not computed."""

    TIMEOUT = "timeout"
    """The service did not answer in time."""
    UNREACHABLE = "unreachable"
    NOT_READY = "not_ready"
    """The service does not know the present: it is stale, not synced, or lacks a right."""
    REFUSED = "refused"
    INVALID = "invalid"
    BREAKER = "breaker"
    """Earlier requests failed. The service is not asked for a while."""
    BUSY = "busy"
    """Too many other requests wait for an answer."""
    NO_TIME = "no_time"


class NotComputed(NamedTuple):
    """The impact is not known.

    Attributes:
        unreachable: whether the service could not judge any change: it cannot be reached, or does not know the present.
            Otherwise it did not judge this one.
    """

    kind: Unanswered
    reason: str
    unreachable: bool = False


class ImpactSource(Protocol):
    """Knows what changes would move."""

    def impact(self, change: ReviewedChange) -> PolicyImpact | NotComputed:
        """Return the impact of a change, within the time of the review. Never raises."""


class GateResult(StrEnum):
    """What the gate did with a change."""

    WITHIN = "within"
    WARNED = "warned"
    """It is above a limit, and the gate only warns."""
    ACCEPTED = "accepted"
    """It is above a limit, and the user accepted this plan."""
    EXEMPT = "exempt"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    """The impact is not known. The gate lets the change pass."""
    UNJUDGED = "unjudged"
    """The impact is not known. The gate refuses the change."""


class GateDecision(NamedTuple):
    """The decision on one change. ``plan`` is the id of the plan; empty if the impact is not known."""

    result: GateResult
    change: ReviewedChange
    plan: str = ""
    message: str = ""


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
        for part in filter(None, (each.strip() for each in text.split(","))):
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


MAX_LINES: Final = 5
MAX_LENGTH: Final = 120
_PARTIAL: Final = "the change was not planned in full; `berthmaster plan` shows everything"


def warnings(impact: PolicyImpact, *, deletes: bool = False) -> tuple[str, ...]:
    """Return at most ``MAX_LINES`` lines of at most ``MAX_LENGTH`` characters: totals, the worst, the plan id.

    ``deletes``: whether the policy is deleted. A stored one that concerns no workload selects nothing, or too late.
    """
    first = [summary(impact)]
    if not deletes and impact.planned and impact.complete and not impact.concerned:
        first.append("the policy selects no workload that is known, or other policies hold all that it selects")
    if not impact.complete and (impact.planned or impact.gaps):
        gap = impact.gaps[0] if impact.gaps else "the cause is not known"
        more = f" (and {len(impact.gaps) - 1} more)" if len(impact.gaps) > 1 else ""
        first.append(f"not everything is known{more}: {gap}")
    last = [f"plan {impact.plan}" if impact.planned else _PARTIAL]
    room = MAX_LINES - len(first) - len(last)
    return tuple(line(each) for each in (*first, *impact.worst[:room], *last))


def not_computed(unanswered: NotComputed) -> str:
    """Return the warning for an impact that is not known."""
    return line(f"impact not computed: {unanswered.reason}")


def summary(impact: PolicyImpact) -> str:
    """Return the totals as a sentence. Incomplete totals are lower bounds, and the sentence says so."""
    assumed = "; if preemption is on" if impact.assumes_preemption else ""
    assumed += "; when their templates change" if impact.lazy and impact.moved else ""
    at_least = "" if impact.complete else "at least "
    if not impact.moved and not impact.lost and not impact.short:
        nothing = "no workload moves" if impact.complete else "at least 0 workloads move"
        return f"{nothing}: the change concerns {at_least}{impact.concerned} of {impact.workloads}{assumed}"
    verb = "moves" if impact.moved == 1 and impact.workloads == 1 else "move"
    noun = "workload" if impact.workloads == 1 else "workloads"
    replicas = "1 replica" if impact.replicas == 1 else f"{impact.replicas} replicas"
    parts = [f"{at_least}{impact.moved} of {impact.workloads} {noun} {verb}, {replicas}"]
    if impact.lost:
        parts.append(f"{impact.lost} would have no place")
    if impact.short:
        parts.append(f"{impact.short} would lack replicas")
    return "; ".join(parts) + assumed


def audit(answer: PolicyImpact | NotComputed) -> dict[str, str]:
    """Return the annotations for the API server's audit log."""
    if isinstance(answer, NotComputed):
        return {"impact": "not computed", "impact-reason": answer.reason}
    names = ("plan", "workloads", "concerned", "moved", "replicas", "lost", "short", "deleted")
    return {"impact": answer.extent, **{f"impact-{name}": str(getattr(answer, name)) for name in names}}


def line(text: str) -> str:
    """Return text as one line of at most ``MAX_LENGTH`` printable characters."""
    text = printable(" ".join(text.split()))
    return text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 3]}..."
