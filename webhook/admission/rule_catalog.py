"""All rules, and the context that reviews run them in."""

from collections.abc import Callable
from typing import Any, Final

from webhook.admission.kubeadmiral import KUBEADMIRAL_RULES
from webhook.admission.rebalancer import REBALANCER_RULES
from webhook.admission.rules.affinities import AFFINITY_RULES, TOLERATION_RULES
from webhook.admission.rules.division import DIVISION_RULES
from webhook.admission.rules.rule import AdmissionRule, ReviewedPolicy, RuleSet
from webhook.admission.rules.selection import SELECTION_RULES
from webhook.admission.rules.spreading import SPREADING_RULES
from webhook.admission.settings import AdmissionSettings

POLICY_RULES: Final[tuple[AdmissionRule[ReviewedPolicy], ...]] = (
    *SELECTION_RULES, *AFFINITY_RULES, *SPREADING_RULES, *DIVISION_RULES, *TOLERATION_RULES,
)  # fmt: skip
ALL_RULES: Final[tuple[AdmissionRule[Any], ...]] = (*POLICY_RULES, *KUBEADMIRAL_RULES, *REBALANCER_RULES)
RULE_IDS: Final = frozenset(rule.id for rule in ALL_RULES)


class AdmissionContext:
    """The input of every review, besides its request. Immutable.

    Attributes:
        settings: the configuration.
        new_id: makes a permanent id.
        policy_rules, kubeadmiral_rules, rebalancer_rules: the enabled rules.
    """

    __slots__ = ("kubeadmiral_rules", "new_id", "policy_rules", "rebalancer_rules", "settings")

    def __init__(self, settings: AdmissionSettings, new_id: Callable[[], str]) -> None:
        self.settings = settings
        self.new_id = new_id
        self.policy_rules = RuleSet(POLICY_RULES, settings)
        self.kubeadmiral_rules = RuleSet(KUBEADMIRAL_RULES, settings)
        self.rebalancer_rules = RuleSet(REBALANCER_RULES, settings)
