"""Review a manifest as if it were created: what lint and simulate say about it."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from berthmaster.model.control_planes import CONTROL_PLANES
from berthmaster.model.decode import mapping_of
from berthmaster.model.kinds import group_of
from berthmaster.model.unknown_types import unknown_type
from webhook.admission.catalog import ROUTES
from webhook.admission.context import AdmissionContext
from webhook.admission.field_problem import ABSENT, FieldProblem, bounded
from webhook.admission.releases import release_problems
from webhook.admission.reviews import ReviewRoute, review
from webhook.admission.schema import SCHEMA, UNKNOWN_FIELD, completed, object_problems, schema_of
from webhook.admission.settings import AdmissionSettings, Level
from webhook.admission.wire import AdmissionRequest, GroupVersionKind

UNKNOWN_TYPE: Final = "unknown-type"
_PLANES: Final = ", ".join(each.name for each in CONTROL_PLANES)


OWN_RULES: Final = {
    SCHEMA: "A value that the API server refuses, by the CustomResourceDefinition of the kind.",
    UNKNOWN_TYPE: f"A group, kind or version that {_PLANES} and Kubernetes do not have.",
}


UNKNOWN_FIELD_SUMMARY: Final = "A field that the CustomResourceDefinition of the kind does not have."


class Linted(NamedTuple):
    """The errors and the warnings of a manifest."""

    errors: tuple[FieldProblem, ...]
    warnings: tuple[FieldProblem, ...]


def lint(raw: dict[str, Any], context: AdmissionContext, default_namespace: str) -> Linted | None:
    """Review a manifest as if it were created.

    Args:
        context: the input of reviews; settings with ``peer_checks`` find the most.

    Returns:
        The findings, or None for a kind that is not checked.
    """
    api_version, kind = str(raw.get("apiVersion", "")), str(raw.get("kind", ""))
    unknown_one = unknown_type(api_version, kind)
    if unknown_one is not None:
        problem = FieldProblem(unknown_one.path, ABSENT, unknown_one.fault, unknown_one.remedy, UNKNOWN_TYPE)
        return Linted((problem,), ())
    schema = schema_of(api_version, kind)
    if schema is None:
        return None
    document = completed(schema, raw)
    found = [*object_problems(schema, document), *release_problems(document, context.settings.karmada)]
    refused = bounded((each for each in found if each.rule == SCHEMA), SCHEMA)
    unknown = bounded((each for each in found if each.rule == UNKNOWN_FIELD), UNKNOWN_FIELD)
    reviewed = _reviewed(document, (group_of(api_version), kind), context, default_namespace, readable=not refused)
    # A rule repeats neither what the API server refuses nor, as a warning, that a field is unknown.
    level = unknown_level(context.settings)
    unknown = unknown if level is not Level.OFF else []
    errors = _elsewhere(reviewed.errors, refused)
    warnings = _elsewhere(reviewed.warnings, [*refused, *unknown])
    if level is Level.DENY:
        return Linted((*refused, *unknown, *errors), warnings)
    return Linted((*refused, *errors), (*unknown, *warnings))


def _elsewhere(problems: tuple[FieldProblem, ...], known: list[FieldProblem]) -> tuple[FieldProblem, ...]:
    paths = {each.path for each in known}
    return tuple(each for each in problems if each.path not in paths)


def unknown_level(settings: AdmissionSettings) -> Level:
    """Return the level of an unknown field."""
    return settings.levels.get(UNKNOWN_FIELD, Level.DENY)


def _reviewed(
    document: dict[str, Any],
    identity: tuple[str, str],
    context: AdmissionContext,
    default_namespace: str,
    *,
    readable: bool,
) -> Linted:
    """Return what the webhook says about an object. An object that is not ``readable`` is malformed without a word."""
    written = mapping_of(document.get("metadata")).get("namespace")
    namespace = (written or default_namespace) if identity[1] == "PropagationPolicy" else ""
    errors: list[FieldProblem] = []
    warnings: list[FieldProblem] = []
    for route in _routes(identity):
        kind = GroupVersionKind(identity[0], "", identity[1])
        request = AdmissionRequest(uid="", kind=kind, namespace=namespace, operation="CREATE", object=document)
        outcome = review(route, request, context)
        if outcome.malformed:
            errors.extend([FieldProblem("", ABSENT, outcome.malformed, "correct it")] if readable else ())
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
