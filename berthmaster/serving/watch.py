"""Connections that no thread is busy with: what is done when something happens, and how long it is waited for."""

import time
from collections.abc import Callable
from selectors import BaseSelector
from typing import Any, cast

from gunicorn.http.parser import RequestParser
from gunicorn.workers.gthread import TConn

from berthmaster.serving.channel import Channel
from berthmaster.serving.waiting import Waiting

_ENDING_S = 0.5


class Connection(TConn):
    """A client's connection.

    Attributes:
        channel: the client; the same as ``sock``, which gunicorn takes for a socket.
        unreader: where gunicorn's parser takes bytes from before it asks the channel.
        surroundings: what the WSGI environments of its requests have in common.
        arrived: what was read of requests that have not begun to be answered.
        keep: whether it stays after the answer at hand.
        step: what is done with which event; None while a thread has it, and once it is closed.
        waiting: among whom it is waited for.
    """

    def __init__(self, cfg: Any, channel: Channel, client: Any, server: Any) -> None:  # noqa: ANN401 - gunicorn's own
        super().__init__(cfg, cast("Any", channel), client, server)
        self.channel = channel
        self.initialized = True
        self.parser = RequestParser(cfg, cast("Any", channel), client)
        self.unreader = self.parser.unreader
        self.surroundings: dict[str, Any] = {}
        self.arrived = bytearray()
        self.keep = True
        self.step: tuple[int, Step] | None = None
        self.waiting: Waiting[Connection] | None = None


Step = Callable[[Connection], None]


class Watch:
    """Who is watched, and since when.

    Attributes:
        idle: may ask again.
        asking: have not asked yet, or not wholly, or do not take the answer.
        ending: have had their last answer.
    """

    def __init__(self, poller: BaseSelector, *, idle_s: float, asking_s: float) -> None:
        self._poller = poller
        self.idle: Waiting[Connection] = Waiting(idle_s)
        self.asking: Waiting[Connection] = Waiting(asking_s)
        self.ending: Waiting[Connection] = Waiting(_ENDING_S)

    def on(self, event: int, conn: Connection, step: Step) -> None:
        """Take this step, and no other any more, with every such event of a connection."""
        if conn.step == (event, step):
            return
        change = self._poller.register if conn.step is None else self._poller.modify
        conn.step = current = (event, step)

        def take(_fd: object) -> None:
            # What was polled together is worked off in turn, and something before this may have changed everything.
            if conn.step is current:
                step(conn)

        change(conn.channel.fd, event, take)

    def wait(self, conn: Connection, among: Waiting[Connection]) -> None:
        """Wait for a connection from now on."""
        if conn.waiting is not None:
            conn.waiting.discard(conn)
        conn.waiting = among
        among.add(conn, time.monotonic())

    def leave(self, conn: Connection) -> None:
        """Neither watch a connection nor wait for it."""
        if conn.step is not None:
            self._poller.unregister(conn.channel.fd)
            conn.step = None
        if conn.waiting is not None:
            conn.waiting.discard(conn)
            conn.waiting = None
