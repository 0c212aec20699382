"""Who wants to hear of changes, and the changes that could not be told yet."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

from berthmaster.kube.backoff import Backoff
from berthmaster.kube.messages import Key
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.logs import fields, log_exceptions

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
MAX_OWED: Final = 2**16
"""How many objects a handler can be owed a change of; beyond, the oldest change is given up."""
_LOG: Final = logging.getLogger("berthmaster.kube")


class Handler(Protocol[T_contra]):
    """Hears of changes, from the informer's thread; it has to be quick.

    A call that raises counts as not made, and is made again later: by then with what there is by then. Among calls that
    came back, each begins for an object with what the one before ended with.
    """

    def __call__(self, key: Key, before: T_contra | None, after: T_contra | None, /) -> None:
        """An object is new (``before`` is None), has changed, or is gone (``after`` is None)."""


class Subscription(Generic[T]):
    """One handler, and what it is owed. Whoever calls holds a lock."""

    def __init__(self, handler: Handler[T], what: str, clock: Clock, backoff: Backoff | None = None) -> None:
        self._handler = handler
        self._what = what
        self._clock = clock
        self._backoff = backoff or Backoff()
        self._due_s = clock.monotonic_s()
        # What the handler heard last of each object that it has not heard the latest of.
        self._owed: dict[Key, T | None] = {}

    def __len__(self) -> int:
        """Of how many objects a change is owed."""
        return len(self._owed)

    def tell(self, key: Key, before: T | None, after: T | None) -> None:
        """Tell of a change, and with it of earlier ones of the same object that are owed."""
        heard = before
        if key in self._owed and (heard := self._owed.pop(key)) == after:
            return  # all is again as it was heard last, or what was never heard of is gone
        # A handler is somebody else's: others have to hear of this object, and this one of others.
        said = "a handler has failed, and will be told again"
        call = partial(self._handler, key, heard, after)
        if not log_exceptions(call, _LOG, said, kind=self._what, namespace=key[0], name=key[1]):
            self._owe(key, heard)

    def tell_again(self, latest: Callable[[Key], T | None]) -> None:
        """Tell of all that is owed, if that is due: at once, and then after waits that grow."""
        if not self._owed or self._clock.monotonic_s() < self._due_s:
            return
        for key in list(self._owed):
            self.tell(key, None, latest(key))
        if self._owed:
            self._due_s = self._clock.monotonic_s() + self._backoff.next_s()
        else:
            self._backoff.reset()

    def _owe(self, key: Key, heard: T | None) -> None:
        if len(self._owed) >= MAX_OWED:
            namespace, name = oldest = next(iter(self._owed))
            del self._owed[oldest]
            _LOG.error("a change is given up", extra=fields(kind=self._what, namespace=namespace, name=name))
        self._owed[key] = heard
