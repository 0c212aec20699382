"""A client that asks an API server about an installation: every question has a timeout.

A question raises an ``ApiError`` if it cannot be answered. ``observe`` turns the error into an ``Unobserved``.
"""

import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from berthmaster.kube import requests
from berthmaster.kube.client import APIClient, APIResponse, read_body
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError, BerthmasterError, FieldError
from berthmaster_cli.doctor.facts import Observed, Unobserved

Value = TypeVar("Value")


class DoctorClient(NamedTuple):
    """Sends requests to one API server, with a timeout.

    Every method raises an ``ApiError`` if there is no response, or it is an error or of another type.
    """

    client: APIClient
    read_timeout_s: float

    def send(self, request: requests.APIRequest) -> APIResponse:
        return self.client.send(request._replace(read_timeout_s=self.read_timeout_s))

    def read(self, request: requests.APIRequest) -> dict[str, Any]:
        return self.read_as(dict[str, Any], request)

    def read_as(self, kind: type[Value], request: requests.APIRequest) -> Value:
        return decode(kind, self.ask(request))

    def ask(self, request: requests.APIRequest) -> bytes:
        with self.send(request) as response:
            return read_body(response)


def decode(kind: type[Value], body: bytes) -> Value:
    """Decode a body as a type."""
    try:
        return decode_json(kind, body)
    except FieldError as error:
        raise ApiError(0, "", f"a response is not readable: {error}") from None


def observe(question: Callable[[], Value], limit_s: float) -> Observed[Value]:
    """Return the answer to a question, or why there is none, after at most ``limit_s`` seconds.

    A server can send single bytes forever, and name resolution has no timeout. A daemon thread therefore asks. If it
    takes too long, it is abandoned and ends with the process.
    """
    answers: list[Observed[Value]] = []
    thread = threading.Thread(target=lambda: answers.append(_answer(question)), name="doctor", daemon=True)
    thread.start()
    thread.join(limit_s)
    return answers[0] if answers else Unobserved(f"there was no response within {limit_s:g} s")


def _answer(question: Callable[[], Value]) -> Observed[Value]:
    try:
        return question()
    except ApiError as error:
        return Unobserved(str(error), error.status)
    except (BerthmasterError, OSError) as error:
        return Unobserved(str(error) or type(error).__name__)
