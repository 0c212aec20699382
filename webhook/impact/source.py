"""The impact of changes, as the extender computes it, within the time of a review."""

import queue
import threading
from functools import partial
from typing import Final, Protocol

from berthmaster.model.errors import FieldError
from berthmaster.runtime.clock import Clock
from webhook.admission.impact import Impact, NotComputed, PolicyChange, Unanswered
from webhook.impact.answer import impact_of, plan_request, problem_of
from webhook.impact.breaker import Breaker
from webhook.impact.extender_client import ExtenderAnswer, UnreachableError

_LEAST_S: Final = 0.02
"""Without this much time, no question is worth it."""
_COMPUTING: Final = 0.8
"""The share of the time in which the extender computes. The rest is for the way."""
_LATE_S: Final = 0.1
"""The time that a request may take longer than its review waits."""
_SLOW: Final = 0.5
"""The share of the time from which on a refusal is slow."""
_NO_ANSWER: Final = frozenset({Unanswered.TIMEOUT, Unanswered.UNREACHABLE})
_OK: Final = 200
_NOT_FOUND: Final = 404
_NOT_READY: Final = frozenset({409, 429, 503})
_SIZES: Final = ((0, "0"), (10, "1-10"), (100, "11-100"), (1000, "101-1000"))


class PlanClient(Protocol):
    """Sends a request for a plan to the extender."""

    def post(self, body: bytes, timeout_s: float) -> ExtenderAnswer:
        """Return the answer. May take longer than ``timeout_s``.

        Raises:
            UnreachableError: there is no answer.
        """


class ImpactMetrics(Protocol):
    """The metrics of impacts."""

    def answered(self, result: str, size: str, seconds: float, open_breakers: int) -> None:
        """Count an impact.

        Args:
            result: ``computed``, ``incomplete``, or a value of ``Unanswered``.
            size: the class of the number of workloads that move; empty if it is not known.
            seconds: how long the review waited.
            open_breakers: 1 if the breaker is open, else 0.
        """


class ExtenderImpact:
    """Asks the extender for the impact of changes. Safe for several threads.

    Each question has a thread of its own, and the caller waits for it no longer than its time: a slow resolver of names
    or a slow peer cannot hold up a review. The number of these threads is bounded.
    """

    def __init__(
        self, client: PlanClient, clock: Clock, metrics: ImpactMetrics, *, timeout_s: float, concurrency: int = 8
    ) -> None:
        """Set up the source.

        Args:
            client: sends the questions.
            clock: the clock.
            metrics: counts the answers.
            timeout_s: the longest time that a review waits.
            concurrency: the most questions at once.
        """
        self._client = client
        self._clock = clock
        self._metrics = metrics
        self._timeout_s = timeout_s
        self._free = threading.Semaphore(concurrency)
        self._breaker = Breaker(clock)

    def ask(self, change: PolicyChange, left_s: float) -> Impact | NotComputed:
        """Return the impact of a change. Never raises.

        Args:
            change: the change.
            left_s: the time that the review has left.
        """
        begun_s = self._clock.monotonic_s()
        answer = self._answer(change, min(self._timeout_s, left_s))
        seconds = self._clock.monotonic_s() - begun_s
        self._metrics.answered(_result(answer), _size(answer), seconds, int(self._breaker.is_open))
        return answer

    def _answer(self, change: PolicyChange, timeout_s: float) -> Impact | NotComputed:
        if timeout_s < _LEAST_S:
            return NotComputed(Unanswered.NO_TIME, "the review has no time left")
        if not self._free.acquire(blocking=False):
            return NotComputed(Unanswered.BUSY, "too many reviews wait for the extender")
        refusal = self._breaker.refusal()
        if refusal:
            self._free.release()
            return NotComputed(Unanswered.BREAKER, refusal)
        begun_s = self._clock.monotonic_s()
        answers: queue.SimpleQueue[Impact | NotComputed] = queue.SimpleQueue()
        threading.Thread(
            target=partial(self._ask, change, timeout_s, answers), name="impact", daemon=True
        ).start()  # fmt: skip
        try:
            answer = answers.get(timeout=timeout_s)
        except queue.Empty:
            answer = NotComputed(
                Unanswered.TIMEOUT, f"the extender did not answer within {round(timeout_s * 1000)} ms"
            )  # fmt: skip
        self._judge(answer, slow=self._clock.monotonic_s() - begun_s > timeout_s * _SLOW)
        return answer

    def _ask(self, change: PolicyChange, timeout_s: float, answers: "queue.SimpleQueue[Impact | NotComputed]") -> None:
        """Ask in a thread of its own. The answer may come too late."""
        try:
            body = plan_request(change, timeout_s * _COMPUTING)
            answers.put(_read(self._client.post(body, timeout_s + _LATE_S)))
        except UnreachableError as error:
            answers.put(NotComputed(Unanswered.UNREACHABLE, f"the extender cannot be reached: {error}"))
        finally:
            self._free.release()

    def _judge(self, answer: Impact | NotComputed, *, slow: bool) -> None:
        """Report to the breaker. A quick refusal costs nothing, and the next change may be answered."""
        useless = isinstance(answer, NotComputed) and (
            answer.kind in _NO_ANSWER or (slow and answer.kind is Unanswered.NOT_READY)
        )
        if isinstance(answer, NotComputed) and useless:
            self._breaker.failed(answer.reason)
        else:
            self._breaker.succeeded()


def _read(answer: ExtenderAnswer) -> Impact | NotComputed:
    if answer.status == _OK:
        try:
            return impact_of(answer.content)
        except FieldError as error:
            return NotComputed(Unanswered.INVALID, f"the answer of the extender cannot be read: {error}")
    if answer.status == _NOT_FOUND:
        return NotComputed(Unanswered.REFUSED, "the extender has no path /v1/plan; is it an older version?")
    try:
        detail = problem_of(answer.content)
    except FieldError:
        detail = "without a reason"
    if answer.status in _NOT_READY:
        return NotComputed(Unanswered.NOT_READY, detail)
    return NotComputed(Unanswered.REFUSED, f"the extender answered {answer.status}: {detail}")


def _result(answer: Impact | NotComputed) -> str:
    if isinstance(answer, NotComputed):
        return answer.kind.value
    return "computed" if answer.complete else "incomplete"


def _size(answer: Impact | NotComputed) -> str:
    if isinstance(answer, NotComputed):
        return ""
    return next((name for most, name in _SIZES if answer.moved <= most), "1001+")
