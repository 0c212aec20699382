"""Options that hold a time: seconds, or a duration as kubectl writes it."""

import math
import re
from typing import Any, Final

import click

_PART: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|s|m|h|d)")
_DURATION: Final = re.compile(rf"(?:{_PART.pattern})+")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_ACCEPTED: Final = "accepted are seconds such as 90, and durations such as 500ms, 90s, 5m and 1h30m"


def seconds_of(text: str) -> float | None:
    """Return the seconds of a duration such as ``1h30m``; None for another text."""
    if _DURATION.fullmatch(text) is None:
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))


class DurationRange(click.FloatRange):
    """A time within bounds, in seconds.

    ``whole``: whether it is a whole number of seconds.
    """

    name = "duration"

    def __init__(self, bounds: click.FloatRange | click.IntRange) -> None:
        super().__init__(bounds.min, bounds.max, bounds.min_open, bounds.max_open)
        self.whole = isinstance(bounds, click.IntRange)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        given = value if not isinstance(value, str) else seconds_of(value.strip())
        try:
            number = float(value if given is None else given)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            self.fail(f"{value!r} is no time; {_ACCEPTED}", param, ctx)
        found = super().convert(number, param, ctx)
        if self.whole and not found.is_integer():
            self.fail(f"{value!r} is no whole number of seconds", param, ctx)
        return int(found) if self.whole else found
