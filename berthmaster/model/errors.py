"""The error tree.

::

    BerthmasterError
    ├── InputError           the input is invalid: reported once, never retried
    │   ├── FieldError       one value of a document is invalid: its path, the value, what is accepted
    │   ├── NotRecordedError the ledger has no such record
    │   └── ManifestError    one document of a file is invalid: the file, the document's number, the field
    ├── PluginError          a third-party plugin cannot be loaded, or it broke its contract
    └── ServiceError         a service refused a request, or it could not be reached
        ├── ApiError         the same for a Kubernetes API server; a later retry may succeed
        │   ├── ResponseTooLargeError  the response is larger than is read; a smaller page may be read
        │   └── UnlistableError        the stored objects are too many or too large to be listed
        └── LedgerError      the same for the database of the ledger; a later retry may succeed

A workload that fits no cluster is not an error. It is a decision, returned as data with its reasons.

Messages contain names, keys and values of input, with control characters, line ends, characters that hide or reorder
others, and lone surrogates. Every message is printable text of bounded length: it cannot move the cursor of a terminal,
end a line of a log, or fail to encode.
"""

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

MAX_PATH_LENGTH: Final = 512
_SHOWN_VALUE_LENGTH: Final = 80
_QUOTED_LENGTH: Final = 1024  # characters of a value that are quoted before the result is cut
_NAMES_LISTED: Final = 8
_TRANSIENT: Final = frozenset(
    {
        HTTPStatus.NOT_FOUND,
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.CONFLICT,
        HTTPStatus.GONE,
        HTTPStatus.TOO_MANY_REQUESTS,
    }
)
"""The 4xx statuses that do not mean that the request itself is invalid."""
MAX_MESSAGE_LENGTH: Final = 4096
_UNUSUAL: Final = re.compile(r"[^ -~]")
_UNUSUAL_IN_JSON: Final = re.compile(r"[^\n -~]")


class BerthmasterError(Exception):
    """The root of all errors that Berthmaster raises on purpose. The message is one printable line."""

    def __init__(self, message: str = "") -> None:
        super().__init__(printable(message))

    def __reduce__(self) -> tuple[Any, ...]:
        """Let other processes get the error, whatever the arguments of its class are."""
        return BaseException.__new__, (type(self), *self.args), self.__dict__


class InputError(BerthmasterError):
    """The input is invalid. The message says what to do."""


class PluginError(BerthmasterError):
    """A third-party plugin cannot be loaded, or it broke its contract."""


class ServiceError(BerthmasterError):
    """A service refused a request, or it could not be reached; ``status`` is 0 without a response."""

    def __init__(self, message: str, status: int = 0) -> None:
        self.status = status
        super().__init__(message)


class ApiError(ServiceError):
    """A Kubernetes API server refused a request, or it could not be reached.

    Attributes:
        reason: the ``reason`` of the API status, such as ``Expired`` or ``Forbidden``; may be empty.
        retry_after_s: how long the server asks clients to wait before they retry; 0 if it does not say.
    """

    def __init__(self, status: int, reason: str, message: str, retry_after_s: float = 0.0) -> None:
        self.reason = reason
        self.retry_after_s = retry_after_s
        super().__init__(message, status)

    @property
    def not_found(self) -> bool:
        return self.status == HTTPStatus.NOT_FOUND

    @property
    def forbidden(self) -> bool:
        return self.status == HTTPStatus.FORBIDDEN

    @property
    def conflict(self) -> bool:
        """Whether another client changed or created the object meanwhile: read it and decide again."""
        return self.status == HTTPStatus.CONFLICT

    @property
    def already_exists(self) -> bool:
        """Whether the object to create exists. A creation can also conflict otherwise, for instance about a quota."""
        return self.conflict and self.reason == "AlreadyExists"

    @property
    def unavailable(self) -> bool:
        """Whether the server is unreachable or overloaded: further requests must wait."""
        return self.status in (0, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)

    @property
    def rejected(self) -> bool:
        """Whether the server rejected the request as invalid: an immediate retry fails the same way."""
        return (
            HTTPStatus.BAD_REQUEST <= self.status < HTTPStatus.INTERNAL_SERVER_ERROR and self.status not in _TRANSIENT
        )

    @property
    def expired(self) -> bool:
        return self.status == HTTPStatus.GONE


class ResponseTooLargeError(ApiError):
    """A response is larger than is read."""

    def __init__(self, most_bytes: int, what: str = "the response") -> None:
        super().__init__(0, "", f"{what} is larger than {most_bytes} bytes")


class UnlistableError(ApiError):
    """A collection cannot be listed because of the objects in it. Users cause this, not the server."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "", message)


class LedgerError(ServiceError):
    """The database of the ledger cannot be read or written."""


class DamagedLedgerError(InputError):
    """A part of the ledger is not as it was written."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"{problem}; run `berthmaster ledger verify` to find all damage")
        self.problem = problem


class NotRecordedError(InputError):
    """The ledger has no such record."""


class FieldError(InputError):
    """One value of a document is invalid.

    Attributes:
        path: the field path, such as ``spec.clusters[2].name``; empty for the document itself.
        problem: what is wrong and what is accepted, without the path.
        fault: the problem without the remedy.
    """

    def __init__(self, path: str, fault: str, remedy: str = "") -> None:
        self.path = printable(path, MAX_PATH_LENGTH)
        self.fault = fault
        self.remedy = remedy
        self.problem = printable(f"{fault}; {remedy}" if remedy else fault)
        super().__init__(f"{self.path}: {self.problem}" if path else self.problem)

    def below(self, prefix: str) -> "FieldError":
        """Return the same error for a document that contains this one at ``prefix``."""
        if not self.path:
            return FieldError(prefix, self.fault, self.remedy)
        joint = "" if self.path.startswith("[") else "."
        return FieldError(f"{prefix}{joint}{self.path}", self.fault, self.remedy)


class ManifestError(InputError):
    """A document of a file is invalid, or the file cannot be read.

    Attributes:
        source: the path of the file, or ``<stdin>``.
        document: the number of the document in the file, from 1; None if the file itself is the problem.

    The message has the source as printable text; the attribute has the exact path.
    """

    def __init__(self, source: str, document: int | None, problem: str, path: str = "") -> None:
        self.source = source
        self.document = document
        self.path = path
        self.problem = printable(problem)
        where = source if document is None else f"{source}: document {document}"
        super().__init__(f"{where}: {path}: {problem}" if path else f"{where}: {problem}")


def shown(value: object) -> str:
    """Format a value for an error message: one printable line, at most 80 characters."""
    text = repr(value[:_QUOTED_LENGTH]) if isinstance(value, str) else str(value)
    text = " ".join(text.split())
    return printable(text, _SHOWN_VALUE_LENGTH)


def name_list(names: Sequence[str], limit: int = _NAMES_LISTED) -> str:
    """List names for an error message: the first ones, and how many more there are."""
    listed = ", ".join(names[:limit])
    return listed if len(names) <= limit else f"{listed} and {len(names) - limit} more"


def printable(text: str, limit: int = MAX_MESSAGE_LENGTH) -> str:
    """Return text as one printable line: control and format characters escaped, lone surrogates replaced."""
    if len(text) > limit:
        text = f"{text[: limit - 1]}…"
    return text if text.isprintable() else _UNUSUAL.sub(_escaped, text)


def printable_json(text: str) -> str:
    """Return JSON with the same value, in printable text. Line ends between values stay."""
    # Only strings contain other characters, and a string may write any character as an escape.
    return text if text.isprintable() else _UNUSUAL_IN_JSON.sub(_escaped_in_json, text)


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    if character.isprintable():
        return character
    return "\ufffd" if "\ud800" <= character <= "\udfff" else repr(character)[1:-1]


def _escaped_in_json(match: re.Match[str]) -> str:
    character = match[0]
    if character.isprintable():
        return character
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
