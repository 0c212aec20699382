"""Who is waited for, and for how long."""

from typing import Generic, TypeVar

Client = TypeVar("Client")


class Waiting(Generic[Client]):
    """Clients that are waited for equally long, so that they are overdue in the order in which they came.

    Attributes:
        span_s: how long each is waited for.
    """

    def __init__(self, span_s: float) -> None:
        self.span_s = span_s
        self._since: dict[Client, float] = {}

    def add(self, client: Client, now: float) -> None:
        """Wait for a client from now on, also if it was waited for already."""
        self._since.pop(client, None)
        self._since[client] = now

    def discard(self, client: Client) -> None:
        """Wait for it no longer."""
        self._since.pop(client, None)

    def overdue(self, now: float) -> list[Client]:
        """Those for whom the time is over."""
        found = []
        for client, since in self._since.items():
            if now - since < self.span_s:
                break
            found.append(client)
        return found

    def longest(self) -> Client | None:
        """Who is waited for longest."""
        return next(iter(self._since), None)
