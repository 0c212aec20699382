"""Questions with bounds: to API servers, and to whatever may never answer."""

import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from berthmaster.kube.client import APIClient, APIResponse, ask
from berthmaster.kube.requests import APIRequest, Query
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError, BerthmasterError, FieldError
from berthmaster_cli.doctor.facts import Seen, Unknown

Value = TypeVar("Value")
Json = dict[str, Any]

_DRY_RUN: Final = ("dryRun", "All")


class InNameOf:
    """A connection whose requests are made in the name of somebody else (``Impersonate-User``)."""

    def __init__(self, client: APIClient, user: str) -> None:
        self._client = client
        self._headers: Query = (("Impersonate-User", user),)

    def send(self, request: APIRequest) -> APIResponse:
        """See ``APIClient``."""
        return self._client.send(request._replace(headers=(*request.headers, *self._headers)))


class Asker(NamedTuple):
    """Asks one API server.

    Attributes:
        client: to it.
        silence_s: how long it may be silent.
    """

    client: APIClient
    silence_s: float

    def read(self, request: APIRequest) -> Json:
        """The object that answers a request.

        Raises:
            ApiError: there is none.
        """
        return read_as(dict[str, Any], self._ask(request))

    def read_as(self, kind: type[Value], request: APIRequest) -> Value:
        """The same, as a type.

        Raises:
            ApiError: there is none, or it is another one.
        """
        return read_as(kind, self._ask(request))

    def send(self, request: APIRequest) -> APIResponse:
        """The answer itself, for whoever wants its headers.

        Raises:
            ApiError: there is none.
        """
        return self.client.send(request._replace(silence_s=self.silence_s))

    def _ask(self, request: APIRequest) -> bytes:
        return ask(self.client, request._replace(silence_s=self.silence_s))


def on_trial(request: APIRequest) -> APIRequest:
    """The same request, of which nothing is stored."""
    return request._replace(query=(*request.query, _DRY_RUN))


def read_as(kind: type[Value], body: bytes) -> Value:
    """A body as a type.

    Raises:
        ApiError: it is another one.
    """
    try:
        return decode_json(kind, body)
    except FieldError as error:
        raise ApiError(0, "", f"an answer is not readable: {error}") from None


def seen(question: Callable[[], Value], limit_s: float) -> Seen[Value]:
    """The answer to a question, or why there is none; back after ``limit_s`` whatever happens.

    A server can send a byte now and then for ever, and a resolver knows no deadline at all: so it is asked by a thread
    that is left behind, if need be, and ends with the process.
    """
    answers: list[Seen[Value]] = []
    thread = threading.Thread(target=lambda: answers.append(_answer(question)), name="doctor", daemon=True)
    thread.start()
    thread.join(limit_s)
    return answers[0] if answers else Unknown(f"there was no answer within {limit_s:g} s")


def _answer(question: Callable[[], Value]) -> Seen[Value]:
    try:
        return question()
    except ApiError as error:
        return Unknown(str(error), error.status)
    except (BerthmasterError, OSError) as error:
        return Unknown(str(error) or type(error).__name__)
