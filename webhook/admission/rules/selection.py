"""Rules about resource selectors and preemption (karmada ``pkg/detector``)."""

from collections.abc import Iterator
from typing import Final

from berthmaster.model.kinds import Scope
from berthmaster.model.meta import INT32_MIN
from berthmaster.model.policy import ResourceSelector
from berthmaster.model.skipped_resources import why_kind_is_skipped, why_namespace_is_skipped
from webhook.admission.field_problem import ABSENT, FieldProblem
from webhook.admission.rules.rule import ReviewedPolicy, about, rule
from webhook.admission.settings import Level

_PATH: Final = "spec.resourceSelectors"


@rule(
    "preemption-without-namespace",
    "A ClusterPropagationPolicy with `preemption: Always` selects a namespaced kind without its namespace.",
    default=Level.DENY,
    standalone=Level.WARN,
)
def _preemption_namespace(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    for index, selector, scope in _preempting_without_namespace(reviewed):
        if scope is Scope.NAMESPACED:
            yield FieldProblem(
                f"{_PATH}[{index}].namespace", ABSENT,
                f"{selector.kind} is namespaced, and preemption finds the resource by its namespace only",
                "add the namespace of the resource",
            )  # fmt: skip


@rule(
    "preemption-scope-unknown",
    "A ClusterPropagationPolicy with `preemption: Always` selects a kind of unknown scope without a namespace.",
)
def _scope_unknown(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    for index, selector, scope in _preempting_without_namespace(reviewed):
        if scope is None:
            yield FieldProblem(
                f"{_PATH}[{index}].namespace", ABSENT,
                f"the scope of {selector.kind} of {selector.api_version} is unknown; "
                "if the kind is namespaced, nothing is preempted",
                "add the namespace, or configure the scope of this kind in the webhook",
            )  # fmt: skip


def _preempting_without_namespace(reviewed: ReviewedPolicy) -> Iterator[tuple[int, ResourceSelector, Scope | None]]:
    """Yield the selectors without a namespace, with index and scope."""
    for index, selector in enumerate(reviewed.policy.spec.resource_selectors):
        if not selector.namespace:
            yield index, selector, reviewed.settings.scope(selector.api_version, selector.kind)


@rule("preemption-without-effect", "`preemption: Always` with a priority that preempts nothing.")
def _nothing_to_preempt(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    policy = reviewed.policy
    if policy.explicit_priority > 0:
        return
    effect = (
        "no priority is lower, so it preempts nothing" if policy.explicit_priority == INT32_MIN
        else "only lower priorities are preempted, and the default priority is 0"
    )  # fmt: skip
    yield FieldProblem(
        "spec.priority", policy.explicit_priority, effect, "raise it above the policies that it must preempt"
    )


@rule("selector-wrong-scope", "A cluster-scoped kind in a PropagationPolicy, or with a namespace.")
def _wrong_scope(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    for index, selector in enumerate(reviewed.policy.spec.resource_selectors):
        if reviewed.settings.scope(selector.api_version, selector.kind) is not Scope.CLUSTER:
            continue
        if not reviewed.policy.cluster_scoped:
            yield FieldProblem(
                f"{_PATH}[{index}].kind", selector.kind, "cluster-scoped: a PropagationPolicy never matches it",
                "select it in a ClusterPropagationPolicy",
            )  # fmt: skip
        elif selector.namespace:
            yield FieldProblem(
                f"{_PATH}[{index}].namespace", selector.namespace,
                f"{selector.kind} is cluster-scoped: a selector with a namespace never matches it",
                "remove the namespace",
            )  # fmt: skip


@rule("selector-labels-ignored", "A selector with both `name` and `labelSelector`.")
def _labels_ignored(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    for index, selector in enumerate(reviewed.policy.spec.resource_selectors):
        if selector.name and selector.label_selector is not None:
            yield FieldProblem(
                f"{_PATH}[{index}].labelSelector", ABSENT, "the selector has a name, so labelSelector is ignored",
                "remove one of them",
            )  # fmt: skip


@rule("selector-repeated", "A duplicate selector.")
def _repeated(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    seen: dict[str, int] = {}
    selectors = reviewed.policy.spec.resource_selectors
    for index, selector in enumerate(selectors if len(selectors) > 1 else ()):
        text = str(selector)
        if text in seen:
            yield FieldProblem(f"{_PATH}[{index}]", ABSENT, f"duplicate of entry {seen[text]}", "remove it")
        seen.setdefault(text, index)


@rule("selector-never-propagated", "A namespace or an API that Karmada does not propagate.")
def _never_propagated(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    for index, selector in enumerate(reviewed.policy.spec.resource_selectors):
        namespace = selector.namespace
        if why_namespace_is_skipped(namespace) is not None:
            yield FieldProblem(
                f"{_PATH}[{index}].namespace", namespace, "by default Karmada propagates nothing of this namespace",
                "keep the resource in another namespace",
            )  # fmt: skip
        if why_kind_is_skipped(selector.api_version, selector.kind) is not None:
            yield FieldProblem(
                f"{_PATH}[{index}].apiVersion", selector.api_version, "Karmada propagates no resources of this API",
                "remove the selector",
            )  # fmt: skip


@rule("lazy-change", "An update of a `Lazy` policy, which takes effect late.")
def _lazy_change(reviewed: ReviewedPolicy) -> Iterator[FieldProblem]:
    if reviewed.old is not None and reviewed.policy.spec != reviewed.old.spec:
        yield FieldProblem(
            "spec.activationPreference", "Lazy",
            "the change applies to a resource only after the resource changes or the controllers restart",
            "update the resources that must follow now, or remove the preference",
        )  # fmt: skip


def _preempts(reviewed: ReviewedPolicy) -> bool:
    return reviewed.policy.spec.preemption == "Always" and reviewed.policy.cluster_scoped


SELECTION_RULES: Final = (
    *about(_preempts, (_preemption_namespace, _scope_unknown, _nothing_to_preempt)),
    _wrong_scope,
    _labels_ignored,
    _repeated,
    _never_propagated,
    *about(lambda reviewed: reviewed.policy.lazy, (_lazy_change,)),
)
