"""What the chart's roles grant, and what was asked for and used, by the API server's own audit."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from e2e.control_plane import ControlPlane

_DECISION: Final = "authorization.k8s.io/decision"


class Right(NamedTuple):
    """One verb on one resource, subresources after a slash."""

    group: str
    resource: str
    verb: str


def granted(objects: Iterable[Mapping[str, Any]], subject: str) -> set[Right]:
    """What roles among some objects let a ServiceAccount or user do, by its name.

    Names and namespaces are left out: what is asked for outside of them is refused, which ``refused`` shows.
    """
    stored = list(objects)
    bound = {
        (each["roleRef"]["kind"], each["roleRef"]["name"], each["metadata"].get("namespace"))
        for each in stored
        if each["kind"] in {"RoleBinding", "ClusterRoleBinding"}
        and subject in {one["name"] for one in each["subjects"]}
    }
    return {
        Right(group, resource, verb)
        for each in stored
        if (each["kind"], each["metadata"]["name"], each["metadata"].get("namespace")) in bound
        for rule in each["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def used(plane: ControlPlane, user: str) -> set[Right]:
    return {_right(event) for event in plane.requests_of(user) if event["annotations"].get(_DECISION) == "allow"}


def refused(plane: ControlPlane, user: str) -> list[tuple[Right, str]]:
    """What a user would have needed a right for: which, and what for."""
    return [
        (_right(event), event["requestURI"])
        for event in plane.requests_of(user)
        if event["annotations"].get(_DECISION) == "forbid"
    ]


def _right(event: Mapping[str, Any]) -> Right:
    about = event["objectRef"]
    resource = "/".join(about[part] for part in ("resource", "subresource") if part in about)
    return Right(about.get("apiGroup", ""), resource, event["verb"])
