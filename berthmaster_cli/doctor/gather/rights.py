"""What a user may do, one ``SelfSubjectAccessReview`` for each verb that the controllers' code needs."""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from berthmaster.controllers.rbac import Rule, rules_of
from berthmaster.kube.requests import Collection, create
from berthmaster.model.errors import ApiError
from berthmaster_cli.doctor.facts import Rights, Setup
from berthmaster_cli.doctor.gather.asking import Asker

_REVIEWS: Final = Collection.of("authorization.k8s.io/v1", "selfsubjectaccessreviews")
_USERS: Final = Collection.of("authentication.k8s.io/v1", "selfsubjectreviews")


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
