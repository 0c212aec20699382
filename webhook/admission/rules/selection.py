"""Rules about what a policy selects, and about preemption (karmada ``pkg/detector``)."""

from collections.abc import Iterator
from typing import Final

from berthmaster.model.kinds import Scope, group_of
from berthmaster.model.meta import INT32_MAX
from webhook.admission.problem import ABSENT, Problem
from webhook.admission.rules.rule import PolicyChange, Rule
from webhook.admission.settings import Level

_PATH: Final = "spec.resourceSelectors"
_LOWEST_PRIORITY: Final = -INT32_MAX - 1
_RESERVED_NAMESPACES: Final = ("karmada-system", "karmada-cluster")
_RESERVED_PREFIXES: Final = ("karmada-es-", "kube-")
_UNPROPAGATED_GROUPS: Final = frozenset({
    "cluster.karmada.io", "policy.karmada.io", "work.karmada.io", "config.karmada.io", "networking.karmada.io",
    "autoscaling.karmada.io", "remedy.karmada.io", "apps.karmada.io", "events.k8s.io", "coordination.k8s.io",
})  # fmt: skip


def _preemption_namespace(change: PolicyChange) -> Iterator[Problem]:
    policy = change.policy
    if not policy.cluster_scoped or policy.spec.preemption != "Always":
        return
    for index, selector in enumerate(policy.spec.resource_selectors):
        scope = change.settings.scope(selector.api_version, selector.kind)
        if not selector.namespace and scope is Scope.NAMESPACED:
            yield Problem(
                f"{_PATH}[{index}].namespace", ABSENT,
                f"{selector.kind} lives in a namespace, and a policy with preemption Always finds it only by its "
                f"namespace",
                "add the namespace of the resource",
            )  # fmt: skip


def _scope_unknown(change: PolicyChange) -> Iterator[Problem]:
    policy = change.policy
    if not policy.cluster_scoped or policy.spec.preemption != "Always":
        return
    for index, selector in enumerate(policy.spec.resource_selectors):
        if not selector.namespace and change.settings.scope(selector.api_version, selector.kind) is None:
            yield Problem(
                f"{_PATH}[{index}].namespace", ABSENT,
                f"whether {selector.kind} of {selector.api_version} lives in a namespace is not known; if so, "
                f"nothing is preempted",
                "add the namespace, or tell the webhook the scope of this kind",
            )  # fmt: skip


def _nothing_to_preempt(change: PolicyChange) -> Iterator[Problem]:
    policy = change.policy
    if policy.spec.preemption != "Always" or not policy.cluster_scoped or policy.priority > 0:
        return
    fate = (
        "no priority is lower, so it can preempt nothing" if policy.priority == _LOWEST_PRIORITY
        else "it preempts lower priorities only, and 0 is what policies have that set none"
    )  # fmt: skip
    yield Problem("spec.priority", policy.priority, fate, "raise it above the policies it is to preempt")


def _wrong_scope(change: PolicyChange) -> Iterator[Problem]:
    for index, selector in enumerate(change.policy.spec.resource_selectors):
        if change.settings.scope(selector.api_version, selector.kind) is not Scope.CLUSTER:
            continue
        if not change.policy.cluster_scoped:
            yield Problem(
                f"{_PATH}[{index}].kind", selector.kind, "it is cluster-scoped: a PropagationPolicy never matches it",
                "select it in a ClusterPropagationPolicy",
            )  # fmt: skip
        elif selector.namespace:
            yield Problem(
                f"{_PATH}[{index}].namespace", selector.namespace,
                f"{selector.kind} is cluster-scoped: a selector with a namespace never "
                f"matches it", "remove the namespace",
            )  # fmt: skip


def _labels_ignored(change: PolicyChange) -> Iterator[Problem]:
    for index, selector in enumerate(change.policy.spec.resource_selectors):
        if selector.name and selector.label_selector is not None:
            yield Problem(
                f"{_PATH}[{index}].labelSelector", ABSENT, "the selector has a name, so its labelSelector is ignored",
                "remove one of them",
            )  # fmt: skip


def _repeated(change: PolicyChange) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for index, selector in enumerate(change.policy.spec.resource_selectors):
        text = str(selector)
        if text in seen:
            yield Problem(f"{_PATH}[{index}]", ABSENT, f"it repeats entry {seen[text]}", "remove it")
        seen.setdefault(text, index)


def _never_propagated(change: PolicyChange) -> Iterator[Problem]:
    for index, selector in enumerate(change.policy.spec.resource_selectors):
        namespace = selector.namespace
        if namespace in _RESERVED_NAMESPACES or namespace.startswith(_RESERVED_PREFIXES):
            yield Problem(
                f"{_PATH}[{index}].namespace", namespace, "Karmada propagates nothing of this namespace by default",
                "keep the resource in another namespace",
            )  # fmt: skip
        if group_of(selector.api_version) in _UNPROPAGATED_GROUPS or (
            selector.api_version,
            selector.kind,
        ) == ("v1", "Event"):
            yield Problem(
                f"{_PATH}[{index}].apiVersion", selector.api_version, "Karmada propagates no resources of this API",
                "remove the selector",
            )  # fmt: skip


def _lazy_change(change: PolicyChange) -> Iterator[Problem]:
    spec, old = change.policy.spec, change.old
    if old is not None and spec.activation_preference == "Lazy" and spec != old.spec:
        yield Problem(
            "spec.activationPreference", "Lazy",
            "this change reaches a resource only when somebody edits the resource, or controllers restart",
            "touch the resources that should follow now, or remove the preference",
        )  # fmt: skip


RULES: Final = (
    Rule("preemption-without-namespace",
         "A ClusterPropagationPolicy with `preemption: Always` selects a namespaced kind without its namespace.",
         _preemption_namespace, default=Level.DENY, standalone=Level.WARN),
    Rule("preemption-scope-unknown", "The same, for a kind whose scope is not known.", _scope_unknown),
    Rule("preemption-without-effect", "`preemption: Always` at a priority that preempts nothing.", _nothing_to_preempt),
    Rule("selector-wrong-scope", "A cluster-scoped kind in a PropagationPolicy, or with a namespace.", _wrong_scope),
    Rule("selector-labels-ignored", "A selector with both `name` and `labelSelector`.", _labels_ignored),
    Rule("selector-repeated", "A selector that stands twice.", _repeated),
    Rule("selector-never-propagated", "A namespace or an API that Karmada does not propagate.", _never_propagated),
    Rule("lazy-change", "An update of a policy that is `Lazy`, which takes effect late.", _lazy_change),
)  # fmt: skip
