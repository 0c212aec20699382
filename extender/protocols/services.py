"""What the service hands to every handler."""

import logging
from dataclasses import dataclass
from typing import Protocol

from berthmaster.runtime.clock import Clock
from extender.protocols.problem import Refusal
from extender.protocols.route import Call
from extender.state.state import State


class Meter(Protocol):
    """Counts. Every label is from a small fixed set: never pass what a client wrote."""

    def decided(self, protocol: str, trigger: str, result: str) -> None:
        """A decision was made: for whom, why, and what came of it (``placed``, a ``FailureKind``, or another word)."""

    def took(self, protocol: str, stage: str, seconds: float) -> None:
        """A stage of a request (``decode``, ``decide``, ``encode``) took so long."""

    def rejected(self, plugin: str, clusters: int) -> None:
        """A filter ruled out so many clusters of a decision."""

    def doubted(self, protocol: str, reason: str) -> None:
        """An answer was given in doubt: the request could not be judged, and ``reason`` names the kind of doubt."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one request may ask for.

    Attributes:
        body_bytes: the largest body.
        line_bytes: the longest line of a batch.
        batch_lines: the most lines of a batch.
    """

    body_bytes: int = 32 * 2**20
    line_bytes: int = 4 * 2**20
    batch_lines: int = 100_000


@dataclass(frozen=True, slots=True)
class Services:
    """What handlers work with.

    Attributes:
        state: the fleet and what runs on it.
        meter: counts.
        log: for what people should know; ``berthmaster.runtime.logs.fields`` adds the request's id.
        clock: the time.
        limits: how much one request may ask for.
    """

    state: State
    meter: Meter
    log: logging.Logger
    clock: Clock
    limits: Limits = Limits()

    def check_deadline(self, call: Call) -> None:
        """Give up on a request whose answer is overdue.

        Raises:
            Refusal: it is.
        """
        if self.clock.monotonic_s() >= call.deadline_s:
            problem = "the answer was not ready in time; ask for less at once, or raise the timeout"
            raise Refusal(503, problem, headers=(("Retry-After", "1"),))
