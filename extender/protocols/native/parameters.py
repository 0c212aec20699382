"""Query parameters of the native API: their values, and refusals that name parameter, value and what is accepted."""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final, TypeVar

from berthmaster.model.decode import decode_json
from berthmaster.model.errors import shown
from berthmaster.model.gaps import Reader
from berthmaster.native_api.wire import InvalidField, ReaderRequest
from extender.protocols.problem import Refusal
from extender.protocols.route import JSON, Operation, Parameter, Route
from extender.protocols.services import Call

E = TypeVar("E", bound=Enum)
_BOOLEANS: Final = {"true": True, "false": False}


def text(description: str) -> Parameter:
    """Describe a parameter with any text."""
    return Parameter(description, {"type": "string"})


def time(description: str) -> Parameter:
    """Describe a parameter with a time."""
    return Parameter(description, {"type": "string", "format": "date-time"})


def count(description: str, most: int, *, least: int = 1) -> Parameter:
    """Describe a parameter that ``number`` reads."""
    return Parameter(description, {"type": "integer", "minimum": least, "maximum": most})


def flag(query: Mapping[str, str], name: str) -> bool:
    """Return a boolean, False by default."""
    value = query.get(name)
    if value is None:
        return False
    if value not in _BOOLEANS:
        raise refused(name, value, "true or false")
    return _BOOLEANS[value]


def number(query: Mapping[str, str], name: str, default: int, most: int, *, least: int = 1) -> int:
    """Return a number."""
    value = query.get(name)
    if value is None:
        return default
    if not (value.isascii() and value.isdecimal() and len(value) < 10 and least <= int(value) <= most):
        raise refused(name, value, f"a number from {least} to {most}")
    return int(value)


def names(query: Mapping[str, str], name: str) -> frozenset[str] | None:
    """Return a list of names; None without the parameter. An empty list has no names, and does not mean all."""
    return frozenset(filter(None, query[name].split(","))) if name in query else None


def reader_of(call: Call) -> Reader:
    """Return the reader of an answer: of the body, or of the query; one who may see everything without both."""
    return Reader(decode_json(ReaderRequest, call.body).namespaces if call.body else names(call.query, "namespaces"))


def for_readers(route: Route) -> Iterator[Route]:
    """Yield a GET route, and the POST route that takes the namespaces of the reader in the body."""
    yield route
    query = {name: each for name, each in (route.query or {}).items() if name != "namespaces"}
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
    problem = f"{shown(value)} is not accepted; accepted is {accepted}"
    return Refusal(400, f"query parameter {name}: {problem}", errors=[InvalidField(f"?{name}", problem)])
