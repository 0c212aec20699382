"""Answers that take longer than a request may: another process computes them, and each request waits for a short time.

A worker computes one question at a time, and each kind of question at most a tenth of the time. If there is no result
for the present state, a request gets the last result with its version and its time. If there is no result at all, the
request is refused with the progress of the computation. A computation ends early if no client requests its result any
more and another question waits.
"""

import threading
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Final, Generic, NamedTuple, TypeVar

from msgspec import UNSET, UnsetType

from berthmaster.model.errors import InputError
from berthmaster.native_api.wire import Progress
from berthmaster.runtime.logs import log_exceptions
from extender.protocols.problem import Refusal
from extender.protocols.services import Call, Services

LIMIT_S: Final = 900.0
"""The longest computation."""
PATIENCE_S: Final = 60.0
"""How long after the last request for it a computation continues while another question waits."""
WAIT_S: Final = 2.0
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
Compute = Callable[[Services, Question, datetime, "Run[Question]"], Content]


class TooLong(Exception):  # noqa: N818 - a limit, not an error
    """The computation has reached its limit."""


class Abandoned(Exception):  # noqa: N818 - a decision, not an error
    """No client requests the result, and another question waits."""


class Computed(NamedTuple, Generic[Content]):
    """The result for one version of the state. Without ``content``, ``problem`` says why."""

    version: str
    computed_at: datetime
    content: Content | None = None
    problem: str = ""


class BackgroundTexts(NamedTuple):
    """What requests are told without a result: ``about`` is what is computed."""

    about: str
    waits: str
    fails: str
    too_long: str


class Run(Generic[Question]):
    """A computation under way. It is called often, and may raise an exception that ends it.

    Attributes:
        done, total: its progress, for those who wait.
        asked_s: the time until which a request waits for the result. In the past if no request waits.
        blocks: whether another question waits.
    """

    def __init__(self, services: Services, question: Question) -> None:
        self.question, self.begun_at = question, services.clock.now()
        self.begun_s = self.asked_s = services.clock.monotonic_s()
        self.done = self.total = 0
        self.blocks = False
        self._services = services

    def __call__(self) -> None:
        self._services.reviews.pause()
        now_s = self._services.clock.monotonic_s()
        if now_s >= self.begun_s + LIMIT_S:
            raise TooLong
        if self.blocks and now_s >= self.asked_s + PATIENCE_S:
            raise Abandoned


class Background(Generic[Question, Content]):
    """Keeps the last result of each question, and computes new ones in a thread."""

    def __init__(
        self, name: str, texts: Callable[[Question], BackgroundTexts], compute: Compute[Question, Content]
    ) -> None:
        """Start without results. ``compute`` calls its last argument often, which may end it."""
        self._name, self._texts, self._compute = name, texts, compute
        self._changed = threading.Condition()
        self._results: dict[Question, Computed[Content]] = {}
        self._running: Run[Question] | None = None
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
            if self._running is not None or clock.monotonic_s() < self._rests_until_s:
                return
            if known is None or (
                known.version != version and (clock.now() - known.computed_at).total_seconds() >= after_s
            ):
                self._want(services, question, clock.monotonic_s())

    def _result(self, services: Services, call: Call, question: Question, *, wait: bool) -> Computed[Content]:
        clock, version = services.clock, services.state.version
        begun_s, due_s = clock.monotonic_s(), call.deadline_s - _RESERVE_S
        with self._changed:
            if question in self._results or not wait:
                due_s = min(due_s, begun_s + (WAIT_S if wait or question not in self._results else 0.0))
            while True:
                known = self._results.get(question)
                if known is not None and known.version == version:
                    return known
                now_s = clock.monotonic_s()
                rests = known is not None and now_s < self._rests_until_s
                if not rests:
                    self._want(services, question, due_s)
                if not wait and known is None and self._running is not None:
                    due_s = min(due_s, self._running.begun_s + WAIT_S)  # one that takes longer is not waited for
                if rests or now_s >= due_s or not self._changed.wait(due_s - now_s):
                    break
            known, run = self._results.get(question), self._running
        if known is None:
            raise Refusal(503, self._texts(question).waits, headers=_RETRY, progress=self._progress(run, question))
        return known

    def _progress(self, run: Run[Question] | None, question: Question) -> Progress | UnsetType:
        if run is None:
            return UNSET
        about = self._texts(run.question).about
        return Progress(about, run.begun_at, run.done, run.total, first=run.question != question)

    def _want(self, services: Services, question: Question, until_s: float) -> None:
        """Start the computation, or note until when a request waits for it."""
        if self._running is None:
            self._running = run = Run(services, question)
            threading.Thread(target=partial(self._run, services, run), name=self._name, daemon=True).start()
        if self._running.question == question:
            self._running.asked_s = max(self._running.asked_s, until_s)
        else:
            self._running.blocks = True

    def _run(self, services: Services, run: Run[Question]) -> None:
        question, texts = run.question, self._texts(run.question)
        crashed = Computed[Content](services.state.version, services.clock.now(), problem=f"{texts.fails}; see the log")
        results: list[Computed[Content] | None] = [crashed]
        with services.background:
            run.begun_s = services.clock.monotonic_s()
            log_exceptions(lambda: results.append(self._computed(services, run)), services.log, texts.fails)
        now_s = services.clock.monotonic_s()
        with self._changed:
            if (result := results[-1]) is not None:
                self._results.pop(question, None)
                self._results[question] = result
            while len(self._results) > _KEPT:
                del self._results[next(iter(self._results))]
            self._running = None
            self._rests_until_s = now_s + _REST * (now_s - run.begun_s)
            self._changed.notify_all()

    def _computed(self, services: Services, run: Run[Question]) -> Computed[Content] | None:
        version, now = services.state.version, run.begun_at
        try:
            return Computed(version, now, self._compute(services, run.question, now, run))
        except Abandoned:
            return None
        except TooLong:
            return Computed(version, now, problem=self._texts(run.question).too_long)
        except InputError as error:
            return Computed(version, now, problem=str(error))
