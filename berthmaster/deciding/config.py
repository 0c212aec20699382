"""The configuration of moves: what may move, by which strategy, how many at once, and when nothing may move.

``config_file.py`` reads it from a file. Without a file, ``MovesConfig()`` applies: no failback, no drain, and the storm
brake with its defaults.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, Literal, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from berthmaster.model.binding import Binding, holder
from berthmaster.model.errors import FieldError, InputError, shown
from berthmaster.model.meta import parse_duration_s
from berthmaster.model.move import MoveStrategy
from berthmaster.model.selector import LabelSelector, Requirement

MAX_DURATION_S: Final = 7 * 86400
_MAX_SCHEDULE_LENGTH: Final = 256
_FIELDS: Final = 5
_EPOCH: Final = datetime(2024, 1, 1, tzinfo=UTC)
_FORM: Final = (
    "accepted are five fields of cron, minute hour day-of-month month day-of-week, "
    "such as '0 22 * * MON-FRI' for 22:00 on working days"
)


class Window:
    """A recurring window of time, in which a budget is open. ``schedule`` has the starts, in cron's five fields.

    A window starts whenever its schedule fires, and stays open for its duration of elapsed time. A change to or from
    daylight saving time makes no window longer or shorter. Schedules follow Debian's cron (library ``cronsim``): a
    start at a fixed time that the change skips happens directly after the skipped hour, and a start in the hour that
    occurs twice happens once. Schedules with ``*`` in the minute or the hour follow the elapsed time.
    """

    def __init__(self, schedule: str, duration_s: int, time_zone: str = "UTC") -> None:
        """Check a window. Raises ``InputError`` if a value is invalid. The message begins with the value."""
        self.schedule, self.duration_s, self.time_zone = schedule, duration_s, time_zone
        self._zone = zone_of(time_zone)
        check_schedule(schedule)
        if not 0 < duration_s <= MAX_DURATION_S:
            raise InputError(f"{duration_s}s is not accepted; accepted are durations from 1s to {MAX_DURATION_S}s")

    def is_open(self, now: datetime) -> bool:
        return self._start_after(now - timedelta(seconds=self.duration_s)) <= now

    def next_start(self, now: datetime) -> datetime:
        """Return the first start after a time, in UTC."""
        return self._start_after(now)

    def _start_after(self, moment: datetime) -> datetime:
        """Return the first start that is later than a time, in UTC."""
        starts = CronSim(self.schedule, moment.astimezone(self._zone))
        while True:
            start = next(starts).astimezone(UTC)
            # In the hour that occurs twice, cronsim continues from the wall clock and may return an earlier start.
            if start > moment:
                return start


class Windows:
    """Several windows: open while at least one of them is open. Without windows it is always open.

    The answer is kept until it can change. A clock that was set back makes it compute the answer again.
    """

    def __init__(self, windows: Iterable[Window] = ()) -> None:
        self.windows = tuple(windows)
        self._computed_at = self._valid_until = datetime.min.replace(tzinfo=UTC)
        self._opens_at: datetime | None = None

    def opens_at(self, now: datetime) -> datetime | None:
        """Return None if a window is open, else the next start."""
        if not self.windows:
            return None
        if not self._computed_at <= now < self._valid_until:
            self._compute(now)
        return self._opens_at

    def _compute(self, now: datetime) -> None:
        self._computed_at = now
        if any(each.is_open(now) for each in self.windows):
            # It closes between now and the end of the longest window. Looking again within a minute is cheap enough.
            self._opens_at, self._valid_until = None, self._closes_after(now)
            return
        self._opens_at = self._valid_until = min(each.next_start(now) for each in self.windows)

    def _closes_after(self, now: datetime) -> datetime:
        """Return a time until which the open windows certainly stay open."""
        until = now
        for each in self.windows:
            start = each.next_start(now - timedelta(seconds=each.duration_s))
            if start <= now:
                until = max(until, start + timedelta(seconds=each.duration_s))
        return until


@lru_cache(maxsize=128)
def zone_of(name: str) -> ZoneInfo:
    """Return a time zone by its IANA name. Raises ``InputError`` if there is no such time zone."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InputError(
            f"{shown(name)} is not a time zone; accepted are IANA names such as UTC or Europe/Berlin"
        ) from None


def check_schedule(schedule: str) -> None:
    """Check a cron schedule. Raises ``InputError`` if it is not a schedule, or no day ever matches it."""
    if len(schedule) > _MAX_SCHEDULE_LENGTH or len(schedule.split()) != _FIELDS:
        raise InputError(f"{shown(schedule)} is not a schedule; {_FORM}")
    try:
        next(CronSim(schedule, _EPOCH))
    except CronSimError as error:
        raise InputError(f"{shown(schedule)} is not a schedule ({str(error).lower()}); {_FORM}") from None
    except StopIteration:
        raise InputError(f"{shown(schedule)} matches no day; name a day that exists") from None


Mode = Literal["Off", "DryRun", "On"]
"""Whether a source of moves is off, only reports what it would move, or moves."""
Pause = Literal["None", "Planned", "All"]
"""Which moves wait: none, those with time (Failback, Drain, Rescheduled), or all, including Failover."""

JOB: Final = "Job"
_PERCENT: Final = "%"
_PAUSES: Final[dict[str, Pause]] = {
    "": "None", "false": "None", "none": "None", "true": "Planned", "planned": "Planned", "all": "All",
}  # fmt: skip
_FAILBACK_FORM: Final = 'accepted is a list such as "after=10m,headroom=10%,mode=On"'


@dataclass(frozen=True, slots=True)
class MoveSubject:
    """What selectors look at.

    Attributes:
        namespace: the namespace of the binding; empty for a ClusterResourceBinding.
        policy: the policy of the workload: ``NAMESPACE/NAME``, or ``NAME`` for a ClusterPropagationPolicy; empty if it
            is not known.
    """

    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    policy: str = ""
    kind: str = ""


def subject_of(binding: Binding) -> MoveSubject:
    """Return what selectors look at in a binding. Karmada records the policy in the annotations of the binding."""
    meta = binding.metadata
    found = holder(meta)
    policy = "" if found is None else f"{found.namespace}/{found.name}" if found.namespace else found.name
    return MoveSubject(meta.namespace, meta.labels, policy, binding.spec.resource.kind)


@dataclass(frozen=True, slots=True)
class MoveSelector:
    """Selects bindings. All of its parts must match. An empty part matches everything.

    Attributes:
        policies: names of policies, as in ``MoveSubject.policy``.
    """

    namespaces: frozenset[str] = frozenset()
    policies: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()
    labels: tuple[Requirement, ...] = ()

    @classmethod
    def of(
        cls,
        namespaces: tuple[str, ...] = (),
        policies: tuple[str, ...] = (),
        kinds: tuple[str, ...] = (),
        labels: LabelSelector | None = None,
    ) -> "MoveSelector":
        requirements = (labels.requirements() if labels is not None else ()) or ()
        return cls(frozenset(namespaces), frozenset(policies), frozenset(kinds), requirements)

    def matches(self, subject: MoveSubject) -> bool:
        return (
            (not self.namespaces or subject.namespace in self.namespaces)
            and (not self.policies or subject.policy in self.policies)
            and (not self.kinds or subject.kind in self.kinds)
            and all(each.matches(subject.labels) for each in self.labels)
        )


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """How a source (failback, drain) asks for moves.

    Attributes:
        after_s: for how long the reason must hold without a break.
        headroom_percent: the capacity that must be free beyond the replicas of the workload, in percent of them.
    """

    mode: Mode = "Off"
    after_s: int = 600
    headroom_percent: int = 10


@dataclass(frozen=True, slots=True)
class RebalanceSettings:
    """How drift asks for moves. docs/drift.md defines the gain of a move.

    Attributes:
        mode: whether drift asks for moves.
        after_s: for how long the drift must last without a break.
        tolerance_percent: how much the share of a cluster may differ from its weight, in percent of the share.
        min_gain_percent: the share of the replicas that a move must put right, in percent.
    """

    mode: Mode = "Off"
    after_s: int = 600
    tolerance_percent: int = 10
    min_gain_percent: int = 5


@dataclass(frozen=True, slots=True)
class MoveSettings:
    """How one binding moves.

    Attributes:
        strategy: whether new copies run before the old ones go.
        soak_s: for how long all new copies must be healthy before the old ones go.
        deadline_s: how long a move may take until the new copies are healthy; then it is rolled back.
        hold_down_s, max_hold_down_s: how long a binding stays after the first failed move, and the limit of this
            time, which doubles with each failure.
    """

    failback: SourceSettings = SourceSettings()
    drain: SourceSettings = SourceSettings(after_s=0, headroom_percent=0)
    rebalance: RebalanceSettings = RebalanceSettings()
    strategy: MoveStrategy = MoveStrategy.MAKE_BEFORE_BREAK
    soak_s: int = 60
    deadline_s: int = 900
    hold_down_s: int = 600
    max_hold_down_s: int = 86400


@dataclass(frozen=True, slots=True)
class SourceOverride:
    """The settings of a source that a rule changes; None keeps a setting."""

    mode: Mode | None = None
    after_s: int | None = None
    headroom_percent: int | None = None

    def applied(self, settings: SourceSettings) -> SourceSettings:
        return replace(settings, **_stated(self))


@dataclass(frozen=True, slots=True)
class RebalanceOverride:
    """The settings of rebalancing that a rule changes; None keeps a setting."""

    mode: Mode | None = None
    after_s: int | None = None
    tolerance_percent: int | None = None
    min_gain_percent: int | None = None

    def applied(self, settings: RebalanceSettings) -> RebalanceSettings:
        return replace(settings, **_stated(self))


@dataclass(frozen=True, slots=True)
class MoveRule:
    """Settings for the bindings that a selector matches; None keeps a setting."""

    selector: MoveSelector = MoveSelector()
    failback: SourceOverride = SourceOverride()
    drain: SourceOverride = SourceOverride()
    rebalance: RebalanceOverride = RebalanceOverride()
    strategy: MoveStrategy | None = None
    soak_s: int | None = None
    deadline_s: int | None = None

    def applied(self, settings: MoveSettings) -> MoveSettings:
        stated = _stated(self)
        del stated["selector"]
        stated["failback"] = self.failback.applied(settings.failback)
        stated["drain"] = self.drain.applied(settings.drain)
        stated["rebalance"] = self.rebalance.applied(settings.rebalance)
        return replace(settings, **stated)


def _stated(override: SourceOverride | RebalanceOverride | MoveRule) -> dict[str, Any]:
    """Return the settings that an override states."""
    found = {each.name: getattr(override, each.name) for each in fields(override)}
    return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits on moves that are under way at the same time.

    Attributes:
        max_moves: the limit of moves in all; None for none, as for the other limits.
        replicas_percent: the limit of moving replicas, in percent of the replicas of all selected bindings.
        limits_failover: whether a failover waits for these limits, too. It never waits for windows.
    """

    name: str
    selector: MoveSelector = MoveSelector()
    max_moves: int | None = None
    max_moves_per_policy: int | None = None
    max_moves_from_cluster: int | None = None
    max_moves_to_cluster: int | None = None
    replicas_percent: int | None = None
    limits_failover: bool = False
    windows: Windows = field(default_factory=Windows)


@dataclass(frozen=True, slots=True)
class BrakeSettings:
    """When the storm brake stops all moves.

    Attributes:
        unhealthy_percent: the brake engages if more than this share of the ready clusters turn unready.
        min_clusters: the smallest number of clusters that engages it.
        window_s: the time within which they turn unready.
        settle_s: how long the clusters must be back, or the API server in reach, before the brake ends.
    """

    enabled: bool = True
    unhealthy_percent: int = 30
    min_clusters: int = 3
    window_s: int = 300
    settle_s: int = 120


DEFAULT_BUDGET: Final = Budget("default", max_moves=10)
# Two copies of a CronJob or a Job do the same work twice.
_BREAK_FIRST: Final = MoveRule(MoveSelector(kinds=frozenset({JOB, "CronJob"})), strategy=MoveStrategy.BREAK_BEFORE_MAKE)
_NEVER: Final = MoveRule(
    failback=SourceOverride("Off"), drain=SourceOverride("Off"), rebalance=RebalanceOverride("Off")
)


@dataclass(frozen=True, slots=True)
class MovesConfig:
    """The whole configuration of moves.

    Attributes:
        rules: exceptions. For each setting, the first rule that matches and states it applies.
    """

    pause: Pause = "None"
    defaults: MoveSettings = MoveSettings()
    rules: tuple[MoveRule, ...] = ()
    budgets: tuple[Budget, ...] = (DEFAULT_BUDGET,)
    brake: BrakeSettings = BrakeSettings()

    def settings_for(self, subject: MoveSubject) -> MoveSettings:
        """Return how a binding moves.

        Jobs never move by failback, drain or rebalancing, unless a rule names their kind and sets the mode.
        """
        settings = _BREAK_FIRST.applied(self.defaults) if _BREAK_FIRST.selector.matches(subject) else self.defaults
        if subject.kind == JOB:
            settings = _NEVER.applied(settings)
        # The first rule wins, so it is applied last.
        for rule in reversed(self.rules):
            if rule.selector.matches(subject):
                chosen = rule if subject.kind != JOB or JOB in rule.selector.kinds else _without_modes(rule)
                settings = chosen.applied(settings)
        return settings

    @property
    def rebalances(self) -> bool:
        """Whether drift asks for moves of any binding."""
        modes = (self.defaults.rebalance.mode, *(each.rebalance.mode for each in self.rules))
        return any(each not in {None, "Off"} for each in modes)


def _without_modes(rule: MoveRule) -> MoveRule:
    sources = {name: replace(getattr(rule, name), mode=None) for name in ("failback", "drain", "rebalance")}
    return replace(rule, **sources)


def failback_annotation(text: str, settings: SourceSettings) -> SourceSettings:
    """Return the settings of failback that the annotation of a policy asks for. The annotation turns failback on.

    Args:
        text: a list such as ``after=10m,headroom=10%``. ``mode`` can be ``Off``, ``DryRun`` or ``On``; ``On`` is
            the default. An empty text or ``true`` turns failback on, ``false`` turns it off.
        settings: the settings that the annotation does not state.

    Raises:
        FieldError: a part is invalid. The path is the name of the part.
    """
    if text.strip().lower() == "false":
        return replace(settings, mode="Off")
    found = replace(settings, mode="On")
    for part in filter(None, (each.strip() for each in text.split(","))) if text.strip() != "true" else ():
        name, equals, value = (each.strip() for each in part.partition("="))
        if not equals:
            raise FieldError("", f"{shown(part)} is not NAME=VALUE; {_FAILBACK_FORM}")
        found = _with_part(found, name, value)
    return found


def _with_part(settings: SourceSettings, name: str, value: str) -> SourceSettings:
    try:
        match name:
            case "after":
                return replace(settings, after_s=parse_duration_s(value))
            case "headroom":
                return replace(settings, headroom_percent=parse_percent(value))
            case "mode":
                return replace(settings, mode=_mode_of(value))
    except InputError as error:
        raise FieldError(name, str(error)) from None
    raise FieldError("", f"{shown(name)} is unknown; {_FAILBACK_FORM}")


def _mode_of(text: str) -> Mode:
    found = next((each for each in get_args(Mode) if each.lower() == text.lower()), None)
    if found is None:
        raise InputError(f"{shown(text)} is not a mode; accepted are {', '.join(get_args(Mode))}")
    mode: Mode = found
    return mode


def parse_percent(text: str) -> int:
    """Return a percentage of at most 1000 as a number.

    Raises:
        InputError: the text is not a whole number with a percent sign.
    """
    number = text.removesuffix(_PERCENT)
    if not text.endswith(_PERCENT) or not (number.isascii() and number.isdigit()) or len(number) > 4:
        raise InputError(f"{shown(text)} is not a percentage; accepted are whole numbers such as 10%")
    if int(number) > 1000:
        raise InputError(f"{shown(text)} is too large; accepted are at most 1000%")
    return int(number)


def pause_annotation(text: str) -> Pause:
    """Return which moves the annotation of a policy pauses.

    Raises:
        InputError: the text is not accepted. A caller must then pause all planned moves, not none.
    """
    found = _PAUSES.get(text.strip().lower())
    if found is None:
        raise InputError(
            f'{shown(text)} is not accepted; accepted are "true" (planned moves), "all" (failover too) and "false"'
        )
    return found
