"""Asks which permissions of the controllers a user has."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from berthmaster.controllers.rbac import AccessRule, rules_of
from berthmaster.kube import requests
from berthmaster.model.errors import ApiError
from berthmaster_cli.doctor.facts import AccessFacts, Setup
from berthmaster_cli.doctor.gather.client import DoctorClient

_ACCESS_REVIEWS: Final = requests.Collection.of("authorization.k8s.io/v1", "selfsubjectaccessreviews")
_USER_REVIEWS: Final = requests.Collection.of("authentication.k8s.io/v1", "selfsubjectreviews")


def questions(setup: Setup) -> Iterator[tuple[AccessRule, dict[str, str]]]:
    """Yield a question for each verb and resource that the controllers need: the rule, and the attributes."""
    for rule in rules_of(setup.controllers, estimators=setup.estimators, moves=setup.moves):
        for listed in rule.resources:
            resource, _, subresource = listed.partition("/")
            for verb in rule.verbs:
                yield rule, {
                    "group": rule.group, "resource": resource, "verb": verb,
                    **({"subresource": subresource} if subresource else {}),
                    **({"namespace": setup.lease[0]} if rule.scope == "lease" else {}),
                    **({"namespace": setup.karmada_namespace} if rule.scope == "estimators" else {}),
                    **({"name": setup.lease[1]} if rule.named else {}),
                }  # fmt: skip


def permission(attributes: Mapping[str, str]) -> str:
    """Return what is asked: ``patch resourcebindings/status.work.karmada.io``."""
    resource = "/".join(filter(None, (attributes["resource"], attributes.get("subresource"))))
    where = f" in {attributes['namespace']}" if "namespace" in attributes else ""
    return f"{attributes['verb']} {'.'.join(filter(None, (resource, attributes['group'])))}{where}"


def read_access(client: DoctorClient, setup: Setup) -> AccessFacts:
    """Ask which permissions of the controllers the client's user has."""
    denied, asked = [], list(questions(setup))
    for rule, attributes in asked:
        spec = {"resourceAttributes": attributes}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
        if not (client.read(requests.create(_ACCESS_REVIEWS, "", review)).get("status") or {}).get("allowed"):
            denied.append((rule, permission(attributes)))
    try:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        status = client.read(requests.create(_USER_REVIEWS, "", review)).get("status") or {}
    except ApiError:  # before Kubernetes 1.28
        status = {}
    user: dict[str, Any] = status.get("userInfo") or {}
    groups = tuple(map(str, user.get("groups") or ()))
    return AccessFacts(str(user.get("username") or ""), groups, denied, len(asked))
