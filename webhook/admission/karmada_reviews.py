"""The reviews of Karmada's policies, and the rules that they run."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from berthmaster.model.claims import PERMANENT_ID
from berthmaster.model.decode import convert
from berthmaster.model.errors import FieldError
from berthmaster.model.policy import Policy
from berthmaster.model.validation import affinities
from webhook.admission import karmada_checks, lenient_policy
from webhook.admission.context import AdmissionContext
from webhook.admission.field_problem import ABSENT, FieldProblem, bounded
from webhook.admission.json_patch import Draft
from webhook.admission.karmada_defaults import apply_defaults, set_identity
from webhook.admission.lenient_policy import read
from webhook.admission.policy_group import PolicyGroup
from webhook.admission.priority_drops import review_drop
from webhook.admission.review_outcome import ReviewOutcome
from webhook.admission.reviews import outcome_of
from webhook.admission.rules.affinities import AFFINITY_RULES
from webhook.admission.rules.division import DIVISION_RULES
from webhook.admission.rules.failover import FAILOVER_RULES
from webhook.admission.rules.move_annotations import MOVE_RULES
from webhook.admission.rules.rule import AdmissionRule, ReviewedPolicy, about
from webhook.admission.rules.selection import SELECTION_RULES
from webhook.admission.rules.sizes import SIZE_RULES, has_long_list
from webhook.admission.rules.spreading import SPREADING_RULES
from webhook.admission.rules.tolerations import TOLERATION_RULES
from webhook.admission.rules.unsupported_placements import UNSUPPORTED_RULES
from webhook.admission.wire import AdmissionRequest, UnreadRequest

POLICY_RULES: Final[tuple[AdmissionRule[ReviewedPolicy], ...]] = (
    *SELECTION_RULES,
    *AFFINITY_RULES,
    *about(lambda reviewed: reviewed.policy.spec.placement.spread_constraints, SPREADING_RULES),
    *about(lambda reviewed: reviewed.policy.spec.placement.replica_scheduling, DIVISION_RULES),
    *about(lambda reviewed: reviewed.policy.spec.placement.cluster_tolerations, TOLERATION_RULES),
    *UNSUPPORTED_RULES,
    *FAILOVER_RULES,
    *MOVE_RULES,
)


def mutate_karmada_policy(request: AdmissionRequest, context: AdmissionContext) -> ReviewOutcome:
    """Apply the defaults of a policy, and maintain its record of priority drops.

    A policy that is too large is denied without a patch, which could be much larger than the policy.
    """
    draft = Draft(request.object or {})
    new, old = read(draft.document), _stored_policy(request)
    namespace = _namespace(request)
    if has_long_list(new.spec, context.settings.limits):
        size = context.enabled(SIZE_RULES).run(ReviewedPolicy(new, old, namespace, context.settings))
        if size.denials:
            return outcome_of(size.denials, (), request)
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
    size = context.enabled(SIZE_RULES).run(reviewed)
    if size.denials:
        return outcome_of(size.denials, (), request, complete)
    found = size.joined(context.enabled(POLICY_RULES).run(reviewed))
    refused = bounded(_policy_problems(reviewed))
    if context.settings.standalone:
        # karmada-webhook applies its checks to every update. Only our own rules allow unchanged specs.
        own = outcome_of(found.denials, found.warnings, request, complete)
        return ReviewOutcome(denials=(*refused, *own.denials), warnings=own.warnings)
    return outcome_of((*refused, *found.denials), found.warnings, request, complete)


def _namespace(request: AdmissionRequest) -> str:
    """Return the namespace of a PropagationPolicy; empty for a ClusterPropagationPolicy."""
    return request.namespace if request.kind.kind == "PropagationPolicy" else ""


def _placement(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the placement of a policy that has been read, as it was sent."""
    return (raw.get("spec") or {}).get("placement") or {}


def _stored_policy(request: AdmissionRequest) -> Policy | None:
    return read(request.old_object or {}) if request.operation == "UPDATE" else None


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


def _excess(request: UnreadRequest, _spec: bytes, context: AdmissionContext) -> tuple[FieldProblem, ...]:
    policy = lenient_policy.decode(bytes(request.object))
    return context.enabled(SIZE_RULES).run(ReviewedPolicy(policy, None, request.namespace, context.settings)).denials


def _named_clusters(raw: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    try:
        policy = convert(Policy, raw)
    except FieldError:
        return
    for path, affinity in affinities(policy.spec.placement):
        for field_name, names in (("clusterNames", affinity.cluster_names), ("exclude", affinity.exclude)):
            for index, name in enumerate(names):
                yield f"spec.placement.{path}.{field_name}[{index}]", name


KARMADA_POLICIES: Final = PolicyGroup("policy.karmada.io", _excess, _named_clusters)
