"""The defaults, checks and rules of the webhook for a manifest, before an API server receives it."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from berthmaster.model.decode import convert, unknown_fields
from berthmaster.model.errors import FieldError
from berthmaster.model.kinds import group_of, unknown_type
from berthmaster.model.kubeadmiral import KubeAdmiralPolicy
from berthmaster.model.meta import Value
from berthmaster.model.policy import Policy
from berthmaster.model.rebalancer import WorkloadRebalancer
from webhook.admission.karmada.defaulting import apply_crd_defaults
from webhook.admission.outcome import ABSENT, FieldProblem
from webhook.admission.patch import Draft
from webhook.admission.reviews import ROUTES, ReviewRoute, review
from webhook.admission.rule_catalog import AdmissionContext
from webhook.admission.rules.unsupported import UNSUPPORTED_IDS
from webhook.admission.wire import AdmissionRequest, GroupVersionKind

SCHEMA: Final = "schema"
UNKNOWN_FIELD: Final = "unknown-field"
UNKNOWN_TYPE: Final = "unknown-type"
OWN_RULES: Final = {
    SCHEMA: "A value that the API server rejects, or that a review cannot read.",
    UNKNOWN_FIELD: "A field that the API does not have: the API server drops it.",
    UNKNOWN_TYPE: "A group, kind or version that Karmada and KubeAdmiral do not have.",
}
_TYPES: Final[dict[tuple[str, str], type[Value]]] = {
    ("policy.karmada.io", "PropagationPolicy"): Policy,
    ("policy.karmada.io", "ClusterPropagationPolicy"): Policy,
    ("apps.karmada.io", "WorkloadRebalancer"): WorkloadRebalancer,
    ("core.kubeadmiral.io", "PropagationPolicy"): KubeAdmiralPolicy,
    ("core.kubeadmiral.io", "ClusterPropagationPolicy"): KubeAdmiralPolicy,
}


class Linted(NamedTuple):
    """The errors and the warnings of a manifest."""

    errors: tuple[FieldProblem, ...]
    warnings: tuple[FieldProblem, ...]


def lint(raw: dict[str, Any], context: AdmissionContext, default_namespace: str) -> Linted | None:
    """Review a manifest as if it were created.

    Args:
        raw: an object with ``apiVersion`` and ``kind``.
        context: the input of reviews; settings with ``peer_checks`` find the most.
        default_namespace: the namespace of an object without one.

    Returns:
        The findings, or None for a kind that the webhook does not review.
    """
    api_version, kind = str(raw.get("apiVersion", "")), str(raw.get("kind", ""))
    unknown_one = unknown_type(api_version, kind)
    if unknown_one is not None:
        problem = FieldProblem(unknown_one.path, ABSENT, unknown_one.problem, "correct it", UNKNOWN_TYPE)
        return Linted((problem,), ())
    identity = (group_of(api_version), kind)
    if identity not in _TYPES:
        return None
    fields = [each for each in unknown_fields(_TYPES[identity], raw) if each.path.partition(".")[0] != "status"]
    unknown = tuple(map(_unknown, fields))
    try:
        convert(_TYPES[identity], raw)
    except FieldError as error:
        return Linted((FieldProblem(error.path, ABSENT, error.problem, "correct it", SCHEMA),), unknown)
    errors, warnings = _reviewed(raw, identity, context, default_namespace)
    misspelled = {each.path for each in fields if each.misspelled}
    # One finding for a field: the one with the likely name if it is misspelled, else that of the rule.
    ruled = {each.path for each in (*errors, *warnings) if each.rule in UNSUPPORTED_IDS} - misspelled
    own = tuple(each for each in warnings if each.rule not in UNSUPPORTED_IDS or each.path not in misspelled)
    return Linted(errors, (*(each for each in unknown if each.path not in ruled), *own))


def _unknown(error: FieldError) -> FieldProblem:
    return FieldProblem(error.path, ABSENT, error.problem, "correct or remove it", UNKNOWN_FIELD)


def _reviewed(
    raw: dict[str, Any], identity: tuple[str, str], context: AdmissionContext, default_namespace: str
) -> Linted:
    draft = Draft(raw)
    if identity[0] == "policy.karmada.io":
        apply_crd_defaults(draft)
    namespaced = identity[1] == "PropagationPolicy"
    namespace = (draft.get("metadata", "namespace") or default_namespace) if namespaced else ""
    document = draft.document
    errors: list[FieldProblem] = []
    warnings: list[FieldProblem] = []
    for route in _routes(identity):
        kind = GroupVersionKind(identity[0], "", identity[1])
        request = AdmissionRequest(uid="", kind=kind, namespace=namespace, operation="CREATE", object=document)
        outcome = review(route, request, context)
        if outcome.malformed:
            errors.append(FieldProblem("", ABSENT, outcome.malformed, "correct it", SCHEMA))
            break
        errors.extend(outcome.denials)
        warnings.extend(map(_as_problem, outcome.warnings))
        if outcome.denials:
            break  # an API server calls no other webhook then
        document = outcome.mutated if outcome.mutated is not None else document
    return Linted(tuple(errors), tuple(warnings))


def _as_problem(warning: FieldProblem | str) -> FieldProblem:
    """Return a warning with a field. A review warns about its annotations without one."""
    if isinstance(warning, FieldProblem):
        return warning
    return FieldProblem("metadata.annotations", ABSENT, warning, "remove it")


def _routes(identity: tuple[str, str]) -> Iterator[ReviewRoute]:
    """Yield the routes of a kind, mutation first."""
    for path in sorted(ROUTES):
        if (ROUTES[path].group, ROUTES[path].kind) == identity:
            yield ROUTES[path]
