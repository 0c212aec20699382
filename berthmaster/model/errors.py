"""The few families of errors.

::

    BerthmasterError
    ├── InputError           what somebody gave us is wrong: told once, never retried
    │   ├── FieldError       one value of a document: its path, the value, what is accepted
    │   └── ManifestError    the same, with the file and the number of the document in it
    ├── PluginError          a third party's plugin cannot be loaded or broke its contract
    └── ServiceError         a service that was asked refused, or could not be reached
        └── ApiError         the same of a Kubernetes API server; worth another try later

That a workload fits nowhere is no error: it is a decision, returned as data with its reasons.
"""

from http import HTTPStatus
from typing import Final

_SHOWN_VALUE_LENGTH: Final = 80
_PASSING: Final = frozenset(
    {
        HTTPStatus.NOT_FOUND,
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.CONFLICT,
        HTTPStatus.GONE,
        HTTPStatus.TOO_MANY_REQUESTS,
    }
)
"""Statuses of the client's family that say nothing about the request itself."""


class BerthmasterError(Exception):
    """The root: whatever Berthmaster raises on purpose."""


class InputError(BerthmasterError):
    """What somebody gave us is wrong. The message is one line and says what to do."""


class PluginError(BerthmasterError):
    """A third party's plugin cannot be loaded or broke its contract."""


class ServiceError(BerthmasterError):
    """A service that was asked refused, or could not be reached.

    Attributes:
        status: the HTTP status of its refusal; 0 if there was no answer.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        self.status = status
        super().__init__(message)


class ApiError(ServiceError):
    """A Kubernetes API server refused, or could not be reached.

    Attributes:
        reason: the machine's word for it, as ``Expired`` or ``Forbidden``; may be empty.
        retry_after_s: how long the server asks to be left alone; 0 if it says nothing.
    """

    def __init__(self, status: int, reason: str, message: str, retry_after_s: float = 0.0) -> None:
        self.reason = reason
        self.retry_after_s = retry_after_s
        super().__init__(message, status)

    @property
    def absent(self) -> bool:
        """Whether the object, or its kind, is not there."""
        return self.status == HTTPStatus.NOT_FOUND

    @property
    def conflicting(self) -> bool:
        """Whether somebody else wrote meanwhile, or it is there already: look again, and decide again."""
        return self.status == HTTPStatus.CONFLICT

    @property
    def lost(self) -> bool:
        """Whether the server is away, or has too much to do: what else there is to ask it has to wait."""
        return self.status in (0, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)

    @property
    def refused(self) -> bool:
        """Whether the request itself is not acceptable, and was not carried out: another try is as bad, for now."""
        return HTTPStatus.BAD_REQUEST <= self.status < HTTPStatus.INTERNAL_SERVER_ERROR and self.status not in _PASSING

    @property
    def expired(self) -> bool:
        """Whether what was asked for is too old to be had: everything must be listed anew."""
        return self.status == HTTPStatus.GONE


class FieldError(InputError):
    """One value of a document is not acceptable.

    Attributes:
        path: where it stands, as in ``spec.clusters[2].name``; empty for the document itself.
        problem: what is wrong and what is accepted, without the path.
    """

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path}: {problem}" if path else problem)

    def below(self, prefix: str) -> "FieldError":
        """The same error seen from a document that holds this one at ``prefix``."""
        if not self.path:
            return FieldError(prefix, self.problem)
        joint = "" if self.path.startswith("[") else "."
        return FieldError(f"{prefix}{joint}{self.path}", self.problem)


class ManifestError(InputError):
    """A document of a file is not acceptable.

    Attributes:
        source: the file's path, or ``<stdin>``.
        document: its number in the file, from 1; None where the file itself is the problem.
        path: the field inside the document; may be empty.
    """

    def __init__(self, source: str, document: int | None, problem: str, path: str = "") -> None:
        self.source = source
        self.document = document
        self.path = path
        where = source if document is None else f"{source}: document {document}"
        super().__init__(f"{where}: {path}: {problem}" if path else f"{where}: {problem}")


def shown(value: object) -> str:
    """A value as an error message quotes it: one line, bounded."""
    text = repr(value) if isinstance(value, str) else str(value)
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN_VALUE_LENGTH else f"{text[: _SHOWN_VALUE_LENGTH - 1]}…"
