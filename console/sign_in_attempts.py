"""How often a client may try to sign in, and what is logged about it."""

import hashlib
import logging
import threading
from collections import OrderedDict
from typing import Final

from berthmaster.runtime.clock import Clock
from berthmaster.runtime.logs import fields
from console.metrics import SIGN_INS
from console.rate_limits import RateLimits

_LOG: Final = logging.getLogger("berthmaster.console")
_PER_S: Final = 0.2
_BURST: Final = 10
_RETURNS: Final = 3
_MAX_GOOD: Final = 1000


class SignInAttempts:
    """Counts attempts by the address of the client. Safe for several threads.

    A credential that was accepted before is no attempt. So the guesses of one client do not lock out the others behind
    the same proxy.
    """

    def __init__(self, clock: Clock) -> None:
        self._limits = RateLimits(clock, _PER_S, _BURST)
        self._returns = RateLimits(clock, _PER_S, _RETURNS)
        self._good: OrderedDict[bytes, None] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, address: str, credential: str) -> bool:
        """Count an attempt with a secret. Return False if there were too many."""
        with self._lock:
            if _digest(credential) in self._good:
                return True
        return self._counted(self._limits, address)

    def return_from_provider(self, state: str) -> bool:
        """Count a visitor whom a provider sent back. Return False if it is too much.

        The state is in the cookie of the visitor, so that no visitor uses up the attempts of others behind one address.
        """
        return self._counted(self._returns, state)

    def _counted(self, limits: RateLimits, key: str) -> bool:
        if limits.take(key):
            return True
        SIGN_INS.labels("limited").inc()
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
        if not accepted or not known:
            self.report(address, accepted=accepted)

    def report(self, address: str, *, accepted: bool) -> None:
        """Count the result of a sign-in."""
        SIGN_INS.labels("accepted" if accepted else "refused").inc()
        if not accepted:
            _LOG.warning("a sign-in was refused", extra=fields(client=address))


def _digest(credential: str) -> bytes:
    return hashlib.sha256(credential.encode("utf-8", "surrogateescape")).digest()
