"""The impact of changes, as the extender computes it, within the time of a review."""

import contextvars
import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Final

from berthmaster.model.decode import decode_json
from berthmaster.model.errors import FieldError
from berthmaster.native_api.connection import REVIEW_PATH, Answer, UnansweredError
from berthmaster.native_api.wire import NOT_READY, Problem
from berthmaster.runtime.clock import Clock
from webhook.admission.blast_radius import BlastRadius
from webhook.admission.impact import NotComputed, PolicyImpact, ReviewedChange, Unanswered
from webhook.circuit_breaker import Breaker
from webhook.extender_client import LATE_S, ReviewClient
from webhook.extender_wire import impact_of, review_request
from webhook.turns import Turns

_LEAST_S: Final = 0.02
"""Without this much time, no question is worth it."""
_COMPUTING: Final = 0.8
"""The share of the time in which the extender computes. The rest is for the way."""
_OK: Final = 200
_NOT_FOUND: Final = 404
_NO_EXTENDER: Final = frozenset({401, 403, _NOT_FOUND, 405, 502, 504})
"""The statuses that do not depend on the change: other credentials, another service, or a proxy without one."""
_SIZES: Final = ((0, "0"), (10, "1-10"), (100, "11-100"), (1000, "101-1000"))
CountAnswer = Callable[[str, str, float, int], None]
"""Count an impact: its result (``computed``, ``incomplete``, ``bounded``, or a value of ``Unanswered``), the class of
the number of workloads that move (empty if it is not known), the seconds that it took, and how many breakers are open.
"""


class ExtenderImpact:
    """Asks the extender for the impact of changes. Safe for several threads.

    Each question has a thread of its own, and the caller waits for it no longer than its time: a slow resolver of names
    or a slow peer cannot hold up a review. The number of these threads is bounded, and shared fairly by ``Turns``.
    """

    def __init__(
        self,
        client: ReviewClient,
        clock: Clock,
        count: CountAnswer,
        *,
        timeout_s: float,
        concurrency: int = 8,
        limits: BlastRadius | None = None,
    ) -> None:
        """Set up the source.

        Args:
            limits: the limits of the gate; None if it is off. A change above a limit is not planned in full.
        """
        self._client = client
        self._clock = clock
        self._count = count
        self._timeout_s = timeout_s
        self._limits = limits
        self._turns = Turns(concurrency)
        self._breaker = Breaker(clock)

    def ask(self, change: ReviewedChange, left_s: float) -> PolicyImpact | NotComputed:
        """Return the impact of a change. Never raises."""
        begun_s = self._clock.monotonic_s()
        answer = self._answer(change, min(self._timeout_s, left_s))
        seconds = self._clock.monotonic_s() - begun_s
        result = answer.kind.value if isinstance(answer, NotComputed) else answer.extent
        self._count(result, _size(answer), seconds, int(self._breaker.is_open))
        return answer

    def _answer(self, change: ReviewedChange, timeout_s: float) -> PolicyImpact | NotComputed:
        if timeout_s < _LEAST_S:
            return NotComputed(Unanswered.NO_TIME, "the review has no time left")
        until_s = self._clock.monotonic_s() + timeout_s
        if not self._turns.take(change, timeout_s - _LEAST_S):
            return NotComputed(Unanswered.BUSY, "other changes took all the time of the review")
        refusal = self._breaker.refusal()
        if refusal is not None:
            self._turns.give_back(change)
            return refusal
        left_s = max(_LEAST_S, until_s - self._clock.monotonic_s())
        answers: queue.SimpleQueue[PolicyImpact | NotComputed] = queue.SimpleQueue()
        threading.Thread(
            target=partial(contextvars.copy_context().run, self._ask, change, left_s, answers),
            name="impact",
            daemon=True,
        ).start()
        try:
            answer = answers.get(timeout=left_s)
        except queue.Empty:
            answer = NotComputed(Unanswered.TIMEOUT, f"the extender did not answer within {round(timeout_s * 1000)} ms")
        self._report(change, answer)
        return answer

    def _ask(
        self, change: ReviewedChange, timeout_s: float, answers: "queue.SimpleQueue[PolicyImpact | NotComputed]"
    ) -> None:
        """Ask in a thread of its own. The answer may come too late."""
        try:
            body = review_request(change, self._limits, timeout_s * _COMPUTING)
            answers.put(_read(self._client.post(body, timeout_s + LATE_S)))
        except UnansweredError as error:
            kind = Unanswered.UNREACHABLE if error.unreachable else Unanswered.TIMEOUT
            answers.put(NotComputed(kind, f"the extender {error.problem}", error.unreachable))
        finally:
            self._turns.give_back(change)

    def _report(self, change: ReviewedChange, answer: PolicyImpact | NotComputed) -> None:
        """Report to the breaker. A refusal costs little, and a slow dry run never opens the breaker."""
        if isinstance(answer, PolicyImpact):
            self._breaker.succeeded()
        elif answer.kind is Unanswered.UNREACHABLE:
            self._breaker.failed(answer)
        elif answer.kind is Unanswered.TIMEOUT:
            if not change.dry_run:
                self._breaker.failed(answer, slow=f"{change.kind} {change.namespace}/{change.name}")
        else:
            self._breaker.succeeded()


def _read(answer: Answer) -> PolicyImpact | NotComputed:
    if answer.status == _OK:
        try:
            return impact_of(answer.content)
        except FieldError as error:
            return NotComputed(Unanswered.INVALID, f"the answer of the extender cannot be read: {error}")
    if answer.status == _NOT_FOUND:
        reason = f"the extender has no path {REVIEW_PATH}; is it an older version?"
        return NotComputed(Unanswered.REFUSED, reason, unreachable=True)
    try:
        problem = decode_json(Problem, answer.content)
    except FieldError:
        problem = Problem("", answer.status, "without a reason")
    if problem.type == NOT_READY:
        return NotComputed(Unanswered.NOT_READY, problem.detail, unreachable=True)
    reason = f"the extender answered {answer.status}: {problem.detail}"
    return NotComputed(Unanswered.REFUSED, reason, unreachable=answer.status in _NO_EXTENDER)


def _size(answer: PolicyImpact | NotComputed) -> str:
    if isinstance(answer, NotComputed):
        return ""
    return next((name for most, name in _SIZES if answer.moved <= most), "1001+")
