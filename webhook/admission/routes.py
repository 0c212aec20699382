"""The one table of what is reviewed where, and the frame around every review."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from berthmaster.model.errors import FieldError
from webhook.admission.context import Context
from webhook.admission.karmada import reviews as karmada
from webhook.admission.kubeadmiral import reviews as kubeadmiral
from webhook.admission.outcome import ALLOWED, Outcome
from webhook.admission.review import Request

Reviewer = Callable[[Request, Context], Outcome]

_KARMADA: Final = "policy.karmada.io"
_KUBEADMIRAL: Final = "core.kubeadmiral.io"
_REVIEWED: Final = ("CREATE", "UPDATE")
_KNOWN_OPERATIONS: Final = (*_REVIEWED, "DELETE", "CONNECT")


class Route(NamedTuple):
    """What a path reviews."""

    group: str
    kind: str
    reviewer: Reviewer


ROUTES: Final[Mapping[str, Route]] = {
    "/mutate-propagationpolicy": Route(_KARMADA, "PropagationPolicy", karmada.mutate_policy),
    "/validate-propagationpolicy": Route(_KARMADA, "PropagationPolicy", karmada.validate_policy),
    "/mutate-clusterpropagationpolicy": Route(_KARMADA, "ClusterPropagationPolicy", karmada.mutate_policy),
    "/validate-clusterpropagationpolicy": Route(_KARMADA, "ClusterPropagationPolicy", karmada.validate_policy),
    "/validate-workloadrebalancer": Route("apps.karmada.io", "WorkloadRebalancer", karmada.validate_rebalancer),
    "/mutate-kubeadmiral-propagationpolicy": Route(_KUBEADMIRAL, "PropagationPolicy", kubeadmiral.mutate_policy),
    "/validate-kubeadmiral-propagationpolicy": Route(_KUBEADMIRAL, "PropagationPolicy", kubeadmiral.validate_policy),
    "/mutate-kubeadmiral-clusterpropagationpolicy": Route(
        _KUBEADMIRAL, "ClusterPropagationPolicy", kubeadmiral.mutate_policy
    ),
    "/validate-kubeadmiral-clusterpropagationpolicy": Route(
        _KUBEADMIRAL, "ClusterPropagationPolicy", kubeadmiral.validate_policy
    ),
}


def review(route: Route, request: Request, context: Context) -> Outcome:
    """Review a request. What makes no sense is an outcome too, a malformed one."""
    asked = request.kind
    if (asked.group, asked.kind) != (route.group, route.kind):
        return Outcome(malformed=(
            f"this path reviews {route.kind} of {route.group}, and the request is about {asked.kind or 'no kind'} of "
            f"{asked.group or 'the core group'}; correct the rules of the webhook configuration"
        ))  # fmt: skip
    if request.operation not in _KNOWN_OPERATIONS:
        return Outcome(
            malformed=f"unknown operation {request.operation[:32]!r}; known are {', '.join(_KNOWN_OPERATIONS)}"
        )
    if request.operation not in _REVIEWED or request.sub_resource:
        # A deletion has no new object, and a subresource leaves the spec alone: there is nothing to decide.
        return ALLOWED
    missing = _missing(route, request)
    if missing:
        return Outcome(malformed=missing)
    if _being_deleted(request):
        # It places nothing any more. What remains is to take its finalizers off: to refuse that would keep it for ever.
        return ALLOWED
    try:
        return route.reviewer(request, context)
    except FieldError as error:
        return Outcome(malformed=f"the object cannot be read: {error}")


def _being_deleted(request: Request) -> bool:
    """Whether an update is about an object that waits for its finalizers. Only an API server can mark it so."""
    metadata = (request.old_object or {}).get("metadata")
    return isinstance(metadata, dict) and metadata.get("deletionTimestamp") is not None


def _missing(route: Route, request: Request) -> str:
    """Which object a request lacks, in words; empty if it has all that its operation needs."""
    if request.object is None:
        return f"request.object is missing, which {request.operation} needs"
    if request.operation == "UPDATE" and request.old_object is None:
        return "request.oldObject is missing, which UPDATE needs"
    written = request.object.get("kind")
    if written != route.kind:
        return f"request.object is of kind {str(written)[:64]!r}, and request.kind says {route.kind}"
    return ""
