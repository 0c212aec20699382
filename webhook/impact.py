"""The impact of changes, as the extender computes it, within the time of a review.

A breaker: stops requests to a service that keeps failing, and tries it again from time to time. Turns at the extender:
how many questions are asked at once, and whose.
"""

import contextvars
import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, Protocol

from berthmaster.model.decode import decode_json, encode_json
from berthmaster.model.errors import FieldError
from berthmaster.native_api.connection import (
    REVIEW_PATH,
    Answer,
    ExtenderAccess,
    ServiceConnection,
    UnansweredError,
)
from berthmaster.native_api.what_if import ReviewAnswer, ReviewedWorkload
from berthmaster.native_api.wire import NOT_READY, Problem
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.logs import inner_span
from berthmaster.serving.reloaded_files import ReloadedFiles, read_regular_file
from webhook.admission.impact import BlastRadius, NotComputed, PolicyImpact, ReviewedChange, Unanswered, line

MAX_ANSWER_BYTES: Final = 256 * 2**10
_CHECK_S: Final = 1.0
_PAUSES_S: Final = (0.0, 0.05, 0.1)
"""The pauses before a broken connection is tried again. A process that ends refuses connections by then."""
_LEAST_S: Final = 0.02
"""Without this much time, no question is worth it."""
_MAX_USER: Final = 1_024
_COMPUTING: Final = 0.8
"""The share of the time in which the extender computes. The rest is for the way."""
_LATE_S: Final = 0.1
"""The time that a request may take longer than its review waits."""
_OK: Final = 200
_NOT_FOUND: Final = 404
_NO_EXTENDER: Final = frozenset({401, 403, _NOT_FOUND, 405, 502, 504})
"""The statuses that do not depend on the change: other credentials, another service, or a proxy without one."""
_SIZES: Final = ((0, "0"), (10, "1-10"), (100, "11-100"), (1000, "101-1000"))


class ReviewClient(Protocol):
    """Sends a request for a review to the extender."""

    def post(self, body: bytes, timeout_s: float) -> Answer:
        """Return the answer. May take longer than ``timeout_s``. Raises ``UnansweredError`` if there is none."""


class ExtenderClient:
    """Sends requests for reviews, on connections that stay open. Safe for several threads.

    Files that are missing at the start or become unusable are no reason to stop: only requests fail meanwhile. If new
    files cannot be used, the last valid ones stay in use.
    """

    def __init__(self, access: ExtenderAccess, on_failure: Callable[[Exception], None]) -> None:
        self._access = access
        self._on_failure = on_failure
        self._files: ReloadedFiles[ServiceConnection] | None = None

    def post(self, body: bytes, timeout_s: float) -> Answer:
        """Send a request for a review. Takes longer than ``timeout_s`` at worst: the caller must not wait for it."""
        with inner_span("ask the extender"):
            connection = self._connection().within(timeout_s)
            return connection.ask("POST", REVIEW_PATH, body, most_bytes=MAX_ANSWER_BYTES)

    def _connection(self) -> ServiceConnection:
        if self._files is None:
            try:
                self._files = ReloadedFiles(self._access.files, self._load, self._on_failure, check_interval_s=_CHECK_S)
            except (OSError, ValueError) as error:
                problem = f"cannot be reached: its credentials cannot be used: {error}"
                raise UnansweredError(self._access.url, problem, unreachable=True) from None
        return self._files.content()

    def _load(self) -> ServiceConnection:
        return ServiceConnection(self._access, _LATE_S, _PAUSES_S, read_regular_file)


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
            answers.put(_read(self._client.post(body, timeout_s + _LATE_S)))
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


FAILURES: Final = 3
"""The failures in a row after which the breaker opens. Slow answers to one question are one failure."""
OPEN_S: Final = 5.0
"""The time between two tries while the breaker is open."""


class Breaker:
    """Closed: every request passes. Open: none passes, except one try after each ``OPEN_S``.

    The first success closes the breaker. Safe for several threads.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._slow: set[str] = set()
        self._try_at_s = 0.0
        self._last = NotComputed(Unanswered.BREAKER, "")

    @property
    def is_open(self) -> bool:
        return self._failures >= FAILURES

    def refusal(self) -> NotComputed | None:
        """Return why a request must not be sent; None if it may. Then the caller reports how it went."""
        with self._lock:
            if not self.is_open:
                return None
            left_s = self._try_at_s - self._clock.monotonic_s()
            if left_s <= 0:
                self._try_at_s = self._clock.monotonic_s() + OPEN_S  # one request tries; the others wait for it
                return None
            cause = f"the extender failed {self._failures} times in a row ({self._last.reason})"
            return NotComputed(Unanswered.BREAKER, f"{cause}; retry in {left_s:.0f} s", self._last.unreachable)

    def succeeded(self) -> None:
        with self._lock:
            self._failures = 0
            self._slow.clear()

    def failed(self, answer: NotComputed, slow: str = "") -> None:
        """Count a failure. A failed try keeps the breaker open.

        Args:
            slow: the question, if the extender was too slow for it. The same question counts once.
        """
        with self._lock:
            if slow and slow in self._slow and not self.is_open:
                return
            if slow:
                self._slow.add(slow)
            self._failures += 1
            self._last = answer
            if self.is_open:
                self._try_at_s = self._clock.monotonic_s() + OPEN_S
                self._slow.clear()


class Turns:
    """Counts the questions under way. Safe for several threads.

    A user has at most half of the turns, and one for dry runs. Dry runs have at most a quarter of the turns together: a
    dry run that waits or fails stores nothing and stops nothing.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._dry_runs = max(1, total // 4)
        self._of_author = max(1, total // 2)
        self._changed = threading.Condition()
        self._taken: Counter[tuple[str, bool]] = Counter()

    def take(self, change: ReviewedChange, timeout_s: float) -> bool:
        """Take a turn, and return whether one was free in time. The caller gives it back with ``give_back``."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._is_free(change), timeout_s):
                return False
            self._taken[change.author, change.dry_run] += 1
            return True

    def give_back(self, change: ReviewedChange) -> None:
        with self._changed:
            key = change.author, change.dry_run
            self._taken[key] -= 1
            if not self._taken[key]:
                del self._taken[key]
            self._changed.notify_all()

    def _is_free(self, change: ReviewedChange) -> bool:
        if self._taken.total() >= self._total:
            return False
        own_dry_runs, own = self._taken[change.author, True], self._taken[change.author, False]
        if not change.dry_run:
            return own < self._of_author
        return not own_dry_runs and sum(count for (_, dry), count in self._taken.items() if dry) < self._dry_runs


_MAX_GAPS: Final = 3
_MAX_WORST: Final = 3
_EFFECTS: Final[dict[str, str]] = {"nowhere": "would have no place", "short": "would lack replicas"}


def review_request(change: ReviewedChange, limits: BlastRadius | None, timeout_s: float) -> bytes:
    """Return the body of the request. The extender stops computing when the time is over."""
    body: dict[str, Any] = {"timeoutMs": max(1, round(timeout_s * 1000)), "dryRun": change.dry_run}
    body["user"] = change.author[:_MAX_USER]
    if change.document is None:
        name = {"kind": change.kind, "namespace": change.namespace, "name": change.name}
        body["change"] = {"type": "delete", "policy": name}
    else:
        body["change"] = {"type": "set", "policy": _reduced(change, change.document), "creates": change.creates}
    if limits is not None:
        body |= {"limits": limits.by_name(), "accepts": change.accepts}
    return encode_json(body)


def impact_of(content: bytes) -> PolicyImpact:
    """Return the impact that an answer describes. Raises ``FieldError`` if the answer cannot be decoded."""
    answer = decode_json(ReviewAnswer, content)
    return PolicyImpact(
        plan=answer.id,
        workloads=answer.workloads,
        concerned=answer.concerned,
        moved=answer.moved,
        replicas=answer.replicas,
        lost=answer.lost,
        short=answer.short,
        deleted=answer.deleted_copies,
        complete=answer.complete,
        worst=tuple(line(text) for each in answer.worst for text in _texts(each))[:_MAX_WORST],
        gaps=tuple(answer.gaps[:_MAX_GAPS]),
        planning=answer.planning,
        assumes_preemption=answer.assumes_preemption,
        lazy=answer.lazy,
    )


def _reduced(change: ReviewedChange, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the policy without the metadata that no decision reads."""
    metadata = {"name": change.name, "namespace": change.namespace}
    return {
        "apiVersion": document.get("apiVersion"),
        "kind": change.kind,
        "metadata": metadata,
        "spec": document.get("spec"),
    }


def _texts(workload: ReviewedWorkload) -> Iterator[str]:
    if workload.failure:
        effect = f"{workload.resource} {_EFFECTS[workload.failure]}"
        yield f"{effect}: {workload.message}" if workload.message else effect
    parts = (
        ("leaves", workload.leaves, workload.more_left),
        ("reaches", [_with_replicas(*each) for each in workload.reaches.items()], workload.more_reached),
        ("changes", [f"{name} {a}->{b}" for name, (a, b) in workload.changes.items()], workload.more_changed),
    )
    moves = ", ".join(f"{verb} {_few(names, more)}" for verb, names, more in parts if names)
    if moves and not workload.failure:
        yield f"{workload.resource} {moves}"


def _with_replicas(name: str, replicas: int) -> str:
    return f"{name} ({replicas})" if replicas else name


def _few(names: list[str], more: int) -> str:
    return f"{', '.join(names)} and {more} more" if more else " and ".join(names)
