"""Attempts to sign in, by the form, a bearer token or the secret of a proxy: one limit, metric and warning for all."""

import hashlib
import logging
import threading
from collections import OrderedDict
from typing import Final

from berthmaster.runtime.clock import Clock
from berthmaster.runtime.logs import fields
from console.observed import ConsoleMetrics
from console.rate_limits import RateLimits

_LOG: Final = logging.getLogger("berthmaster.console")
_PER_S: Final = 0.2
_BURST: Final = 10
_MAX_GOOD: Final = 1000


class SignInAttempts:
    """Counts attempts by the address of the client. Safe for several threads.

    A credential that was accepted before is no attempt. So the guesses of one client do not lock out the others behind
    the same proxy.
    """

    def __init__(self, clock: Clock, metrics: ConsoleMetrics) -> None:
        self._limits = RateLimits(clock, _PER_S, _BURST)
        self._metrics = metrics
        self._good: OrderedDict[bytes, None] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, address: str, credential: str) -> bool:
        with self._lock:
            if _digest(credential) in self._good:
                return True
        if self._limits.take(address):
            return True
        self._metrics.signed_in("limited")
        return False

    def end(self, address: str, credential: str, *, accepted: bool) -> None:
        digest = _digest(credential)
        with self._lock:
            known = digest in self._good
            if accepted:
                self._good[digest] = None
                if len(self._good) > _MAX_GOOD:
                    self._good.popitem(last=False)
            else:
                self._good.pop(digest, None)
        if not accepted:
            self._metrics.signed_in("refused")
            _LOG.warning("a sign-in was refused", extra=fields(client=address))
        elif not known:
            self._metrics.signed_in("accepted")


def _digest(credential: str) -> bytes:
    return hashlib.sha256(credential.encode("utf-8", "surrogateescape")).digest()
