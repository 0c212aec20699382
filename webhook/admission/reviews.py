"""The review of a request by the path that it came on. ``catalog`` has all paths."""

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeVar

from berthmaster.model.decode import convert
from berthmaster.model.errors import FieldError
from berthmaster.model.meta import Value
from webhook.admission.context import AdmissionContext
from webhook.admission.field_problem import ABSENT, FieldProblem
from webhook.admission.json_patch import MAX_PATCH_BYTES, PatchTooLargeError
from webhook.admission.review_outcome import ALLOWED, ReviewOutcome
from webhook.admission.spec_changes import Complete, spec_is_unchanged
from webhook.admission.wire import AdmissionRequest, RequestHead

S = TypeVar("S", bound=Value)

ReviewFunction = Callable[[AdmissionRequest, AdmissionContext], ReviewOutcome]
REVIEWED: Final = ("CREATE", "UPDATE")
CHANGING: Final = (*REVIEWED, "DELETE")
_KNOWN_OPERATIONS: Final = (*CHANGING, "CONNECT")


class ReviewRoute(NamedTuple):
    """A path."""

    group: str
    kind: str
    function: ReviewFunction
    operations: tuple[str, ...] = REVIEWED


def review(route: ReviewRoute, request: AdmissionRequest, context: AdmissionContext) -> ReviewOutcome:
    """Review a request. An invalid request gives an outcome too: a malformed one."""
    problem = request_problem(route, request)
    if problem:
        return ReviewOutcome(malformed=problem)
    if is_ignored(route, request):
        return ALLOWED
    problem = _object_problem(route, request)
    if problem:
        return ReviewOutcome(malformed=problem)
    if _is_being_deleted(request):
        # The object places nothing any more. A denial would keep its finalizers, and the object, forever.
        return ALLOWED
    try:
        return route.function(request, context)
    except FieldError as error:
        return ReviewOutcome(malformed=f"the object cannot be read: {error}")
    except PatchTooLargeError as error:
        return ReviewOutcome(denials=(_too_many_defaults(error),))


def is_ignored(route: ReviewRoute, request: RequestHead) -> bool:
    """Return whether a path does not review a request. A subresource does not change the spec."""
    return request.operation not in route.operations or bool(request.sub_resource)


def request_problem(route: ReviewRoute, request: RequestHead) -> str:
    """Return why the path cannot review the request; empty if it can."""
    kind = request.kind
    if (kind.group, kind.kind) != (route.group, route.kind):
        return (
            f"this path reviews {route.kind} of {route.group}, and the request is about {kind.kind or 'no kind'} of "
            f"{kind.group or 'the core group'}; correct the rules of the webhook configuration"
        )
    if request.operation not in _KNOWN_OPERATIONS:
        return f"unknown operation {request.operation[:32]!r}; known are {', '.join(_KNOWN_OPERATIONS)}"
    return ""


def _object_problem(route: ReviewRoute, request: AdmissionRequest) -> str:
    """Return which object the request lacks or mislabels; empty if it has all that its operation needs."""
    if request.operation in {"UPDATE", "DELETE"} and request.old_object is None:
        return f"request.oldObject is missing, which {request.operation} needs"
    if request.operation == "DELETE":
        return ""
    if request.object is None:
        return f"request.object is missing, which {request.operation} needs"
    written = request.object.get("kind")
    if written != route.kind:
        return f"request.object is of kind {str(written)[:64]!r}, and request.kind says {route.kind}"
    return ""


def _is_being_deleted(request: AdmissionRequest) -> bool:
    """Return whether the stored object waits for its finalizers. Only an API server sets that timestamp."""
    metadata = (request.old_object or {}).get("metadata")
    return isinstance(metadata, dict) and metadata.get("deletionTimestamp") is not None


def outcome_of(
    denials: Iterable[FieldProblem],
    warnings: Iterable[FieldProblem],
    request: AdmissionRequest,
    complete: Complete = lambda _draft: None,
) -> ReviewOutcome:
    """Deny an object, or only warn if an update does not change the spec.

    A check that is new must not lock objects that were stored before it. A controller that adds a label or removes a
    finalizer sends the whole object. A denial for an unchanged spec would block deletions.
    """
    refused = tuple(denials)
    if refused and spec_is_unchanged(request, complete):
        return ReviewOutcome(warnings=(*refused, *warnings))
    return ReviewOutcome(denials=refused, warnings=tuple(warnings))


def spec_of(kind: type[S], raw: dict[str, Any]) -> S:
    """Return the spec of an object. Raises ``FieldError`` if it cannot be decoded."""
    try:
        return convert(kind, {} if raw.get("spec") is None else raw["spec"])
    except FieldError as error:
        raise error.below("spec") from None


def _too_many_defaults(error: PatchTooLargeError) -> FieldProblem:
    return FieldProblem(
        error.path, ABSENT,
        f"{error.objects:,} entries, and a patch that adds their defaults is larger than {MAX_PATCH_BYTES:,} bytes",
        "shorten the list, or set the defaults in it",
    )  # fmt: skip
