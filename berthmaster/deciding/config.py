"""The configuration of moves: what may move, by which strategy, how many at once, and when nothing may move.

``config_file.py`` reads a file of these types. Without a file, ``MovesConfig()`` applies: no failback, no drain, and
the storm brake with its defaults.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, Self, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from cronsim import CronSim, CronSimError
from msgspec import structs

from berthmaster.model.binding import Binding, holder
from berthmaster.model.cached import cached_property
from berthmaster.model.decode import convert
from berthmaster.model.durations import MAX_DURATION_S, duration_text, parse_duration_s
from berthmaster.model.errors import FieldError, InputError, shown
from berthmaster.model.meta import ParsedText, Value
from berthmaster.model.move import MoveStrategy, VolumeLoss
from berthmaster.model.selector import LabelSelector, Requirement

_MAX_SCHEDULE_LENGTH: Final = 256
_FIELDS: Final = 5
_EPOCH: Final = datetime(2024, 1, 1, tzinfo=UTC)
_FORM: Final = (
    "accepted are five fields of cron, minute hour day-of-month month day-of-week, "
    "such as '0 22 * * MON-FRI' for 22:00 on working days"
)


class Seconds(int, ParsedText):
    """A duration. Documents have a text such as ``10m``."""

    least_s = 0
    most_s = MAX_DURATION_S

    @classmethod
    def parse(cls, text: str) -> Self:
        seconds = parse_duration_s(text)
        if seconds < cls.least_s:
            raise InputError(f"{shown(text)} is too short; accepted is at least {duration_text(cls.least_s)}")
        if seconds > cls.most_s:
            raise InputError(f"{shown(text)} is too long; accepted is at most {duration_text(cls.most_s)}")
        return cls(seconds)

    def text(self) -> str:
        return duration_text(self)


class PositiveSeconds(Seconds):
    """A duration that is not 0."""

    least_s = 1


class WindowSeconds(PositiveSeconds):
    """The duration of a window."""

    most_s = 7 * 86400


class Percent(int, ParsedText):
    """A percentage of at most 1000. Documents have a text such as ``10%``."""

    @classmethod
    def parse(cls, text: str) -> Self:
        number = text.removesuffix(_PERCENT)
        if not text.endswith(_PERCENT) or not (number.isascii() and number.isdigit()) or len(number) > 4:
            raise InputError(f"{shown(text)} is not a percentage; accepted are whole numbers such as 10%")
        if int(number) > 1000:
            raise InputError(f"{shown(text)} is too large; accepted are at most 1000%")
        return cls(number)

    def text(self) -> str:
        return f"{self}{_PERCENT}"


class Schedule(str, ParsedText):
    """The starts of a window: five fields of cron. ``parse`` refuses a schedule that no day ever matches."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        if len(text) > _MAX_SCHEDULE_LENGTH or len(text.split()) != _FIELDS:
            raise InputError(f"{shown(text)} is not a schedule; {_FORM}")
        try:
            next(CronSim(text, _EPOCH))
        except CronSimError as error:
            raise InputError(f"{shown(text)} is not a schedule ({str(error).lower()}); {_FORM}") from None
        except StopIteration:
            raise InputError(f"{shown(text)} matches no day; name a day that exists") from None
        return cls(text)

    def text(self) -> str:
        return str(self)


class TimeZone(str, ParsedText):
    """The IANA name of a time zone that exists."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        try:
            _zone_of(text)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise InputError(
                f"{shown(text)} is not a time zone; accepted are IANA names such as UTC or Europe/Berlin"
            ) from None
        return cls(text)

    def text(self) -> str:
        return str(self)


@lru_cache(maxsize=128)
def _zone_of(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def duration_meta(default: str = "") -> msgspec.Meta:
    """Return the JSON schema of a duration. msgspec cannot write the default of such a field itself."""
    schema = {"type": "string", "pattern": "^(0|([0-9]+h)?([0-9]+m)?([0-9]+s)?)$", "minLength": 1}
    return msgspec.Meta(
        description="A duration, such as 90s, 10m or 1h30m.",
        extra_json_schema={**schema, "default": default} if default else schema,
    )


_DURATION: Final = duration_meta()
_PERCENTAGE: Final = msgspec.Meta(
    description="A percentage, such as 10%.", extra_json_schema={"type": "string", "pattern": "^[0-9]{1,4}%$"}
)
_TEXT: Final = {"type": "string"}
_Share = Annotated[int, msgspec.Meta(ge=1, le=100)]
_Limit = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


class Window(Value, frozen=True):
    """A time in which a budget is open. It recurs.

    A window starts whenever its schedule fires, and stays open for its duration of elapsed time. A change to or from
    daylight saving time makes no window longer or shorter. Schedules follow Debian's cron (library ``cronsim``): a
    start at a fixed time that the change skips happens directly after the skipped hour, and a start in the hour that
    occurs twice happens once. Schedules with ``*`` in the minute or the hour follow the elapsed time.
    """

    schedule: Annotated[Schedule, msgspec.Meta(description="The starts: five fields of cron.", extra_json_schema=_TEXT)]
    duration_s: Annotated[WindowSeconds, _DURATION] = msgspec.field(name="duration")
    time_zone: Annotated[
        TimeZone,
        msgspec.Meta(description="An IANA name, such as Europe/Berlin.", extra_json_schema={**_TEXT, "default": "UTC"}),
    ] = msgspec.field(default_factory=lambda: TimeZone("UTC"))

    def is_open(self, now: datetime) -> bool:
        return self._start_after(now - timedelta(seconds=self.duration_s)) <= now

    def next_start(self, now: datetime) -> datetime:
        """Return the first start after a time, in UTC."""
        return self._start_after(now)

    def _start_after(self, moment: datetime) -> datetime:
        starts = CronSim(self.schedule, moment.astimezone(_zone_of(self.time_zone)))
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


class MoveSelector(Value, frozen=True, dict=True, gc=True):
    """Selects bindings. All parts must match; an absent part matches everything.

    Attributes:
        policies: names of policies, as in ``MoveSubject.policy``.
    """

    namespaces: frozenset[str] = frozenset()
    policies: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()
    labels: LabelSelector | None = None

    @cached_property
    def requirements(self) -> tuple[Requirement, ...]:
        """What the labels of a binding must satisfy."""
        return (self.labels.requirements() if self.labels is not None else ()) or ()

    def matches(self, subject: MoveSubject) -> bool:
        return (
            (not self.namespaces or subject.namespace in self.namespaces)
            and (not self.policies or subject.policy in self.policies)
            and (not self.kinds or subject.kind in self.kinds)
            and all(each.matches(subject.labels) for each in self.requirements)
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
        volumes: whether a move may lose the data of a workload.
    """

    failback: SourceSettings = SourceSettings()
    drain: SourceSettings = SourceSettings(after_s=0, headroom_percent=0)
    rebalance: RebalanceSettings = RebalanceSettings()
    strategy: MoveStrategy = MoveStrategy.MAKE_BEFORE_BREAK
    soak_s: int = 60
    deadline_s: int = 900
    hold_down_s: int = 600
    max_hold_down_s: int = 86400
    volumes: VolumeLoss = VolumeLoss.KEEP


# YAML reads On and Off without quotes as booleans.
_Mode = Annotated[Mode | bool, msgspec.Meta(description="Off, DryRun (only reports) or On.")]


class SourceOverride(Value, frozen=True):
    """How failback or drain asks for moves; an absent field keeps a setting."""

    mode: _Mode | None = None
    after_s: Annotated[Seconds, _DURATION] | None = msgspec.field(default=None, name="after")
    headroom_percent: Annotated[Percent, _PERCENTAGE] | None = msgspec.field(default=None, name="headroom")


class RebalanceOverride(Value, frozen=True):
    """How drift asks for moves; an absent field keeps a setting."""

    mode: _Mode | None = None
    after_s: Annotated[Seconds, _DURATION] | None = msgspec.field(default=None, name="after")
    tolerance_percent: Annotated[Percent, _PERCENTAGE] | None = msgspec.field(default=None, name="tolerance")
    min_gain_percent: Annotated[Percent, _PERCENTAGE] | None = msgspec.field(default=None, name="minGain")


_PLAIN: Final = frozenset({"strategy", "volumes", "soak_s", "deadline_s"})
"""The settings that are no group of settings."""


class MoveOverrides(Value, frozen=True):
    """Settings that a file states; an absent field keeps a setting."""

    failback: SourceOverride = SourceOverride()
    drain: SourceOverride = SourceOverride()
    rebalance: RebalanceOverride = RebalanceOverride()
    strategy: MoveStrategy | None = None
    volumes: VolumeLoss | None = None
    soak_s: Annotated[Seconds, _DURATION] | None = msgspec.field(default=None, name="soak")
    deadline_s: Annotated[Seconds, _DURATION] | None = msgspec.field(default=None, name="deadline")

    def applied(self, settings: MoveSettings) -> MoveSettings:
        return replace(
            settings,
            **{name: value for name, value in _stated(self).items() if name in _PLAIN},
            failback=replace(settings.failback, **_stated(self.failback)),
            drain=replace(settings.drain, **_stated(self.drain)),
            rebalance=replace(settings.rebalance, **_stated(self.rebalance)),
        )


class MoveRule(MoveOverrides, frozen=True, kw_only=True):
    """Settings for the bindings that the selector matches. The first rule that states a setting applies."""

    selector: MoveSelector


def _stated(override: SourceOverride | RebalanceOverride | MoveOverrides) -> dict[str, Any]:
    """Return the settings that an override states, as plain values."""
    found = {name: value for name, value in structs.asdict(override).items() if value is not None}
    modes: dict[bool, Mode] = {True: "On", False: "Off"}
    return {
        name: modes[value] if isinstance(value, bool) else int(value) if isinstance(value, int) else value
        for name, value in found.items()
    }


class Budget(Value, frozen=True, dict=True, gc=True):
    """Limits on moves that are under way at the same time. An absent limit is no limit.

    Attributes:
        replicas_percent: the limit of moving replicas, in percent of the replicas of all selected bindings.
        limits_failover: whether a failover waits for these limits, too. It never waits for windows.
    """

    name: str
    selector: MoveSelector = MoveSelector()
    max_moves: _Limit | None = None
    max_moves_per_policy: _Limit | None = None
    max_moves_per_namespace: _Limit | None = None
    max_moves_from_cluster: _Limit | None = None
    max_moves_to_cluster: _Limit | None = None
    replicas_percent: _Share | None = None
    limits_failover: bool = False
    windows: tuple[Window, ...] = ()

    @cached_property
    def openings(self) -> Windows:
        """When the budget is open."""
        return Windows(self.windows)


class BrakeLimits(Value, frozen=True):
    """How many clusters that turn unready at once engage the storm brake.

    Attributes:
        unhealthy_percent: more than this share of the clusters that were ready.
        min_clusters: and at least so many.
    """

    enabled: bool = True
    unhealthy_percent: _Share = 30
    min_clusters: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 3

    def exceeded(self, unready: int, ready: int) -> bool:
        """Return whether so many clusters turned unready, and so many stayed ready, that the brake engages."""
        enough = unready >= self.min_clusters
        return self.enabled and enough and unready * 100 > self.unhealthy_percent * (unready + ready)


class BrakeSettings(BrakeLimits, frozen=True):
    """When the storm brake stops all moves.

    Attributes:
        window_s: the time within which the clusters turn unready.
        settle_s: how long the clusters must be back, or the API server in reach, before the brake ends.
    """

    window_s: Annotated[PositiveSeconds, duration_meta("5m")] = msgspec.field(
        default_factory=lambda: PositiveSeconds(300), name="window"
    )
    settle_s: Annotated[Seconds, duration_meta("2m")] = msgspec.field(
        default_factory=lambda: Seconds(120), name="settle"
    )


DEFAULT_BRAKE: Final = BrakeLimits()
_BRAKE: Final = BrakeSettings()
# One namespace never keeps the moves of all others waiting.
DEFAULT_BUDGET: Final = Budget("default", max_moves=10, max_moves_per_namespace=5)
# Two copies of a CronJob or a Job do the same work twice.
_BREAK_FIRST: Final = MoveOverrides(strategy=MoveStrategy.BREAK_BEFORE_MAKE)
_REPEATED: Final = frozenset({JOB, "CronJob"})
_NEVER: Final = MoveOverrides(SourceOverride("Off"), SourceOverride("Off"), RebalanceOverride("Off"))


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
    brake: BrakeSettings = _BRAKE

    def settings_for(self, subject: MoveSubject) -> MoveSettings:
        """Return how a binding moves.

        Jobs never move by failback, drain or rebalancing, unless a rule names their kind and sets the mode.
        """
        settings = _BREAK_FIRST.applied(self.defaults) if subject.kind in _REPEATED else self.defaults
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
        return any(each not in {None, "Off", False} for each in modes)


def _without_modes(rule: MoveRule) -> MoveRule:
    sources = {name: structs.replace(getattr(rule, name), mode=None) for name in ("failback", "drain", "rebalance")}
    return structs.replace(rule, **sources)


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
    stated: dict[str, str] = {}
    for part in filter(None, (each.strip() for each in text.split(","))) if text.strip() != "true" else ():
        name, equals, value = (each.strip() for each in part.partition("="))
        if not equals:
            raise FieldError("", f"{shown(part)} is not NAME=VALUE; {_FAILBACK_FORM}")
        if name not in {"after", "headroom", "mode"}:
            raise FieldError("", f"{shown(name)} is unknown; {_FAILBACK_FORM}")
        stated[name] = value
    modes = {each.lower(): each for each in get_args(Mode)}
    if (mode := stated.get("mode")) is not None:
        stated["mode"] = modes.get(mode.lower(), mode)
    return replace(settings, **{"mode": "On", **_stated(convert(SourceOverride, stated))})


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
