"""Facts about an API server: its version, its clock, what it serves, and what a user may do."""

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final, NamedTuple

import msgspec

from berthmaster.controllers.rbac import AccessRule, rules_of
from berthmaster.kube.client import ask_if_found, read_body
from berthmaster.kube.requests import APIRequest, Collection, create
from berthmaster.kube.served_types import APIResourceList, openapi_request, schemas_of
from berthmaster.model.errors import ApiError
from berthmaster_cli.doctor.facts import AccessFacts, ServedKinds, ServerFacts, Setup
from berthmaster_cli.doctor.gather.client import DoctorClient, decode

_NUMBER: Final = re.compile(r"\d+")
_ACCESS_REVIEWS: Final = Collection.of("authorization.k8s.io/v1", "selfsubjectaccessreviews")
_USER_REVIEWS: Final = Collection.of("authentication.k8s.io/v1", "selfsubjectreviews")


class _ServerVersion(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str = ""
    major: str = "0"
    minor: str = "0"


def server(client: DoctorClient, now: Callable[[], datetime]) -> ServerFacts:
    """Read version and clock.

    The clock is read from the ``Date`` header, which cuts off fractions of a second. So the true time is half a second
    later on average. The server is assumed to have read its clock in the middle between request and response.
    """
    started = now()
    with client.send(APIRequest("/version")) as response:
        dates = response.header("Date")
        version = decode(_ServerVersion, read_body(response))
    took = now() - started
    return ServerFacts(
        version=version.git_version,
        number=(_number(version.major), _number(version.minor)),
        ahead=_ahead(dates, started + took / 2),
        slack=took / 2 + timedelta(seconds=0.5),
    )


def kinds(client: DoctorClient, api_version: str) -> ServedKinds:
    """Read what the API server serves of an API version, with schemas if it publishes them."""
    listed = client.read_as(APIResourceList, APIRequest(f"/apis/{api_version}"))
    body = ask_if_found(client, openapi_request(api_version))
    document = decode(dict[str, Any], body) if body is not None else {}
    plurals = frozenset(each.name for each in listed.resources if "/" not in each.name)
    return ServedKinds(plurals, dict(schemas_of(document, api_version)))


def _number(text: str) -> int:
    """Read 31 from ``31+``, as some clouds write it."""
    found = _NUMBER.match(text)
    return int(found[0]) if found else 0


def _ahead(dates: list[str], here: datetime) -> timedelta | None:
    try:
        there = parsedate_to_datetime(dates[0]) if dates else None
    except ValueError:
        return None
    return there.astimezone(UTC) + timedelta(seconds=0.5) - here if there is not None else None


class AccessQuestion(NamedTuple):
    """One verb on one resource."""

    rule: AccessRule
    attributes: dict[str, str]

    @property
    def permission(self) -> str:
        """``patch resourcebindings/status.work.karmada.io``."""
        resource = "/".join(filter(None, (self.attributes["resource"], self.attributes.get("subresource", ""))))
        namespace = self.attributes.get("namespace")
        where = f" in {namespace}" if namespace else ""
        return f"{self.attributes['verb']} {'.'.join(filter(None, (resource, self.attributes['group'])))}{where}"


def questions(rules: Iterable[AccessRule], setup: Setup) -> Iterator[AccessQuestion]:
    """Yield a question for each verb and resource of the rules."""
    for rule in rules:
        for listed in rule.resources:
            resource, _, subresource = listed.partition("/")
            for verb in rule.verbs:
                yield AccessQuestion(rule, {
                    "group": rule.group, "resource": resource, "verb": verb,
                    **({"subresource": subresource} if subresource else {}),
                    **({"namespace": setup.lease[0]} if rule.scope == "lease" else {}),
                    **({"namespace": setup.karmada_namespace} if rule.scope == "estimators" else {}),
                    **({"name": setup.lease[1]} if rule.named else {}),
                })  # fmt: skip


def access(client: DoctorClient, setup: Setup) -> AccessFacts:
    """Ask which permissions of the controllers the client's user has."""
    denied, checked = [], 0
    rules = rules_of(setup.controllers, estimators=setup.estimators, moves=setup.moves)
    for question in questions(rules, setup):
        checked += 1
        if not _is_allowed(client, question.attributes):
            denied.append((question.rule, question.permission))
    user, groups = _user(client)
    return AccessFacts(user, groups, denied, checked)


def _is_allowed(client: DoctorClient, attributes: dict[str, str]) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    return bool((client.read(create(_ACCESS_REVIEWS, "", review)).get("status") or {}).get("allowed"))


def _user(client: DoctorClient) -> tuple[str, tuple[str, ...]]:
    """Return user name and groups as the API server reports them; empty before Kubernetes 1.28."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        status = client.read(create(_USER_REVIEWS, "", review)).get("status") or {}
    except ApiError:
        return "", ()
    user: dict[str, Any] = status.get("userInfo") or {}
    return str(user.get("username") or ""), tuple(map(str, user.get("groups") or ()))
