"""A connection whose requests are counted."""

from collections.abc import Callable

from berthmaster.kube.requests import Request
from berthmaster.kube.transport import Answer, Connection
from berthmaster.model.errors import ApiError
from berthmaster.runtime.clock import Clock


class CountedConnection:
    """Tells of each request its verb, its status (0 for no answer, 200 for any success), and the time to its head."""

    def __init__(self, connection: Connection, clock: Clock, told: Callable[[str, int, float], None]) -> None:
        self._connection = connection
        self._clock = clock
        self._told = told

    def send(self, request: Request) -> Answer:
        """See ``Connection``."""
        started_s = self._clock.monotonic_s()
        status = 200
        try:
            return self._connection.send(request)
        except ApiError as error:
            status = error.status
            raise
        finally:
            self._told(request.verb, status, self._clock.monotonic_s() - started_s)
