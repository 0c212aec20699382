"""Refusals of requests, as problem details (RFC 9457)."""

from collections.abc import Iterable, Sequence
from http import HTTPStatus
from itertools import islice
from typing import Final

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from berthmaster.model.errors import FieldError, InputError
from berthmaster.native_api.wire import ABOUT_BLANK, InvalidField, Problem, Progress

RETRY_SOON: Final = (("Retry-After", "1"),)
PROBLEM_JSON: Final = "application/problem+json"
_MAX_ERRORS: Final = 64


class Refusal(Exception):  # noqa: N818 - an answer, not an error of ours
    """A handler refuses a request. ``status``, ``detail``, ``kind`` and the invalid fields become a ``Problem``."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        errors: Sequence[InvalidField] = (),
        headers: tuple[tuple[str, str], ...] = (),
        kind: str = ABOUT_BLANK,
        progress: Progress | UnsetType = UNSET,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = list(errors)
        self.headers = headers
        self.kind = kind
        self.progress = progress


def refuse_invalid(errors: Iterable[FieldError]) -> None:
    """Refuse the request if there are errors. Raises ``Refusal`` with every error, up to a limit."""
    found = [InvalidField(error.path, error.problem) for error in islice(errors, _MAX_ERRORS)]
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise Refusal(400, f"{found[0].path}: {found[0].detail}{more}", errors=found)


def problem(
    status: int, detail: str, request_id: str = "", errors: list[InvalidField] | None = None, kind: str = ABOUT_BLANK
) -> Problem:
    """Return the problem for a status."""
    return Problem(HTTPStatus(status).phrase, status, detail, request_id, errors or [], kind)


def internal_error(request_id: str) -> Problem:
    """Return the problem of a request that crashed."""
    return problem(500, "internal error; the log of the service has the cause", request_id)


def problem_of(error: InputError | Refusal, request_id: str = "") -> Problem:
    """Return why a request is not answered."""
    match error:
        case FieldError():
            return problem(400, str(error), request_id, [InvalidField(error.path, error.problem)])
        case InputError():
            return problem(400, str(error), request_id)
    return replace(problem(error.status, error.detail, request_id, error.errors, error.kind), progress=error.progress)
