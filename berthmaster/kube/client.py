"""The protocol of API clients."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from berthmaster.kube.requests import APIRequest
from berthmaster.kube.responses import MAX_MESSAGE_BYTES
from berthmaster.model.errors import ApiError


class APIResponse(AbstractContextManager["APIResponse", None], Protocol):
    """A successful response, read as a stream inside a ``with`` block.

    The end of the block keeps the connection for the next request if the whole body was read, else closes it.
    """

    def chunks(self) -> Iterator[bytes]:
        """Yield the body in pieces as they arrive.

        Raises:
            ApiError: the connection broke, or the server sent nothing for the read timeout.
        """

    def header(self, name: str) -> list[str]:
        """Return all values of a header in order."""

    def abort(self) -> None:
        """End a read that is under way in another thread."""


class APIClient(Protocol):
    """A client of one API server. Safe for several threads."""

    def send(self, request: APIRequest) -> APIResponse:
        """Send a request and wait for the head of the response.

        Raises:
            ApiError: the server did not respond, or responded with an error.
        """


def ask(client: APIClient, request: APIRequest) -> bytes:
    """Send a request and return the whole body of the response.

    Raises:
        ApiError: the server did not respond, or responded with an error, or the response is incomplete or too large.
    """
    with client.send(request) as response:
        return read_body(response)


def ask_if_found(client: APIClient, request: APIRequest) -> bytes | None:
    """Send a request and return the body of the response, or None if the object does not exist (404)."""
    try:
        return ask(client, request)
    except ApiError as error:
        if error.not_found:
            return None
        raise


def read_body(response: APIResponse) -> bytes:
    """Read a whole body of bounded size."""
    parts, size = [], 0
    for chunk in response.chunks():
        parts.append(chunk)
        size += len(chunk)
        if size > MAX_MESSAGE_BYTES:
            raise ApiError(0, "", f"the response is larger than {MAX_MESSAGE_BYTES} bytes")
    return b"".join(parts)
