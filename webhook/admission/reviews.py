"""The reviews: one table of paths, and one function for each kind that a path reviews."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from berthmaster.model.claims import (
    PERMANENT_ID,
)
from berthmaster.model.decode import convert
from berthmaster.model.errors import FieldError
from berthmaster.model.kubeadmiral import KubeAdmiralSpec
from berthmaster.model.meta import Value
from berthmaster.model.policy import Policy
from berthmaster.model.rebalancer import RebalancerSpec
from webhook.admission import karmada_checks, kubeadmiral, rebalancer
from webhook.admission.field_problem import ABSENT, FieldProblem, bounded
from webhook.admission.impact_review import Complete, review_impact, spec_is_unchanged
from webhook.admission.json_patch import MAX_PATCH_BYTES, Draft, PatchTooLargeError
from webhook.admission.karmada_defaults import apply_defaults, set_identity
from webhook.admission.lenient_policy import read
from webhook.admission.priority_drops import review_drop
from webhook.admission.review_outcome import ALLOWED, ReviewOutcome
from webhook.admission.rule_catalog import AdmissionContext
from webhook.admission.rules.rule import ReviewedKubeAdmiralSpec, ReviewedPolicy, has_long_list
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


def mutate_karmada_policy(request: AdmissionRequest, context: AdmissionContext) -> ReviewOutcome:
    """Apply the defaults of a policy, and maintain its record of priority drops.

    A policy that is too large is denied without a patch, which could be much larger than the policy.
    """
    draft = Draft(request.object or {})
    new, old = read(draft.document), _stored_policy(request)
    namespace = _namespace(request)
    if has_long_list(new.spec, context.settings.limits):
        size = context.size_rules.run(ReviewedPolicy(new, old, namespace, context.settings))
        if size.denials:
            return _outcome(size.denials, (), request)
    apply_defaults(draft, namespace)
    if context.settings.standalone:
        set_identity(draft, kind=request.kind.kind, creating=old is None, new_id=context.new_id)
    drop = review_drop(
        draft,
        new,
        old,
        namespace=namespace,
        by_handler=request.user_info.username in context.settings.drop_handlers,
        preempts=context.settings.policy_preemption,
    )
    return ReviewOutcome(patch=draft.operations, mutated=draft.document, warnings=drop.warnings, audit=drop.audit)


def validate_karmada_policy(request: AdmissionRequest, context: AdmissionContext) -> ReviewOutcome:
    """Run the checks and the rules on a policy. Only the rule about sizes reviews a policy that is too large."""
    namespace = _namespace(request)
    raw = request.object or {}
    reviewed = ReviewedPolicy(read(raw), _stored_policy(request), namespace, context.settings, _placement(raw))
    complete = partial(apply_defaults, namespace=namespace)
    size = context.size_rules.run(reviewed)
    if size.denials:
        return _outcome(size.denials, (), request, complete)
    found = size.joined(context.policy_rules.run(reviewed))
    refused = bounded(_policy_problems(reviewed))
    if context.settings.standalone:
        # karmada-webhook applies its checks to every update. Only our own rules allow unchanged specs.
        own = _outcome(found.denials, found.warnings, request, complete)
        return ReviewOutcome(denials=(*refused, *own.denials), warnings=own.warnings)
    return _outcome((*refused, *found.denials), found.warnings, request, complete)


def validate_rebalancer(request: AdmissionRequest, context: AdmissionContext) -> ReviewOutcome:
    """Run the checks and the rules on a WorkloadRebalancer."""
    spec = _spec(RebalancerSpec, request.object or {})
    found = context.rebalancer_rules.run(rebalancer.ReviewedRebalancer(spec, context.settings))
    refused = bounded(rebalancer.check_spec(spec, context.settings))
    return _outcome((*refused, *found.denials), found.warnings, request)


def mutate_kubeadmiral_policy(request: AdmissionRequest, _context: AdmissionContext) -> ReviewOutcome:
    """Apply the defaults of a KubeAdmiral policy."""
    draft = Draft(request.object or {})
    _spec(KubeAdmiralSpec, draft.document)
    kubeadmiral.apply_defaults(draft)
    return ReviewOutcome(patch=draft.operations, mutated=draft.document)


def validate_kubeadmiral_policy(request: AdmissionRequest, context: AdmissionContext) -> ReviewOutcome:
    """Run the checks and the rules on a KubeAdmiral policy."""
    spec = _spec(KubeAdmiralSpec, request.object or {})
    if request.operation == "UPDATE":
        _spec(KubeAdmiralSpec, request.old_object or {})  # `_outcome` applies the defaults to the stored object too
    size = context.kubeadmiral_size_rules.run(ReviewedKubeAdmiralSpec(spec, context.settings))
    if size.denials:
        return _outcome(size.denials, (), request, kubeadmiral.apply_defaults)
    found = size.joined(context.kubeadmiral_rules.run(spec))
    refused = bounded(kubeadmiral.check_spec(spec))
    return _outcome((*refused, *found.denials), found.warnings, request, kubeadmiral.apply_defaults)


KARMADA: Final = "policy.karmada.io"
KUBEADMIRAL: Final = "core.kubeadmiral.io"
ROUTES: Final[Mapping[str, ReviewRoute]] = {
    "/mutate-propagationpolicy": ReviewRoute(KARMADA, "PropagationPolicy", mutate_karmada_policy),
    "/validate-propagationpolicy": ReviewRoute(KARMADA, "PropagationPolicy", validate_karmada_policy),
    "/mutate-clusterpropagationpolicy": ReviewRoute(KARMADA, "ClusterPropagationPolicy", mutate_karmada_policy),
    "/validate-clusterpropagationpolicy": ReviewRoute(KARMADA, "ClusterPropagationPolicy", validate_karmada_policy),
    "/impact-propagationpolicy": ReviewRoute(KARMADA, "PropagationPolicy", review_impact, CHANGING),
    "/impact-clusterpropagationpolicy": ReviewRoute(KARMADA, "ClusterPropagationPolicy", review_impact, CHANGING),
    "/validate-workloadrebalancer": ReviewRoute("apps.karmada.io", "WorkloadRebalancer", validate_rebalancer),
    "/mutate-kubeadmiral-propagationpolicy": ReviewRoute(KUBEADMIRAL, "PropagationPolicy", mutate_kubeadmiral_policy),
    "/validate-kubeadmiral-propagationpolicy": ReviewRoute(
        KUBEADMIRAL, "PropagationPolicy", validate_kubeadmiral_policy
    ),
    "/mutate-kubeadmiral-clusterpropagationpolicy": ReviewRoute(
        KUBEADMIRAL, "ClusterPropagationPolicy", mutate_kubeadmiral_policy
    ),
    "/validate-kubeadmiral-clusterpropagationpolicy": ReviewRoute(
        KUBEADMIRAL, "ClusterPropagationPolicy", validate_kubeadmiral_policy
    ),
}

IMPACT_PATHS: Final = frozenset(path for path, route in ROUTES.items() if route.function is review_impact)
"""The paths whose reviews wait for another service."""


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


def _namespace(request: AdmissionRequest) -> str:
    """Return the namespace of a PropagationPolicy; empty for a ClusterPropagationPolicy."""
    return request.namespace if request.kind.kind == "PropagationPolicy" else ""


def _placement(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the placement of a policy that has been read, as it was sent."""
    return (raw.get("spec") or {}).get("placement") or {}


def _stored_policy(request: AdmissionRequest) -> Policy | None:
    return read(request.old_object or {}) if request.operation == "UPDATE" else None


def _spec(kind: type[S], raw: dict[str, Any]) -> S:
    try:
        return convert(kind, {} if raw.get("spec") is None else raw["spec"])
    except FieldError as error:
        raise error.below("spec") from None


def _policy_problems(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    """Yield why a policy is refused: by karmada-webhook's checks if they are enabled, else by those for every mode."""
    policy, settings = reviewed.policy, reviewed.settings
    if settings.standalone:
        yield from _check_identity(policy, reviewed.old)
    if settings.standalone or settings.peer_checks:
        yield from karmada_checks.check_spec(policy, reviewed.namespace)
        return
    yield from karmada_checks.check_exclusive(policy.spec.placement)
    yield from karmada_checks.check_group_names(policy.spec.placement)
    yield from karmada_checks.check_preemption_names(policy.spec)


def _check_identity(policy: Policy, old: Policy | None) -> Iterator[FieldProblem]:
    label = PERMANENT_ID[policy.kind]
    path, permanent_id = f"metadata.labels[{label}]", policy.metadata.labels.get(label)
    if old is not None:
        before = old.metadata.labels.get(label, "")
        if policy.spec.scheduler_name != old.spec.scheduler_name:
            yield FieldProblem(
                "spec.schedulerName", policy.spec.scheduler_name, "immutable",
                f"keep {old.spec.scheduler_name!r}, or replace the policy",
            )  # fmt: skip
        if (permanent_id or "") != before:
            yield FieldProblem(path, permanent_id or "", "immutable", f"keep {before!r}")
            return
    if permanent_id is None:
        yield FieldProblem(path, ABSENT, "required", "let the mutating webhook of this service set it")


def _outcome(
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


def _too_many_defaults(error: PatchTooLargeError) -> FieldProblem:
    return FieldProblem(
        error.path, ABSENT,
        f"{error.objects:,} entries, and a patch that adds their defaults is larger than {MAX_PATCH_BYTES:,} bytes",
        "shorten the list, or set the defaults in it",
    )  # fmt: skip
