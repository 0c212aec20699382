"""What a connection to an API server is to whoever uses it."""

from collections.abc import Iterator
from types import TracebackType
from typing import Protocol, Self

from berthmaster.kube.requests import APIRequest
from berthmaster.kube.responses import MAX_MESSAGE_BYTES
from berthmaster.model.errors import ApiError


class APIResponse(Protocol):
    """A successful answer, read as it arrives. Leave it, or ``abort`` it from any thread."""

    def __enter__(self) -> Self:
        """Start reading."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the connection up, or keep it for the next request if all of the answer was read."""

    def chunks(self) -> Iterator[bytes]:
        """Its body in pieces, as they arrive.

        Raises:
            ApiError: the connection broke, or the server was silent for too long.
        """

    def header(self, name: str) -> list[str]:
        """Every value of a header, in order."""

    def abort(self) -> None:
        """End a reading that goes on in another thread."""


class APIClient(Protocol):
    """Sends requests to one API server. Safe for several threads."""

    def send(self, request: APIRequest) -> APIResponse:
        """Send a request and wait for the head of its answer.

        Raises:
            ApiError: nobody answered, or with an error.
        """


def ask(client: APIClient, request: APIRequest) -> bytes:
    """Send a request; the whole body of its answer.

    Raises:
        ApiError: nobody answered, or with an error, or the answer broke off.
    """
    with client.send(request) as answer:
        return read_body(answer)


def ask_if_found(client: APIClient, request: APIRequest) -> bytes | None:
    """Send a request and return the body of the response, or None if the object does not exist (404).

    Raises:
        ApiError: the request failed for another reason.
    """
    try:
        return ask(client, request)
    except ApiError as error:
        if error.not_found:
            return None
        raise


def read_body(answer: APIResponse) -> bytes:
    """A whole body, of bounded size.

    Raises:
        ApiError: it broke off, or is too large.
    """
    parts, size = [], 0
    for chunk in answer.chunks():
        parts.append(chunk)
        size += len(chunk)
        if size > MAX_MESSAGE_BYTES:
            raise ApiError(0, "", f"an answer of more than {MAX_MESSAGE_BYTES} bytes")
    return b"".join(parts)
