"""Turns: one thread at a time, and the next one is chosen.

Reviews come before the plans of people, and changes that would be stored before dry runs. Of several, the one of the
user comes first who had the least time lately: no user takes the time of the others by many requests.
"""

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Final, NamedTuple

from berthmaster.runtime.clock import Clock

_HALF_S: Final = 10.0
"""After this time, the time that a user had counts half."""
_MAX_USERS: Final = 1_024
_PLANS_SHARE: Final = 10
"""Of so many turns in a row, one is for a plan if one waits."""


class Rank(IntEnum):
    """What a turn is for. Lower numbers come first."""

    STORED = 0
    """The review of a change that would be stored."""
    DRY_RUN = 1
    PLAN = 2
    """A plan of people, or the long plan of a review."""


class Turn(NamedTuple):
    """What a turn is for, and whose it is. The user is empty if it is not known."""

    rank: Rank
    user: str = ""


class UserTimes:
    """The time that each user had lately. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._times: dict[str, tuple[float, float]] = {}

    def add(self, user: str, seconds: float, now_s: float) -> None:
        with self._lock:
            had_s = _left(self._times.pop(user, (0.0, now_s)), now_s)
            self._times[user] = had_s + seconds, now_s
            if len(self._times) > _MAX_USERS:
                del self._times[min(self._times, key=lambda each: _left(self._times[each], now_s))]

    def of(self, user: str, now_s: float) -> float:
        """Return the seconds that a user had. Older ones count less."""
        with self._lock:
            return _left(self._times.get(user, (0.0, now_s)), now_s)


def _left(time: tuple[float, float], now_s: float) -> float:
    seconds, at_s = time
    return float(seconds * 0.5 ** ((now_s - at_s) / _HALF_S))


class _Waiting(NamedTuple):
    turn: Turn
    number: int


class FairTurns:
    """Gives one turn at a time. Safe for several threads.

    Attributes:
        times: the time that each user had. Several ``FairTurns`` may share it.
    """

    def __init__(self, times: UserTimes | None = None) -> None:
        self.times = times or UserTimes()
        self._changed = threading.Condition()
        self._numbers = itertools.count()
        self._waiting: list[_Waiting] = []
        self._held = False
        self._before_plan = 0

    @contextmanager
    def held(self, turn: Turn, clock: Clock, within_s: float | None = None) -> Iterator[bool]:
        """Hold a turn during the context. Yields False, without a turn, if none was free in time; None is no limit."""
        if not self._take(_Waiting(turn, next(self._numbers)), clock, within_s):
            yield False
            return
        begun_s = clock.monotonic_s()
        try:
            yield True
        finally:
            now_s = clock.monotonic_s()
            self.times.add(turn.user, now_s - begun_s, now_s)
            with self._changed:
                self._held = False
                self._changed.notify_all()

    def _take(self, waiting: _Waiting, clock: Clock, within_s: float | None) -> bool:
        with self._changed:
            self._waiting.append(waiting)
            try:
                taken = self._changed.wait_for(
                    lambda: not self._held and self._first(clock.monotonic_s()) == waiting, within_s
                )
            finally:
                self._waiting.remove(waiting)
                self._changed.notify_all()
            if taken:
                self._held = True
                self._before_plan = 0 if waiting.turn.rank is Rank.PLAN else self._before_plan + 1
            return taken

    def _first(self, now_s: float) -> _Waiting:
        """Return who is next."""

        def order(each: _Waiting) -> tuple[int, float, int]:
            return each.turn.rank, self.times.of(each.turn.user, now_s), each.number

        plans = [each for each in self._waiting if each.turn.rank is Rank.PLAN]
        return min(plans if plans and self._before_plan >= _PLANS_SHARE - 1 else self._waiting, key=order)
