"""A request, and the resources of the service that its handler uses."""

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
from extender.protocols.reviews_first import ReviewsFirst
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
