"""How one binding moves, and the settings that a file or an annotation states."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal, Self, get_args

import msgspec
from msgspec import structs

from berthmaster.deciding.config_values import DURATION, PERCENTAGE, Percent, Seconds
from berthmaster.model.comma_lists import comma_separated
from berthmaster.model.decode import convert
from berthmaster.model.errors import FieldError, shown
from berthmaster.model.meta import Value
from berthmaster.model.move import MoveStrategy, VolumeLoss

Mode = Literal["Off", "DryRun", "On"]
"""Whether a source of moves is off, only reports what it would move, or moves."""
_FAILBACK_FORM: Final = 'accepted is a list such as "after=10m,headroom=10%,mode=On"'
# YAML reads On and Off without quotes as booleans.
_Mode = Annotated[Mode | bool, msgspec.Meta(description="Off, DryRun (only reports) or On.")]
MOVE_SOURCES: Final = ("failback", "drain", "rebalance")
"""The sources of moves. Each has a group of settings in ``MoveSettings`` and ``MoveOverrides``."""
_PLAIN: Final = frozenset({"strategy", "volumes", "soak_s", "deadline_s"})
"""The settings that are no group of settings."""


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

    @property
    def longest_after_s(self) -> int:
        """The longest time for which the reason of a source must hold."""
        return max(int(getattr(self, name).after_s) for name in MOVE_SOURCES)


class SourceOverride(Value, frozen=True):
    """How failback or drain asks for moves; an absent field keeps a setting."""

    mode: _Mode | None = None
    after_s: Annotated[Seconds, DURATION] | None = msgspec.field(default=None, name="after")
    headroom_percent: Annotated[Percent, PERCENTAGE] | None = msgspec.field(default=None, name="headroom")


class RebalanceOverride(Value, frozen=True):
    """How drift asks for moves; an absent field keeps a setting."""

    mode: _Mode | None = None
    after_s: Annotated[Seconds, DURATION] | None = msgspec.field(default=None, name="after")
    tolerance_percent: Annotated[Percent, PERCENTAGE] | None = msgspec.field(default=None, name="tolerance")
    min_gain_percent: Annotated[Percent, PERCENTAGE] | None = msgspec.field(default=None, name="minGain")


class MoveOverrides(Value, frozen=True):
    """Settings that a file states; an absent field keeps a setting."""

    failback: SourceOverride = SourceOverride()
    drain: SourceOverride = SourceOverride()
    rebalance: RebalanceOverride = RebalanceOverride()
    strategy: MoveStrategy | None = None
    volumes: VolumeLoss | None = None
    soak_s: Annotated[Seconds, DURATION] | None = msgspec.field(default=None, name="soak")
    deadline_s: Annotated[Seconds, DURATION] | None = msgspec.field(default=None, name="deadline")

    def applied(self, settings: MoveSettings) -> MoveSettings:
        return replace(
            settings,
            **{name: value for name, value in stated_settings(self).items() if name in _PLAIN},
            **{name: replace(getattr(settings, name), **stated_settings(getattr(self, name))) for name in MOVE_SOURCES},
        )

    def with_modes(self, mode: Mode | None) -> Self:
        """Return the overrides with one mode of all sources; None keeps the modes of the settings."""
        return structs.replace(self, **{name: structs.replace(getattr(self, name), mode=mode) for name in MOVE_SOURCES})


NO_SOURCE: Final = MoveOverrides().with_modes("Off")
"""No source asks for moves."""


def stated_settings(override: SourceOverride | RebalanceOverride | MoveOverrides) -> dict[str, Any]:
    """Return the settings that an override states, as plain values."""
    found = {name: value for name, value in structs.asdict(override).items() if value is not None}
    modes: dict[bool, Mode] = {True: "On", False: "Off"}
    return {
        name: modes[value] if isinstance(value, bool) else int(value) if isinstance(value, int) else value
        for name, value in found.items()
    }


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
    for part in comma_separated(text) if text.strip() != "true" else ():
        name, equals, value = (each.strip() for each in part.partition("="))
        if not equals:
            raise FieldError("", f"{shown(part)} is not NAME=VALUE; {_FAILBACK_FORM}")
        if name not in {"after", "headroom", "mode"}:
            raise FieldError("", f"{shown(name)} is unknown; {_FAILBACK_FORM}")
        stated[name] = value
    modes = {each.lower(): each for each in get_args(Mode)}
    if (mode := stated.get("mode")) is not None:
        stated["mode"] = modes.get(mode.lower(), mode)
    return replace(settings, **{"mode": "On", **stated_settings(convert(SourceOverride, stated))})
