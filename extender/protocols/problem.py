"""Problem details (RFC 9457): the format of errors."""

from collections.abc import Iterable, Sequence
from http import HTTPStatus
from itertools import islice
from typing import Final

import msgspec

from berthmaster.model.errors import FieldError

PROBLEM_JSON: Final = "application/problem+json"
_MAX_ERRORS: Final = 64


class InvalidField(msgspec.Struct, frozen=True):
    """An invalid value of the request.

    Attributes:
        path: the field, as in ``binding.spec.replicas``; empty for the body itself.
        detail: what is wrong, and what is accepted.
    """

    path: str
    detail: str


class Problem(msgspec.Struct, frozen=True, rename="camel"):
    """Why a request failed.

    Attributes:
        title: the name of the status.
        status: the HTTP status.
        detail: the cause, and how to correct it.
        request_id: the id of the request in the log.
        errors: the invalid fields.
        type: a URI for the kind of problem; ``about:blank`` if the status is enough.
    """

    title: str
    status: int
    detail: str
    request_id: str = ""
    errors: list[InvalidField] = []
    type: str = "about:blank"


class Refusal(Exception):  # noqa: N818 - an answer, not an error of ours
    """A handler refuses a request. ``status``, ``detail`` and the invalid fields become a ``Problem``."""

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
    """Refuse the request if there are errors.

    Raises:
        Refusal: with every error, up to a limit.
    """
    found = [InvalidField(error.path, error.problem) for error in islice(errors, _MAX_ERRORS)]
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise Refusal(400, f"{found[0].path}: {found[0].detail}{more}", errors=found)


def problem(status: int, detail: str, request_id: str = "", errors: list[InvalidField] | None = None) -> Problem:
    """Return the problem for a status."""
    return Problem(HTTPStatus(status).phrase, status, detail, request_id, errors or [])


def field_problem(error: FieldError, request_id: str = "") -> Problem:
    """Return the problem for an invalid body."""
    return problem(400, str(error), request_id, [InvalidField(error.path, error.problem)])
