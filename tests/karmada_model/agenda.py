"""What the controllers of the model have to do: keys to reconcile now, and keys that wait for a time."""

import heapq
import random
from collections.abc import Callable, Hashable
from typing import Final, NamedTuple, Protocol

from karmada_model.objects import News

MAX_STEPS: Final = 100_000


class Controller(Protocol):
    """A controller: it maps changes of objects to tasks on the agenda."""

    def observe(self, news: News) -> None:
        """Queue the tasks that a change asks for."""


class Task(NamedTuple):
    """A key to reconcile. Tasks of one lane run in the order in which they were queued."""

    lane: str
    key: Hashable


class Agenda:
    """The queues of all controllers. Each task is queued once.

    Attributes:
        held: the lanes whose tasks wait, as if their controller were out of service.

    Args:
        monotonic_s: the time.
        chance: chooses the lane of the next step; None takes the lane that waits longest.
    """

    def __init__(self, monotonic_s: Callable[[], float], chance: random.Random | None = None) -> None:
        self.now_s = monotonic_s
        self._chance = chance
        self._due: dict[Task, Callable[[], object]] = {}
        self._later: list[tuple[float, int, Task, Callable[[], object]]] = []
        self._count = 0
        self.held: set[str] = set()

    def add(self, lane: str, key: Hashable, run: Callable[[], object]) -> None:
        self._due.setdefault(Task(lane, key), run)

    def add_after(self, seconds: float, lane: str, key: Hashable, run: Callable[[], object]) -> None:
        self._count += 1
        heapq.heappush(self._later, (self.now_s() + seconds, self._count, Task(lane, key), run))

    def next_s(self) -> float | None:
        """Return the seconds until the next task is due; None without tasks."""
        if any(each.lane not in self.held for each in self._due):
            return 0.0
        return max(0.0, self._later[0][0] - self.now_s()) if self._later else None

    def step(self) -> bool:
        while self._later and self._later[0][0] <= self.now_s():
            _, _, task, run = heapq.heappop(self._later)
            self._due.setdefault(task, run)
        due = [each for each in self._due if each.lane not in self.held]
        if not due:
            return False
        task = due[0]
        if self._chance is not None:
            lane = self._chance.choice(sorted({each.lane for each in due}))
            task = next(each for each in due if each.lane == lane)
        self._due.pop(task)()
        return True
