"""All rules, and the context that reviews run them in."""

from collections.abc import Callable
from copy import copy
from typing import Any, Final

from webhook.admission.impact import ImpactSource
from webhook.admission.kubeadmiral import KUBEADMIRAL_RULES
from webhook.admission.rebalancer import REBALANCER_RULES
from webhook.admission.rules.affinities import AFFINITY_RULES, SPREADING_RULES, TOLERATION_RULES
from webhook.admission.rules.division import DIVISION_RULES, MOVE_RULES
from webhook.admission.rules.failover import FAILOVER_RULES
from webhook.admission.rules.rule import (
    KUBEADMIRAL_SIZE_RULE,
    SIZE_RULES,
    AdmissionRule,
    ReviewedPolicy,
    RuleSet,
    about,
)
from webhook.admission.rules.selection import SELECTION_RULES, UNSUPPORTED_RULES
from webhook.admission.settings import AdmissionSettings

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
ALL_RULES: Final[tuple[AdmissionRule[Any], ...]] = (
    *SIZE_RULES, *POLICY_RULES, *KUBEADMIRAL_RULES, *REBALANCER_RULES,
)  # fmt: skip
RULE_IDS: Final = frozenset(rule.id for rule in ALL_RULES)


class AdmissionContext:
    """The input of every review, besides its request. Immutable."""

    __slots__ = (
        "impact", "kubeadmiral_rules", "kubeadmiral_size_rules", "new_id", "policy_rules", "rebalancer_rules",
        "settings", "size_rules",
    )  # fmt: skip

    def __init__(
        self, settings: AdmissionSettings, new_id: Callable[[], str], impact: ImpactSource | None = None
    ) -> None:
        self.settings = settings
        self.new_id = new_id
        self.impact = impact
        self.size_rules = RuleSet(SIZE_RULES, settings)
        self.kubeadmiral_size_rules = RuleSet([KUBEADMIRAL_SIZE_RULE], settings)
        self.policy_rules = RuleSet(POLICY_RULES, settings)
        self.kubeadmiral_rules = RuleSet(KUBEADMIRAL_RULES, settings)
        self.rebalancer_rules = RuleSet(REBALANCER_RULES, settings)

    def asking(self, impact: ImpactSource) -> "AdmissionContext":
        other = copy(self)
        other.impact = impact
        return other
