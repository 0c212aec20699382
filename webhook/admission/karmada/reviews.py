"""The reviews of Karmada's kinds, each a function of a request."""

from collections.abc import Callable, Iterator
from typing import Any

from berthmaster.model.decode import convert
from berthmaster.model.errors import FieldError
from berthmaster.model.rebalancer import RebalancerSpec
from webhook.admission import ratchet
from webhook.admission.context import Context
from webhook.admission.karmada import checks, placement_checks, rebalancer
from webhook.admission.karmada.defaulting import apply_defaults, permanent_id_label, take_charge
from webhook.admission.karmada.drop_review import review_drop
from webhook.admission.karmada.policy import Policy, read
from webhook.admission.outcome import Outcome
from webhook.admission.patch import Draft
from webhook.admission.problem import ABSENT, Problem
from webhook.admission.review import Request
from webhook.admission.rules.catalog import RebalancerChange
from webhook.admission.rules.rule import PolicyChange

_PROPAGATION_POLICY = "PropagationPolicy"


def mutate_policy(request: Request, context: Context) -> Outcome:
    """Default a policy and keep its record of priority drops."""
    draft = Draft(request.object or {})
    new, old = read(draft.document), _old(request)
    kind = request.kind.kind
    namespace = request.namespace if kind == _PROPAGATION_POLICY else ""
    apply_defaults(draft, namespace)
    if context.settings.standalone:
        take_charge(draft, kind=kind, creating=old is None, new_id=context.new_id)
    by_handler = request.user_info.username in context.settings.drop_handlers
    drop = review_drop(draft, new, old, namespace=namespace, by_handler=by_handler)
    return Outcome(patch=draft.operations, mutated=draft.document, warnings=drop.warnings, audit=drop.audit)


def validate_policy(request: Request, context: Context) -> Outcome:
    """Check a policy, and run the rules."""
    policy, old = read(request.object or {}), _old(request)
    namespace = request.namespace if request.kind.kind == _PROPAGATION_POLICY else ""
    change = PolicyChange(policy, old, namespace, context.settings)
    found = context.policy_rules.run(change)
    refused = tuple(_refusals(change))
    if context.settings.standalone:
        # The verdict is karmada-webhook's, which looks at every update; what is ours alone is not.
        ours = ratchet.outcome(found.denials, found.warnings, request, _completing(namespace))
        return Outcome(denials=(*refused, *ours.denials), warnings=ours.warnings)
    return ratchet.outcome((*refused, *found.denials), found.warnings, request, _completing(namespace))


def validate_rebalancer(request: Request, context: Context) -> Outcome:
    """Check a WorkloadRebalancer."""
    spec = _rebalancer_spec(request.object or {})
    found = context.rebalancer_rules.run(RebalancerChange(spec, context.settings))
    refused = rebalancer.check_spec(spec, context.settings)
    return ratchet.outcome((*refused, *found.denials), found.warnings, request)


def _rebalancer_spec(raw: dict[str, Any]) -> RebalancerSpec:
    try:
        return convert(RebalancerSpec, {} if raw.get("spec") is None else raw["spec"])
    except FieldError as error:
        raise error.below("spec") from None


def _completing(namespace: str) -> Callable[[Draft], None]:
    return lambda draft: apply_defaults(draft, namespace)


def _old(request: Request) -> Policy | None:
    """The stored policy on an update; None on a creation."""
    return read(request.old_object or {}) if request.operation == "UPDATE" else None


def _refusals(change: PolicyChange) -> Iterator[Problem]:
    """What can never be stored: by karmada-webhook's checks where they are ours to make, else by the design's own."""
    policy, settings = change.policy, change.settings
    if settings.standalone:
        yield from _check_identity(policy, change.old)
    if settings.standalone or settings.peer_checks:
        yield from checks.check_spec(policy, change.namespace)
        return
    yield from placement_checks.check_exclusive(policy.spec.placement)
    yield from placement_checks.check_group_names(policy.spec.placement)
    yield from checks.check_preemption_names(policy.spec)


def _check_identity(policy: Policy, old: Policy | None) -> Iterator[Problem]:
    label = permanent_id_label(policy.kind)
    path, permanent_id = f"metadata.labels[{label}]", policy.metadata.labels.get(label)
    if old is not None:
        before = old.metadata.labels.get(label, "")
        if policy.spec.scheduler_name != old.spec.scheduler_name:
            yield Problem(
                "spec.schedulerName", policy.spec.scheduler_name, "immutable",
                f"keep {old.spec.scheduler_name!r}, or replace the policy",
            )  # fmt: skip
        if (permanent_id or "") != before:
            yield Problem(path, permanent_id or "", "immutable", f"keep {before!r}")
            return
    if permanent_id is None:
        yield Problem(path, ABSENT, "required", "let the mutating webhook of this service set it")
