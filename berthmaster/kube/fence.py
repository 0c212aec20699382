"""No write by whoever may not write any more."""

from collections.abc import Callable

from berthmaster.kube.requests import Request
from berthmaster.kube.transport import Answer, Connection
from berthmaster.model.errors import ApiError


class FencedConnection:
    """A connection that writes only as long as ``open`` says so; reads always pass.

    A thread that stood still - the machine was paused, the process was stopped - learns here, before its next write,
    that it leads no more. What was sent before is the API server's: the lease outlives the renew deadline by some
    seconds for that, and every write carries a guard of its own.
    """

    def __init__(self, connection: Connection, is_open: Callable[[], bool]) -> None:
        self._connection = connection
        self._is_open = is_open
        self._closed = False

    def close(self) -> None:
        """Let no write pass any more."""
        self._closed = True

    def send(self, request: Request) -> Answer:
        """See ``Connection``; an ``ApiError`` without a status where a write may not pass."""
        if not request.reads and (self._closed or not self._is_open()):
            raise ApiError(0, "", f"{request.method} {request.path}: not sent: this process does not lead (any more)")
        return self._connection.send(request)
