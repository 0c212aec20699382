"""The memory that the requests of a process may use: a pure account, without sockets and threads."""

from typing import Final, Generic, TypeVar

SMALL_BYTES: Final = 64 * 2**10
"""Up to this size a request never waits for memory."""
_FACTOR: Final = 8
"""A request in progress needs this many times its size: JSON becomes objects, and objects become an answer."""
_PART: Final = 4

Client = TypeVar("Client")


class MemoryBudget(Generic[Client]):
    """Counts three kinds of bytes, each with a limit of its own, so that none of them can block another.

    Requests that arrive or wait for a thread may use a quarter, and answers that clients have not read another quarter.
    Requests in progress use the other half, each with ``_FACTOR`` times its size. One of them is always admitted: else
    a request that is larger than the budget would wait forever.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._part_bytes = limit_bytes // _PART
        self._processing_limit = limit_bytes - 2 * self._part_bytes
        self._arrived: dict[Client, int] = {}
        self._unread: dict[Client, int] = {}
        self._processing: dict[Client, int] = {}
        self._arrived_bytes = self._unread_bytes = self._processing_bytes = 0

    def arrived(self, client: Client, size_bytes: int) -> None:
        """Record how much of a request has arrived."""
        self._arrived_bytes += size_bytes - self._arrived.get(client, 0)
        self._arrived[client] = size_bytes

    def unread(self, client: Client, size_bytes: int) -> None:
        """Record how much of an answer the client has not read."""
        self._unread_bytes += size_bytes - self._unread.get(client, 0)
        self._unread[client] = size_bytes

    def process(self, client: Client, size_bytes: int) -> None:
        """Record that a request that has arrived is in progress now."""
        self.release(client)
        if size_bytes > SMALL_BYTES:
            self._processing[client] = size_bytes * _FACTOR
            self._processing_bytes += size_bytes * _FACTOR

    def release(self, client: Client) -> None:
        """Forget a client: its request is answered, or its connection is closed."""
        self._arrived_bytes -= self._arrived.pop(client, 0)
        self._unread_bytes -= self._unread.pop(client, 0)
        self._processing_bytes -= self._processing.pop(client, 0)

    @property
    def may_arrive(self) -> bool:
        """Whether more bytes of large requests may be read."""
        return self._arrived_bytes < self._part_bytes

    @property
    def too_much_unread(self) -> bool:
        """Whether clients must be dropped because they do not read their answers."""
        return self._unread_bytes > self._part_bytes

    def may_process(self, size_bytes: int) -> bool:
        """Return whether a request of this size may begin."""
        if size_bytes <= SMALL_BYTES or not self._processing:
            return True
        return self._processing_bytes + size_bytes * _FACTOR <= self._processing_limit
