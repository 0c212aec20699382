"""What the webhook reviews: all paths, all rules, and the control planes whose policies it knows."""

from collections.abc import Mapping
from typing import Any, Final

from webhook.admission.impact_review import review_impact
from webhook.admission.karmada_reviews import (
    KARMADA_POLICIES,
    POLICY_RULES,
    mutate_karmada_policy,
    validate_karmada_policy,
)
from webhook.admission.kubeadmiral import reviews as kubeadmiral
from webhook.admission.kubeadmiral.policies import KUBEADMIRAL_RULES
from webhook.admission.kubeadmiral.reviews import KUBEADMIRAL_POLICIES
from webhook.admission.policy_group import PolicyGroup
from webhook.admission.rebalancer import REBALANCER_RULES, validate_rebalancer
from webhook.admission.reviews import CHANGING, ReviewRoute
from webhook.admission.rules.rule import AdmissionRule
from webhook.admission.rules.sizes import SIZE_RULES

ALL_RULES: Final[tuple[AdmissionRule[Any], ...]] = (
    *SIZE_RULES, *POLICY_RULES, *KUBEADMIRAL_RULES, *REBALANCER_RULES,
)  # fmt: skip
RULE_IDS: Final = frozenset(rule.id for rule in ALL_RULES)
POLICY_GROUPS: Final[Mapping[str, PolicyGroup]] = {
    each.group: each for each in (KARMADA_POLICIES, KUBEADMIRAL_POLICIES)
}
"""The policies of each control plane, by their API group."""
_KARMADA: Final = KARMADA_POLICIES.group
_KUBEADMIRAL: Final = KUBEADMIRAL_POLICIES.group
ROUTES: Final[Mapping[str, ReviewRoute]] = {
    "/mutate-propagationpolicy": ReviewRoute(_KARMADA, "PropagationPolicy", mutate_karmada_policy),
    "/validate-propagationpolicy": ReviewRoute(_KARMADA, "PropagationPolicy", validate_karmada_policy),
    "/mutate-clusterpropagationpolicy": ReviewRoute(_KARMADA, "ClusterPropagationPolicy", mutate_karmada_policy),
    "/validate-clusterpropagationpolicy": ReviewRoute(_KARMADA, "ClusterPropagationPolicy", validate_karmada_policy),
    "/impact-propagationpolicy": ReviewRoute(_KARMADA, "PropagationPolicy", review_impact, CHANGING),
    "/impact-clusterpropagationpolicy": ReviewRoute(_KARMADA, "ClusterPropagationPolicy", review_impact, CHANGING),
    "/validate-workloadrebalancer": ReviewRoute("apps.karmada.io", "WorkloadRebalancer", validate_rebalancer),
    "/mutate-kubeadmiral-propagationpolicy": ReviewRoute(_KUBEADMIRAL, "PropagationPolicy", kubeadmiral.mutate),
    "/validate-kubeadmiral-propagationpolicy": ReviewRoute(_KUBEADMIRAL, "PropagationPolicy", kubeadmiral.validate),
    "/mutate-kubeadmiral-clusterpropagationpolicy": ReviewRoute(
        _KUBEADMIRAL, "ClusterPropagationPolicy", kubeadmiral.mutate
    ),
    "/validate-kubeadmiral-clusterpropagationpolicy": ReviewRoute(
        _KUBEADMIRAL, "ClusterPropagationPolicy", kubeadmiral.validate
    ),
}

IMPACT_PATHS: Final = frozenset(path for path, route in ROUTES.items() if route.function is review_impact)
"""The paths whose reviews wait for another service."""
