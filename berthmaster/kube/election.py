"""Leader election: acquires and renews a lease in a thread of its own."""

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
_MIN_WAIT_S: Final = 0.05
_GRACE_S: Final = 20.0
"""How much longer than the lease duration a try may take before the election counts as dead, as in client-go."""


class Candidate:
    """Acquires and renews a lease in its own thread.

    Attributes:
        elected: set once this process leads. A process leads once at most.
    """

    def __init__(
        self,
        lease: Lease,
        clock: Clock,
        on_lost: Callable[[str], None],
        draw: random.Random | None = None,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        """Prepare a candidate. ``start`` starts it.

        Args:
            on_lost: called once with the reason when leadership is lost, from any thread. It must end all work.
            wait: waits for some seconds or until ``stop``. Returns whether ``stop`` was called.
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
            threading.Thread(target=self._enforce_deadline, name="lease-deadline", daemon=True),
        ]

    @property
    def leading(self) -> bool:
        """Whether this process leads at this moment. Check it before each write."""
        return self.elected.is_set() and self._lease.leading

    def start(self) -> None:
        self._tried_s = self._clock.monotonic_s()
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Stop, and release the lease if this process holds it. All work of the leader must have ended before."""
        if not self._end():
            return
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout_s)
        if self._threads[0].is_alive():
            _LOG.warning("failed to release the lease: the API server does not respond")
            return
        try:
            self._lease.release()
        except ApiError as error:
            _LOG.warning("failed to release the lease, it will expire: %s", error)

    def problem(self) -> str:
        silent_s = self._clock.monotonic_s() - self._tried_s
        if silent_s <= self._lease.options.lease_s + _GRACE_S:
            return ""
        return f"the last try to acquire or renew the lease was {silent_s:.0f} s ago"

    def run(self) -> None:
        logged_leader = False
        while not self._stopping.is_set():
            self._try()
            if self.elected.is_set() and not self._lease.leading:
                self._lose()
                return
            logged_leader = logged_leader or self._log_leader()
            if self._wait(self._pause_s()):
                return

    def _try(self) -> None:
        try:
            if self._lease.try_acquire_or_renew() and not self.elected.is_set():
                _LOG.info("acquired the lease", extra=fields(identity=self._lease.options.identity))
                self.elected.set()
        except ApiError as error:
            level = logging.DEBUG if error.conflict else logging.WARNING
            _LOG.log(level, "failed to %s the lease: %s", "renew" if self.elected.is_set() else "acquire", error)
        self._tried_s = self._clock.monotonic_s()

    def _log_leader(self) -> bool:
        if self.elected.is_set() or not self._lease.holder:
            return False
        _LOG.info("another process leads", extra=fields(holder=self._lease.holder))
        return True

    def _pause_s(self) -> float:
        """Return the wait before the next try, with jitter, but not beyond the expiry of the lease."""
        share = 1.0 if self.elected.is_set() else 0.5
        pause_s = self._lease.options.retry_s * share * self._draw.uniform(0.75, 1.0)
        expires_in_s = self._lease.expires_in_s
        return max(_MIN_WAIT_S, min(pause_s, expires_in_s)) if expires_in_s > 0 else pause_s

    def _enforce_deadline(self) -> None:
        """End the leadership on time while a renewal hangs."""
        while not self._stopping.is_set():
            if not self.elected.wait(0.5):
                continue
            left_s = self._lease.leads_until_s - self._clock.monotonic_s()
            if left_s <= 0:
                self._lose()
                return
            self._stopping.wait(max(_MIN_WAIT_S, left_s))

    def _lose(self) -> None:
        if not self._end():
            return
        holder, options = self._lease.holder, self._lease.options
        if holder not in {"", options.identity}:
            self._on_lost(f"{holder} holds the lease")
        else:
            self._on_lost(f"the lease was not renewed within {options.renew_s:g} s")

    def _end(self) -> bool:
        """End the election. Return False if it has ended before."""
        with self._ending:
            if self._ended:
                return False
            self._ended = True
        self._stopping.set()
        return True
