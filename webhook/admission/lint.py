"""The same defaults and rules for a manifest that nobody has sent to an API server yet."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from berthmaster.model.decode import convert, unknown_fields
from berthmaster.model.errors import FieldError
from berthmaster.model.kinds import group_of
from berthmaster.model.kubeadmiral import KubeAdmiralPolicy
from berthmaster.model.meta import Value
from berthmaster.model.policy import Policy
from berthmaster.model.rebalancer import WorkloadRebalancer
from webhook.admission.context import Context
from webhook.admission.karmada.schema_defaults import apply_schema_defaults
from webhook.admission.patch import Draft
from webhook.admission.problem import ABSENT, Problem
from webhook.admission.review import GroupVersionKind, Request
from webhook.admission.routes import ROUTES, Route, review

SCHEMA: Final = "schema"
UNKNOWN_FIELD: Final = "unknown-field"
OWN_RULES: Final = {
    SCHEMA: "A value that the API server would refuse, or no review could read.",
    UNKNOWN_FIELD: "A field that the API does not have: it is dropped when the object is stored.",
}
_TYPES: Final[dict[tuple[str, str], type[Value]]] = {
    ("policy.karmada.io", "PropagationPolicy"): Policy,
    ("policy.karmada.io", "ClusterPropagationPolicy"): Policy,
    ("apps.karmada.io", "WorkloadRebalancer"): WorkloadRebalancer,
    ("core.kubeadmiral.io", "PropagationPolicy"): KubeAdmiralPolicy,
    ("core.kubeadmiral.io", "ClusterPropagationPolicy"): KubeAdmiralPolicy,
}


class Linted(NamedTuple):
    """What is wrong with a manifest, and what is questionable."""

    errors: tuple[Problem, ...]
    warnings: tuple[Problem, ...]


def lint(raw: dict[str, Any], context: Context, default_namespace: str) -> Linted | None:
    """Look at a manifest as if it were created.

    Args:
        raw: an object with ``apiVersion`` and ``kind``.
        context: what to check with; settings with ``peer_checks`` find the most.
        default_namespace: where an object without a namespace would go.

    Returns:
        What was found, or None for a kind that is not reviewed.
    """
    identity = (group_of(str(raw.get("apiVersion", ""))), str(raw.get("kind", "")))
    if identity not in _TYPES:
        return None
    unknown = [
        Problem(each.path, ABSENT, each.problem, "correct or remove it", UNKNOWN_FIELD) for each in _unknown(raw)
    ]
    broken = _schema_error(raw, _TYPES[identity])
    if broken is not None:
        return Linted((broken,), tuple(unknown))
    errors, warnings = _reviewed(raw, identity, context, default_namespace)
    return Linted(errors, (*unknown, *warnings))


def _reviewed(raw: dict[str, Any], identity: tuple[str, str], context: Context, default_namespace: str) -> Linted:
    draft = Draft(raw)
    if identity[0] == "policy.karmada.io":
        apply_schema_defaults(draft)
    namespaced = identity[1] == "PropagationPolicy"
    namespace = (draft.get("metadata", "namespace") or default_namespace) if namespaced else ""
    request = Request(
        uid="", kind=GroupVersionKind(identity[0], "", identity[1]), namespace=namespace, operation="CREATE",
        object=draft.document,
    )  # fmt: skip
    errors: list[Problem] = []
    warnings: list[Problem] = []
    for route in _routes(identity):
        outcome = review(route, request, context)
        if outcome.malformed:
            errors.append(Problem("", ABSENT, outcome.malformed, "correct it", SCHEMA))
            break
        errors.extend(outcome.denials)
        warnings.extend(map(_as_problem, outcome.warnings))
        if outcome.mutated is not None:
            request = Request(
                uid="", kind=request.kind, namespace=namespace, operation="CREATE", object=outcome.mutated
            )
    return Linted(tuple(errors), tuple(warnings))


def _as_problem(warning: Problem | str) -> Problem:
    """What a review says without a field is about the annotations that it keeps."""
    return warning if isinstance(warning, Problem) else Problem("metadata.annotations", ABSENT, warning, "remove it")


def _routes(identity: tuple[str, str]) -> Iterator[Route]:
    """The routes of a kind, mutation first."""
    for path in sorted(ROUTES):
        if (ROUTES[path].group, ROUTES[path].kind) == identity:
            yield ROUTES[path]


def _unknown(raw: dict[str, Any]) -> list[FieldError]:
    kind = _TYPES[group_of(str(raw.get("apiVersion", ""))), str(raw.get("kind", ""))]
    return [each for each in unknown_fields(kind, raw) if each.path.partition(".")[0] != "status"]


def _schema_error(raw: dict[str, Any], kind: type[Value]) -> Problem | None:
    try:
        convert(kind, raw)
    except FieldError as error:
        return Problem(error.path, ABSENT, error.problem, "correct it", SCHEMA)
    return None
