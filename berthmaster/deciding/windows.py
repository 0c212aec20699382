"""Windows: the times in which a budget is open."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Final, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from cronsim import CronSim, CronSimError

from berthmaster.deciding.config_values import DURATION, PositiveSeconds
from berthmaster.model.errors import InputError, shown
from berthmaster.model.meta import ParsedText, Value

_MAX_SCHEDULE_LENGTH: Final = 256
_FIELDS: Final = 5
_EPOCH: Final = datetime(2024, 1, 1, tzinfo=UTC)
_FORM: Final = (
    "accepted are five fields of cron, minute hour day-of-month month day-of-week, "
    "such as '0 22 * * MON-FRI' for 22:00 on working days"
)
_TEXT: Final = {"type": "string"}


class WindowSeconds(PositiveSeconds):
    """The duration of a window."""

    most_s = 7 * 86400


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


class Window(Value, frozen=True):
    """A time in which a budget is open. It recurs.

    A window starts whenever its schedule fires, and stays open for its duration of elapsed time. A change to or from
    daylight saving time makes no window longer or shorter. Schedules follow Debian's cron (library ``cronsim``): a
    start at a fixed time that the change skips happens directly after the skipped hour, and a start in the hour that
    occurs twice happens once. Schedules with ``*`` in the minute or the hour follow the elapsed time.
    """

    schedule: Annotated[Schedule, msgspec.Meta(description="The starts: five fields of cron.", extra_json_schema=_TEXT)]
    duration_s: Annotated[WindowSeconds, DURATION] = msgspec.field(name="duration")
    time_zone: Annotated[
        TimeZone,
        msgspec.Meta(description="An IANA name, such as Europe/Berlin.", extra_json_schema={**_TEXT, "default": "UTC"}),
    ] = msgspec.field(default_factory=lambda: TimeZone("UTC"))

    def is_open(self, now: datetime) -> bool:
        return self.next_start(now - timedelta(seconds=self.duration_s)) <= now

    def next_start(self, moment: datetime) -> datetime:
        """Return the first start after a time, in UTC."""
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
