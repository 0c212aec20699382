"""Who wants to hear of changes, and the changes that could not be told yet."""

import logging
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from berthmaster.kube.client import APIClient
from berthmaster.kube.reflector import Reflector
from berthmaster.kube.requests import Collection, Key
from berthmaster.model.errors import InputError
from berthmaster.runtime.backoff import Backoff
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


class Informer(Generic[T]):
    """The objects of one collection, kept right by a reflector of its own.

    An object that cannot be read is passed over, with a warning, or an error with its trace if reading fails as nobody
    thought it would; what was known of it stays. A handler that raises is
    told again when the server is heard next, and then after waits that grow; the other handlers know nothing of it.

    Attributes:
        collection: what it holds.
        problem: why the server is lost; empty if it is not.
        lost_at: since when, in case it is.
    """

    def __init__(self, collection: Collection, read: Callable[[bytes], T], clock: Clock) -> None:
        self.collection = collection
        self.problem = ""
        self.lost_at: datetime | None = None
        self._read = read
        self._clock = clock
        self._values: dict[Key, T] = {}
        self._subscriptions: list[Subscription[T]] = []
        self._followers: list[Callable[[], None]] = []
        self._listed = threading.Event()
        self._reflector: Reflector | None = None
        self._telling = threading.RLock()
        self._muted = False

    def subscribe(self, handler: Handler[T]) -> None:
        """Tell ``handler`` of all changes; to be called before the start."""
        self._subscriptions.append(Subscription(handler, self.collection.what, self._clock))

    def follow(self, follower: Callable[[], None]) -> None:
        """Call ``follower`` when the server was heard, after all handlers were told what it said, and when it is lost.

        To be called before the start. ``problem`` tells the one from the other; all that a list brings comes before one
        call. A follower that raises when the server was heard is called again when everything was listed anew; when it
        is lost, it must not raise.
        """
        self._followers.append(follower)

    def mute(self) -> None:
        """Tell handlers nothing until ``unmute``: a standby knows all, and queues nothing that comes and goes."""
        self._muted = True

    def unmute(self) -> None:
        """Tell handlers of all there is, each object as a new one, and of every change from now on."""
        with self._telling:
            if self._muted:
                self._muted = False
                for key, value in self.items():
                    self._tell(key, None, value)

    def start(self, client: APIClient) -> None:
        """Begin to list and watch."""
        self._reflector = Reflector(client, self.collection, self)
        self._reflector.start()

    def stop(self) -> None:
        """Stop watching; what is known stays."""
        if self._reflector is not None:
            self._reflector.stop()

    @property
    def listed(self) -> bool:
        """Whether all there was has been told to the handlers once."""
        return self._listed.is_set()

    @property
    def owed(self) -> int:
        """How many changes handlers have raised at, and are to be told again."""
        return sum(len(each) for each in self._subscriptions)

    def wait(self, timeout_s: float) -> bool:
        """Wait until everything was listed; whether it was."""
        return self._listed.wait(timeout_s)

    def get(self, key: Key) -> T | None:
        """One object as it was heard of last."""
        return self._values.get(key)

    def items(self) -> Iterator[tuple[Key, T]]:
        """All objects, as they were at this moment."""
        return iter(list(self._values.items()))

    def __len__(self) -> int:
        return len(self._values)

    def replace(self, objects: dict[Key, msgspec.Raw]) -> None:
        """See ``Mirror``. Who looks sees the old list, or the new one."""
        after = {key: value for key, raw in objects.items() if (value := self._value(key, raw)) is not None}
        with self._telling:
            before, self._values = self._values, after
            for key, value in before.items():
                if key not in after:
                    self._tell(key, value, None)
            for key, value in after.items():
                if (known := before.get(key)) is not value:
                    self._tell(key, known, value)
        self._listed.set()

    def put(self, key: Key, raw: msgspec.Raw) -> None:
        """See ``Mirror``."""
        before, after = self._values.get(key), self._value(key, raw)
        if after is not None and after is not before:
            with self._telling:
                self._values[key] = after
                self._tell(key, before, after)

    def drop(self, key: Key) -> None:
        """See ``Mirror``."""
        with self._telling:
            before = self._values.pop(key, None)
            if before is not None:
                self._tell(key, before, None)

    def confirm(self) -> None:
        """See ``Mirror``."""
        if self.problem:
            _LOG.info("%s are watched again", self.collection.what)
        self.problem, self.lost_at = "", None
        with self._telling:
            for each in self._subscriptions:
                each.tell_again(self._values.get)
        self._call_followers()

    def lose(self, problem: str) -> None:
        """See ``Mirror``."""
        if not self.problem:
            self.lost_at = self._clock.now()
            _LOG.warning("%s are not watched any more: %s", self.collection.what, problem)
        self.problem = problem
        self._call_followers()

    def _value(self, key: Key, raw: msgspec.Raw) -> T | None:
        """What an object means: what is known if it means the same, or cannot be read; None for nothing."""
        known = self._values.get(key)
        value = known
        whose = {"kind": self.collection.what, "namespace": key[0], "name": key[1]}

        def read() -> None:
            nonlocal value
            try:
                value = self._read(bytes(raw))
            except InputError as error:
                _LOG.warning("passed over: %s", error, extra=fields(**whose))

        # What reads is somebody else's: a mistake in it costs one object, not the watch of all others.
        log_exceptions(read, _LOG, "passed over: it could not be read", **whose)
        return known if value == known else value

    def _tell(self, key: Key, before: T | None, after: T | None) -> None:
        if not self._muted:
            for each in self._subscriptions:
                each.tell(key, before, after)

    def _call_followers(self) -> None:
        for each in self._followers:
            each()
