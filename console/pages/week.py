"""The figures of the last days as the page History draws them: pure functions of the answer of the extender."""

from collections.abc import Callable, Sequence
from datetime import date
from operator import attrgetter
from typing import Final, NamedTuple

from berthmaster.native_api.days import FleetDay, FleetDays
from berthmaster.native_api.fleet import Restriction

HEIGHT: Final = 40
_FIGURES: Final[Sequence[tuple[Restriction, str, Callable[[FleetDay], int]]]] = (
    (Restriction.NOWHERE, "Nowhere", attrgetter("nowhere")),
    (Restriction.SHORT, "Too few replicas", attrgetter("short")),
    (Restriction.NOT_PREFERRED, "Not preferred", attrgetter("not_preferred")),
    (Restriction.MOVING, "Moving", attrgetter("moving")),
)


class Bar(NamedTuple):
    """One day of a figure. ``height`` is a part of ``HEIGHT``; at least 1 for any number except 0."""

    date: date
    number: int
    height: int


class WeekFigure(NamedTuple):
    """A figure over the last days.

    Attributes:
        only: the restriction of the list of workloads that it counts now.
        now: the number now.
        bars: the days, the first one first. Of a day without a record the number is not known: it has no bar.
    """

    only: str
    title: str
    now: int
    bars: Sequence[Bar]


class ShownWeek(NamedTuple):
    """The figures, their numbers by day, today first, and the answer that they are made of."""

    found: FleetDays
    figures: Sequence[WeekFigure]
    days: Sequence[tuple[FleetDay, Sequence[int]]]


def shown_week(found: FleetDays) -> ShownWeek:
    figures = []
    for only, title, number_of in _FIGURES:
        numbers = [number_of(day) for day in found.days]
        most = max(numbers, default=0)
        bars = [_bar(day, number, most) for day, number in zip(found.days, numbers, strict=True)]
        figures.append(WeekFigure(only.value, title, numbers[0] if numbers else 0, bars[::-1]))
    days = [(day, [number_of(day) for _, _, number_of in _FIGURES]) for day in found.days]
    return ShownWeek(found, figures, days)


def _bar(day: FleetDay, number: int, most: int) -> Bar:
    return Bar(day.date, number, max(1, round(HEIGHT * number / most)) if number else 0)
