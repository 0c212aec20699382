"""A process that stands for election: it leads while it holds a lease, and hears at once when it does not any more."""

import logging
import random
import threading
from collections.abc import Callable
from typing import Final

from berthmaster.kube.lease import Lease
from berthmaster.model.errors import ApiError
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.logs import fields

_LOG: Final = logging.getLogger("berthmaster.election")
_AT_LEAST_S: Final = 0.05
_GRACE_S: Final = 20.0
"""How much longer than a lease a try may take before the loop counts as dead; client-go's watch dog says the same."""


class Candidate:
    """Tries to hold a lease, and renews it, from a thread of its own.

    Attributes:
        elected: set once this process leads; it leads once at most.
    """

    def __init__(
        self,
        lease: Lease,
        clock: Clock,
        on_lost: Callable[[str], None],
        draw: random.Random | None = None,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        """A candidate that has not begun.

        Args:
            lease: what to hold.
            clock: tells the time.
            on_lost: told why this process leads no more; called once, from any thread, and has to end all work.
            draw: spreads the tries of several candidates.
            wait: waits for some seconds, or until told to stop; whether it was.
        """
        self.elected = threading.Event()
        self._lease = lease
        self._clock = clock
        self._on_lost = on_lost
        self._draw = draw or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._stopping = threading.Event()
        self._wait = wait or self._stopping.wait
        self._ending = threading.Lock()
        self._ended = False
        self._tried_s = float("inf")
        self._threads = [
            threading.Thread(target=self.run, name="lease", daemon=True),
            threading.Thread(target=self._guard, name="lease-guard", daemon=True),
        ]

    @property
    def leading(self) -> bool:
        """Whether this process leads at this moment; to be asked before each write."""
        return self.elected.is_set() and self._lease.leading

    def start(self) -> None:
        """Stand for election."""
        self._tried_s = self._clock.monotonic_s()
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Stand no more, and give the lease back if it is ours: whoever led has to have ended its work."""
        with self._ending:
            if self._ended:
                return
            self._ended = True
        self._stopping.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout_s)
        if self._threads[0].is_alive():
            _LOG.warning("the lease is not given back: the API server does not answer")
            return
        try:
            self._lease.release()
        except ApiError as error:
            _LOG.warning("the lease is not given back, and will run out: %s", error)

    def problem(self) -> str:
        """Why the election is dead; empty if it is not."""
        silent_s = self._clock.monotonic_s() - self._tried_s
        if silent_s <= self._lease.options.lease_s + _GRACE_S:
            return ""
        return f"the lease was looked at {silent_s:.0f} s ago"

    def run(self) -> None:
        """Try until told to stop, or the lease is lost."""
        waiting = False
        while not self._stopping.is_set():
            self._attempt()
            if self.elected.is_set() and not self._lease.leading:
                self._lose()
                return
            waiting = waiting or self._say_who_leads()
            if self._wait(self._pause_s()):
                return

    def _attempt(self) -> None:
        try:
            if self._lease.attempt() and not self.elected.is_set():
                _LOG.info("this process leads", extra=fields(identity=self._lease.options.identity))
                self.elected.set()
        except ApiError as error:
            level = logging.DEBUG if error.conflict else logging.WARNING
            _LOG.log(level, "the lease could not be %s: %s", "renewed" if self.elected.is_set() else "had", error)
        self._tried_s = self._clock.monotonic_s()

    def _say_who_leads(self) -> bool:
        if self.elected.is_set() or not self._lease.holder:
            return False
        _LOG.info("another process leads", extra=fields(holder=self._lease.holder))
        return True

    def _pause_s(self) -> float:
        """Until the next try: a bit less than ``retry_s``, and no longer than until another's lease runs out."""
        pause_s = self._lease.options.retry_s * self._draw.uniform(0.75, 1.0)
        lapses_in_s = self._lease.lapses_in_s
        return max(_AT_LEAST_S, min(pause_s, lapses_in_s)) if lapses_in_s > 0 else pause_s

    def _guard(self) -> None:
        """End it on time while a renewal hangs."""
        while not self._stopping.is_set():
            if not self.elected.wait(0.5):
                continue
            left_s = self._lease.until_s - self._clock.monotonic_s()
            if left_s <= 0:
                self._lose()
                return
            self._stopping.wait(max(_AT_LEAST_S, left_s))

    def _lose(self) -> None:
        with self._ending:
            if self._ended:
                return
            self._ended = True
        self._stopping.set()
        holder, options = self._lease.holder, self._lease.options
        if holder not in {"", options.identity}:
            self._on_lost(f"{holder} holds the lease")
        else:
            self._on_lost(f"the lease could not be renewed within {options.renew_s:g} s")
