"""What a connection to an API server is to whoever uses it."""

from collections.abc import Iterator
from types import TracebackType
from typing import Protocol, Self

from fleet.kube.requests import Get


class Answer(Protocol):
    """A successful answer, read as it arrives. Leave it, or ``abort`` it from any thread."""

    def __enter__(self) -> Self:
        """Start reading."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the connection up."""

    def chunks(self) -> Iterator[bytes]:
        """Its body in pieces, as they arrive.

        Raises:
            ApiError: the connection broke, or the server was silent for too long.
        """

    def abort(self) -> None:
        """End a reading that goes on in another thread."""


class Connection(Protocol):
    """Sends requests to one API server."""

    def send(self, request: Get) -> Answer:
        """Send a request and wait for the head of its answer.

        Raises:
            ApiError: nobody answered, or with an error.
        """
