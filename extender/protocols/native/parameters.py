"""Query parameters of the native API: their values, and refusals that name parameter, value and what is accepted."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Any, Final, TypeVar

from berthmaster.model.decode import decode_json
from berthmaster.model.errors import shown
from berthmaster.model.meta import moment_of
from berthmaster.model.readers import Reader
from berthmaster.native_api.wire import InvalidField, ReaderRequest
from extender.protocols.problem import Refusal
from extender.protocols.route import JSON, Operation, Parameter, Route
from extender.protocols.services import Call

E = TypeVar("E", bound=Enum)
_BOOLEANS: Final = {"true": True, "false": False}
_NAMESPACES: Final = "namespaces"
MAX_OFFSET: Final = 10_000_000


def text(description: str, **schema: int) -> Parameter:
    """Describe a parameter with any text."""
    return Parameter(description, {"type": "string", **schema})


NAMESPACES: Final = {
    _NAMESPACES: text(
        "Only objects of these namespaces, separated by commas; - for those without a namespace. Empty for none."
    )
}
"""The parameter that ``reader_of`` reads."""


def flag(description: str) -> Parameter:
    """Describe a boolean, false by default."""
    return Parameter(description, {"type": "boolean", "default": False})


def time(description: str) -> Parameter:
    """Describe a parameter with a time."""
    return Parameter(description, {"type": "string", "format": "date-time"})


def number(description: str, most: int, *, least: int = 1, **schema: int) -> Parameter:
    """Describe a number."""
    return Parameter(description, {"type": "integer", "minimum": least, "maximum": most, **schema})


def word(description: str, accepted: Sequence[str], **schema: str) -> Parameter:
    """Describe one of some words. An empty one stands for the default."""
    return Parameter(description, {"type": "string", "enum": list(accepted), **schema})


def sort(description: str, accepted: Sequence[str]) -> Parameter:
    """Describe an order: one of some words, with a leading dash for the reverse order."""
    return word(description, ["", *(sign + each for each in accepted for sign in ("", "-"))])


def values(parameters: Mapping[str, Parameter], query: Mapping[str, str]) -> dict[str, Any]:
    """Return the values that a request gives, and defaults, except the reader's namespaces. Raises ``Refusal``."""
    found = {name: each.schema["default"] for name, each in parameters.items() if "default" in each.schema}
    for name, each in parameters.items():
        if name in query and name != _NAMESPACES and (query[name] or "enum" not in each.schema):
            found[name] = _value(name, query[name], each.schema)
    return found


def _value(name: str, given: str, schema: Mapping[str, Any]) -> object:
    match schema:
        case {"type": "boolean"} if given in _BOOLEANS:
            return _BOOLEANS[given]
        case {"type": "boolean"}:
            raise refused(name, given, "true or false")
        case {"type": "integer", "minimum": least, "maximum": most}:
            if not (given.isascii() and given.isdecimal() and len(given) < 10 and least <= int(given) <= most):
                raise refused(name, given, f"a number from {least} to {most}")
            return int(given)
        case {"format": "date-time"}:
            return _moment(name, given)
        case {"enum": accepted} if given not in accepted:
            raise refused(name, given, ", ".join(filter(None, accepted)))
        case {"maxLength": most} if len(given) > most:
            raise invalid(name, f"{shown(given)} is longer than {most} characters")
    return given


def _moment(name: str, given: str) -> datetime:
    moment = moment_of(given)
    if moment is None:
        raise refused(name, given, "a time with its offset, such as 2026-11-21T03:12:00Z")
    return moment


def key_of(call: Call) -> tuple[str, str]:
    """Return the namespace and the name in the path; an empty namespace for a cluster-scoped object."""
    return call.path_values.get("namespace", ""), call.path_values["name"]


def reader_of(call: Call) -> Reader:
    """Return the reader of an answer: of the body, or of the query; one who may see everything without both.

    An empty list of namespaces has no namespaces, and does not mean all.
    """
    if call.body:
        return Reader(decode_json(ReaderRequest, call.body).namespaces)
    listed = call.query.get(_NAMESPACES)
    return Reader(None if listed is None else frozenset(filter(None, listed.split(","))))


def for_readers(route: Route) -> Iterator[Route]:
    """Yield a GET route, and the POST route that takes the namespaces of the reader in the body."""
    yield route
    query = {name: each for name, each in (route.query or {}).items() if name != _NAMESPACES}
    yield route._replace(method="POST", accepts=(JSON,), query=query, operation=_for_reader(route.operation))


def _for_reader(operation: Operation | None) -> Operation | None:
    if operation is None:
        return None
    return operation._replace(
        id=f"{operation.id}ForReader",
        summary=f"{operation.summary}, for a reader of some namespaces",
        body=ReaderRequest,
        bodies={"of two namespaces": {"namespaces": ["default", "shop"]}},
    )


def choice(name: str, value: str, kind: type[E]) -> E:
    """Return the member of an enumeration with a value."""
    try:
        return kind(value)
    except ValueError:
        raise refused(name, value, ", ".join(str(each.value) for each in kind)) from None


def refused(name: str, value: str, accepted: str) -> Refusal:
    """Return the refusal of the value of a parameter."""
    return invalid(name, f"{shown(value)} is not accepted; accepted is {accepted}")


def invalid(name: str, problem: str) -> Refusal:
    """Return the refusal of a parameter."""
    return Refusal(400, f"query parameter {name}: {problem}", errors=[InvalidField(f"?{name}", problem)])
