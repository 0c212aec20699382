"""An API server: its version, its clock, what it serves."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final, NamedTuple

import msgspec

from berthmaster.controllers.rbac import Rule, rules_of
from berthmaster.kube.client import read_body
from berthmaster.kube.requests import APIRequest, Collection, create
from berthmaster.model.errors import ApiError
from berthmaster_cli.doctor.facts import Kinds, Rights, Server, Setup
from berthmaster_cli.doctor.gather.asker import Asker, read_as

_NUMBER: Final = re.compile(r"\d+")
_REFERENCE: Final = "#/components/schemas/"
_MAX_DEPTH: Final = 24
"""Placements nest less than half as deep; a schema that refers to itself would nest for ever."""
_REVIEWS: Final = Collection.of("authorization.k8s.io/v1", "selfsubjectaccessreviews")
_USERS: Final = Collection.of("authentication.k8s.io/v1", "selfsubjectreviews")


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
    with asker.send(APIRequest("/version")) as answer:
        told = answer.header("Date")
        version = read_as(_Version, read_body(answer))
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
    listed = asker.read_as(_Resources, APIRequest(f"/apis/{api_version}"))
    try:
        document = asker.read(APIRequest(f"/openapi/v3/apis/{api_version}"))
    except ApiError as error:
        if not error.not_found:
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


class Question(NamedTuple):
    """One verb on one resource.

    Attributes:
        rule: whose it is.
        attributes: as a review asks it.
    """

    rule: Rule
    attributes: dict[str, str]

    @property
    def told(self) -> str:
        """``patch resourcebindings/status.work.karmada.io``."""
        asked = self.attributes
        resource = "/".join(filter(None, (asked["resource"], asked.get("subresource", ""))))
        where = f" in {asked['namespace']}" if asked.get("namespace") else ""
        return f"{asked['verb']} {'.'.join(filter(None, (resource, asked['group'])))}{where}"


def questions(rules: Iterable[Rule], setup: Setup) -> Iterator[Question]:
    """Everything that rules allow, verb by verb."""
    for rule in rules:
        for listed in rule.resources:
            resource, _, subresource = listed.partition("/")
            for verb in rule.verbs:
                yield Question(rule, {
                    "group": rule.group, "resource": resource, "verb": verb,
                    **({"subresource": subresource} if subresource else {}),
                    **({"namespace": setup.lease[0]} if rule.scope == "lease" else {}),
                    **({"namespace": setup.karmada_namespace} if rule.scope == "estimators" else {}),
                    **({"name": setup.lease[1]} if rule.named else {}),
                })  # fmt: skip


def rights(asker: Asker, setup: Setup) -> Rights:
    """What whoever asks may do of what the controllers do.

    Raises:
        ApiError: the API server does not tell.
    """
    denied, checked = [], 0
    for question in questions(rules_of(setup.controllers, estimators=setup.estimators), setup):
        checked += 1
        if not _allowed(asker, question.attributes):
            denied.append((question.rule, question.told))
    user, groups = _who(asker)
    return Rights(user, groups, denied, checked)


def _allowed(asker: Asker, attributes: dict[str, str]) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    return bool((asker.read(create(_REVIEWS, "", review)).get("status") or {}).get("allowed"))


def _who(asker: Asker) -> tuple[str, tuple[str, ...]]:
    """Who the API server takes us for; it tells since 1.28."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        told: dict[str, Any] = (asker.read(create(_USERS, "", review)).get("status") or {}).get("userInfo") or {}
    except ApiError:
        return "", ()
    return str(told.get("username") or ""), tuple(map(str, told.get("groups") or ()))
