"""Problem details (RFC 9457): how the service says that it did not do what was asked."""

from collections.abc import Iterable, Sequence
from http import HTTPStatus
from itertools import islice
from typing import Final

import msgspec

from berthmaster.model.errors import FieldError

PROBLEM_JSON: Final = "application/problem+json"
_MAX_ERRORS: Final = 64


class InvalidField(msgspec.Struct, frozen=True):
    """One value of the request that is not accepted.

    Attributes:
        path: where it stands, as in ``binding.spec.replicas``; empty for the body itself.
        detail: what is wrong, and what is accepted.
    """

    path: str
    detail: str


class Problem(msgspec.Struct, frozen=True, rename="camel"):
    """Why a request was not answered.

    Attributes:
        title: the status in words.
        status: the HTTP status.
        detail: what happened this time, and what to do about it.
        request_id: what the log calls this request.
        errors: the fields that are wrong.
        type: a URI for the kind of problem; ``about:blank`` says that the status says it all.
    """

    title: str
    status: int
    detail: str
    request_id: str = ""
    errors: list[InvalidField] = []
    type: str = "about:blank"


class Refusal(Exception):  # noqa: N818 - an answer, not an error of ours
    """A handler does not answer; ``status``, ``detail`` and the fields at fault become a ``Problem``."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        errors: Sequence[InvalidField] = (),
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = list(errors)
        self.headers = headers


def refuse_invalid(errors: Iterable[FieldError]) -> None:
    """Refuse if there are errors, and name each of them.

    Raises:
        Refusal: there are some.
    """
    found = [InvalidField(error.path, error.problem) for error in islice(errors, _MAX_ERRORS)]
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise Refusal(400, f"{found[0].path}: {found[0].detail}{more}", errors=found)


def problem(status: int, detail: str, request_id: str = "", errors: list[InvalidField] | None = None) -> Problem:
    """A problem of a status."""
    return Problem(HTTPStatus(status).phrase, status, detail, request_id, errors or [])


def field_problem(error: FieldError, request_id: str = "") -> Problem:
    """What is wrong with a body."""
    return problem(400, str(error), request_id, [InvalidField(error.path, error.problem)])


def encode_problem(value: Problem) -> bytes:
    """The document."""
    return msgspec.json.encode(value)
