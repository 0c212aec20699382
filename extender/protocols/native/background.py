"""Answers that take longer than a request may: a thread computes them, and a request waits for it a little.

The thread computes one question at a time for each process, and at most a tenth of the time. Without a result for the
present state a request gets the last one, which says its version and when it was computed. Without any result it is
refused, and a later one finds it.
"""

import threading
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Final, Generic, NamedTuple, TypeVar

from berthmaster.model.errors import InputError
from berthmaster.runtime.logs import log_exceptions
from extender.protocols.problem import Refusal
from extender.protocols.services import Call, Services

LIMIT_S: Final = 300.0
"""The longest computation."""
_WAIT_S: Final = 2.0
"""How long a request waits for a result for the present state if there is an earlier one or it shall not wait."""
_RESERVE_S: Final = 0.5
"""The part of the time of a request in which its answer is written."""
_REST: Final = 9
"""How long the thread rests after a computation, as a multiple of its duration."""
_KEPT: Final = 4
"""The most questions whose last result is kept."""
_RETRY: Final = (("Retry-After", "2"),)

Question = TypeVar("Question")
Content = TypeVar("Content")
Compute = Callable[[Services, Question, datetime, Callable[[], None]], Content]


class _TooLong(Exception):  # noqa: N818 - a limit, not an error
    """The computation has reached its limit."""


class Computed(NamedTuple, Generic[Content]):
    """The result for one version of the state. Without ``content``, ``problem`` says why."""

    version: str
    computed_at: datetime
    content: Content | None = None
    problem: str = ""


class BackgroundTexts(NamedTuple):
    """What requests are told without a result."""

    waits: str
    fails: str
    too_long: str


class Background(Generic[Question, Content]):
    """Keeps the last result of each question, and computes new ones in a thread."""

    def __init__(
        self, name: str, texts: Callable[[Question], BackgroundTexts], compute: Compute[Question, Content]
    ) -> None:
        """Start without results.

        Args:
            compute: returns the content for a question. It calls its last argument often, which may end it.
        """
        self._name, self._texts, self._compute = name, texts, compute
        self._changed = threading.Condition()
        self._results: dict[Question, Computed[Content]] = {}
        self._running = False
        self._rests_until_s = float("-inf")

    def answer(
        self, services: Services, call: Call, question: Question, *, wait: bool = True
    ) -> tuple[Computed[Content], Content]:
        """Return the result for a question, and its content. Without ``wait`` the last result is good enough."""
        found = self._result(services, call, question, wait=wait)
        if found.content is None:
            raise Refusal(503, found.problem, headers=_RETRY)
        return found, found.content

    def refresh(self, services: Services, question: Question, *, after_s: float) -> None:
        """Compute a result for the present state if the last one is older than ``after_s``. Does not wait for it."""
        clock, version = services.clock, services.state.version
        with self._changed:
            known = self._results.get(question)
            if self._running or clock.monotonic_s() < self._rests_until_s:
                return
            if known is None or (
                known.version != version and (clock.now() - known.computed_at).total_seconds() >= after_s
            ):
                self._start(services, question)

    def _result(self, services: Services, call: Call, question: Question, *, wait: bool) -> Computed[Content]:
        clock, version = services.clock, services.state.version
        begun_s, due_s = clock.monotonic_s(), call.deadline_s - _RESERVE_S
        with self._changed:
            if question in self._results or not wait:
                due_s = min(due_s, begun_s + (_WAIT_S if wait or question not in self._results else 0.0))
            while True:
                known = self._results.get(question)
                if known is not None and known.version == version:
                    return known
                now_s = clock.monotonic_s()
                rests = known is not None and now_s < self._rests_until_s
                if not self._running and not rests:
                    self._start(services, question)
                if rests or now_s >= due_s or not self._changed.wait(due_s - now_s):
                    break
            known = self._results.get(question)
        if known is None:
            raise Refusal(503, self._texts(question).waits, headers=_RETRY)
        return known

    def _start(self, services: Services, question: Question) -> None:
        self._running = True
        threading.Thread(target=partial(self._run, services, question), name=self._name, daemon=True).start()

    def _run(self, services: Services, question: Question) -> None:
        begun_s, texts = services.clock.monotonic_s(), self._texts(question)
        results = [
            Computed[Content](services.state.version, services.clock.now(), problem=f"{texts.fails}; see the log")
        ]
        log_exceptions(lambda: results.append(self._computed(services, question)), services.log, texts.fails)
        now_s = services.clock.monotonic_s()
        with self._changed:
            self._results.pop(question, None)
            self._results[question] = results[-1]
            while len(self._results) > _KEPT:
                del self._results[next(iter(self._results))]
            self._running = False
            self._rests_until_s = now_s + _REST * (now_s - begun_s)
            self._changed.notify_all()

    def _computed(self, services: Services, question: Question) -> Computed[Content]:
        clock, version = services.clock, services.state.version
        until_s = clock.monotonic_s() + LIMIT_S

        def check() -> None:
            services.reviews.pause()
            if clock.monotonic_s() >= until_s:
                raise _TooLong

        now = clock.now()
        try:
            return Computed(version, now, self._compute(services, question, now, check))
        except _TooLong:
            return Computed(version, now, problem=self._texts(question).too_long)
        except InputError as error:
            return Computed(version, now, problem=str(error))
