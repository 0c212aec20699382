"""A request, and the resources of the service that its handler uses.

Reviews first: long computations of other requests pause while a review is judged.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from berthmaster.model.policy import Policy
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.logs import BurstFilter, fields
from berthmaster.views.policy_rows import PolicyFinding
from extender.protocols.problem import RETRY_SOON, Refusal
from extender.protocols.turns import FairTurns, Turn
from extender.state.state import State

if TYPE_CHECKING:
    from berthmaster.ledger.reader import LedgerReader
    from extender.metrics import ServiceMetrics

_DECISIONS_PER_S: Final = 10.0
_DECISION_BURST: Final = 100
_EMPTY: Final[Mapping[str, str]] = MappingProxyType({})


FindPolicy = Callable[[Policy], Sequence[PolicyFinding]]


class Call(NamedTuple):
    """One request.

    Attributes:
        deadline_s: when the reply is due, on the monotonic clock of ``Services.clock``.
    """

    request_id: str
    deadline_s: float
    body: bytes = b""
    query: Mapping[str, str] = _EMPTY
    path_values: Mapping[str, str] = _EMPTY
    has_gone: Callable[[], bool] = lambda: False

    def until(self, deadline_s: float) -> "Call":
        return self._replace(deadline_s=min(self.deadline_s, deadline_s))


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The limits of one request."""

    body_bytes: int = 32 * 2**20


class DecisionLog:
    """Logs decisions, one line each, up to a rate. The next line has the number of decisions that were not logged."""

    def __init__(self, log: logging.Logger, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._limit = BurstFilter(_DECISIONS_PER_S, _DECISION_BURST, clock)

    def write(
        self, call: Call, protocol: str, verb: str, begun_s: float, details: Callable[[], Mapping[str, Any]]
    ) -> None:
        """Log a decision at level info. ``details`` is called only if the line is written."""
        if not self._log.isEnabledFor(logging.INFO):
            return
        suppressed = self._limit.take()
        if suppressed is None:
            return
        duration_ms = round((self._clock.monotonic_s() - begun_s) * 1e3, 3)
        line = fields(protocol=protocol, verb=verb, **details(), duration_ms=duration_ms, request_id=call.request_id)
        self._log.info("decision", extra={**line, "suppressed": suppressed})


@dataclass(eq=False, slots=True)
class Services:
    """The resources of handlers.

    Attributes:
        log: the log; ``berthmaster.runtime.logs.fields`` adds the request's id.
        findings: returns what the rules of the webhook find in a stored policy; None if they do not run.
        large, background: held by the large request, and by the computation in the background, that is under way.
    """

    state: State
    metrics: "ServiceMetrics"
    log: logging.Logger
    clock: Clock
    limits: RequestLimits = RequestLimits()
    ledger: "LedgerReader | None" = None
    findings: FindPolicy | None = None
    decisions: DecisionLog = field(init=False)
    reviews: "ReviewsFirst" = field(init=False)
    large: threading.Lock = field(default_factory=threading.Lock, init=False)
    background: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        self.decisions = DecisionLog(self.log, self.clock)
        self.reviews = ReviewsFirst()

    @contextmanager
    def one_at_a_time(self, lock: threading.Lock, call: Call, others: str) -> Iterator[None]:
        """Hold a lock during the context, or refuse at the deadline: ``others`` took the time."""
        left_s = max(0.0, call.deadline_s - self.clock.monotonic_s())
        if not lock.acquire(timeout=min(left_s, threading.TIMEOUT_MAX)):
            raise Refusal(503, f"{others} took all the time of the request", headers=RETRY_SOON)
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def turn(self, turns: FairTurns, turn: Turn, call: Call, others: str) -> Iterator[None]:
        """Hold a turn during the context, or refuse at the deadline: ``others`` took the time."""
        with turns.held(turn, self.clock, max(0.0, call.deadline_s - self.clock.monotonic_s())) as held:
            if not held:
                raise Refusal(503, f"{others} took all the time of the request", headers=RETRY_SOON)
            yield

    def give_way(self, call: Call) -> None:
        """Pause while a review is judged; refuse if the answer is not wanted any more."""
        self.reviews.pause()
        self.check_wanted(call)

    def check_wanted(self, call: Call) -> None:
        """Refuse if the deadline has passed, or the client has gone."""
        self.check_deadline(call)
        if call.has_gone():
            raise Refusal(503, "the client has closed the connection")

    def check_deadline(self, call: Call) -> None:
        if self.clock.monotonic_s() >= call.deadline_s:
            problem = "the reply was not ready in time; send a smaller request, or raise the timeout"
            raise Refusal(503, problem, headers=RETRY_SOON)


PAUSE_S: Final = 0.05
"""The longest pause before one step of another computation, so that it goes on slowly beside many reviews."""


class ReviewsFirst:
    """Lets other computations pause while reviews are judged. Safe for several threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._active = 0
        self._stored = 0

    @contextmanager
    def judging(self) -> Iterator[None]:
        """Let others pause during the context."""
        with self._changed:
            self._active += 1
        try:
            yield
        finally:
            with self._changed:
                self._active -= 1
                self._changed.notify_all()

    @contextmanager
    def stored(self) -> Iterator[None]:
        """Let dry runs end during the context: a change that would be stored waits for its review."""
        with self._changed:
            self._stored += 1
        try:
            yield
        finally:
            with self._changed:
                self._stored -= 1

    @property
    def stored_wait(self) -> bool:
        """Whether a change that would be stored waits for its review."""
        return self._stored > 0

    def pause(self) -> None:
        """Wait while a review is judged, for at most ``PAUSE_S``. Call it between two steps of a long computation."""
        if not self._active:
            return
        with self._changed:
            self._changed.wait_for(lambda: not self._active, PAUSE_S)


MAX_VALUES: Final = 600_000
"""The most JSON values of a request that brings a fleet."""
MAX_QUESTION_VALUES: Final = 200_000
"""The most JSON values of a request that uses the fleet of the service."""
MAX_QUESTION_BYTES: Final = 3 * 2**20
_LARGE_VALUES: Final = 50_000
"""From this number on, a process answers one request at a time."""


def values_of(body: bytes) -> int:
    """Return about how many values a JSON document has; never fewer. Characters in strings count too."""
    return 1 + body.count(b",") + body.count(b"{") + body.count(b"[")


@contextmanager
def sized(
    services: Services, call: Call, body: bytes, *, brings_fleet: bool, decodes_parts: bool = False
) -> Iterator[None]:
    """Check the size of a request before it is decoded. During the context, no other large request is answered."""
    most_bytes = services.limits.body_bytes if brings_fleet else MAX_QUESTION_BYTES
    most_values = MAX_VALUES if brings_fleet else MAX_QUESTION_VALUES
    if len(body) > most_bytes:
        raise Refusal(413, f"the request has {len(body)} bytes; at most {most_bytes} are read")
    values = values_of(body)
    if values > most_values and not decodes_parts:
        raise Refusal(413, f"the request has about {values:,} JSON values; at most {most_values:,} are read")
    if values < _LARGE_VALUES:
        yield
        return
    with services.one_at_a_time(services.large, call, "other large requests"):
        yield
