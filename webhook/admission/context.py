"""What reviews are made with."""

from collections.abc import Callable

from webhook.admission.rules.catalog import KUBEADMIRAL_RULES, POLICY_RULES, REBALANCER_RULES
from webhook.admission.rules.rule import RuleSet
from webhook.admission.settings import Settings


class Context:
    """What every review needs besides its request. Holds nothing that changes.

    Attributes:
        settings: the configuration.
        new_id: makes a permanent id.
        policy_rules, kubeadmiral_rules, rebalancer_rules: the rules that are on.
    """

    __slots__ = ("kubeadmiral_rules", "new_id", "policy_rules", "rebalancer_rules", "settings")

    def __init__(self, settings: Settings, new_id: Callable[[], str]) -> None:
        self.settings = settings
        self.new_id = new_id
        self.policy_rules = RuleSet(POLICY_RULES, settings)
        self.kubeadmiral_rules = RuleSet(KUBEADMIRAL_RULES, settings)
        self.rebalancer_rules = RuleSet(REBALANCER_RULES, settings)
