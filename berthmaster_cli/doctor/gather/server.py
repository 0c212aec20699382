"""An API server: its version, its clock, what it serves."""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final

import msgspec

from berthmaster.kube.requests import Request
from berthmaster.kube.transport import body_of
from berthmaster.model.errors import ApiError
from berthmaster_cli.doctor.facts import Kinds, Server
from berthmaster_cli.doctor.gather.asking import Asker, read_as

_NUMBER: Final = re.compile(r"\d+")
_REFERENCE: Final = "#/components/schemas/"
_MAX_DEPTH: Final = 24
"""Placements nest less than half as deep; a schema that refers to itself would nest for ever."""


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str = ""
    major: str = "0"
    minor: str = "0"


class _Resource(msgspec.Struct, frozen=True):
    name: str


class _Resources(msgspec.Struct, frozen=True):
    resources: list[_Resource] = []


def server(asker: Asker, now: Callable[[], datetime]) -> Server:
    """Version and clock.

    The clock is read from the ``Date`` of an answer: whole seconds, cut off. So on average it is half a second later
    than it says, and the answer was under way for half of the time that everything took.

    Raises:
        ApiError: it does not answer.
    """
    started = now()
    with asker.send(Request("/version")) as answer:
        told = answer.header("Date")
        version = read_as(_Version, body_of(answer))
    took = now() - started
    return Server(
        version=version.git_version,
        number=(_number(version.major), _number(version.minor)),
        ahead=_ahead(told, started + took / 2),
        slack=took / 2 + timedelta(seconds=0.5),
    )


def kinds(asker: Asker, api_version: str) -> Kinds:
    """What an API version serves, with its schemas if the server publishes them.

    Raises:
        ApiError: it does not serve it (404), or does not answer.
    """
    listed = asker.read_as(_Resources, Request(f"/apis/{api_version}"))
    try:
        document = asker.read(Request(f"/openapi/v3/apis/{api_version}"))
    except ApiError as error:
        if not error.absent:
            raise
        document = {}
    plurals = frozenset(each.name for each in listed.resources if "/" not in each.name)
    return Kinds(plurals, dict(_schemas(document, api_version)))


def _number(text: str) -> int:
    """``31`` of ``31+``, as some clouds write it."""
    found = _NUMBER.match(text)
    return int(found[0]) if found else 0


def _ahead(told: list[str], here: datetime) -> timedelta | None:
    try:
        there = parsedate_to_datetime(told[0]) if told else None
    except ValueError:
        return None
    return there.astimezone(UTC) + timedelta(seconds=0.5) - here if there is not None else None


def _schemas(document: Mapping[str, Any], api_version: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    group, _, version = api_version.partition("/")
    schemas = (document.get("components") or {}).get("schemas") or {}
    for schema in schemas.values():
        for meant in schema.get("x-kubernetes-group-version-kind") or []:
            if (meant.get("group"), meant.get("version")) == (group, version):
                yield str(meant.get("kind")), _resolved(schema, schemas, _MAX_DEPTH)


def _resolved(schema: Any, schemas: Mapping[str, Any], depth: int) -> Any:  # noqa: ANN401 - any JSON value
    """A schema with what it refers to put in its place, down to a depth."""
    if depth == 0 or not isinstance(schema, dict):
        return schema
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return _resolved(schemas.get(reference.removeprefix(_REFERENCE)), schemas, depth - 1)
    parts = schema.get("allOf")
    if isinstance(parts, list) and len(parts) == 1:  # how a reference gets a default beside it
        return _resolved(parts[0], schemas, depth - 1)
    result = dict(schema)
    if isinstance(properties := schema.get("properties"), dict):
        result["properties"] = {name: _resolved(each, schemas, depth - 1) for name, each in properties.items()}
    if "items" in schema:
        result["items"] = _resolved(schema["items"], schemas, depth - 1)
    return result
