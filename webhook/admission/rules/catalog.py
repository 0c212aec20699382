"""All rules, as documentation and configuration see them."""

from typing import Any, Final

from fleet.model.rebalancer import RebalancerSpec
from webhook.admission.karmada.rebalancer import unknown_scopes
from webhook.admission.rules import affinities, division, kubeadmiral, selection, spreading, tolerations
from webhook.admission.rules.rule import PolicyChange, Rule
from webhook.admission.settings import Settings

POLICY_RULES: Final[tuple[Rule[PolicyChange], ...]] = (
    *selection.RULES, *affinities.RULES, *spreading.RULES, *division.RULES, *tolerations.RULES,
)  # fmt: skip
KUBEADMIRAL_RULES: Final = kubeadmiral.RULES


def _scopes_of(subject: tuple[RebalancerSpec, Settings]) -> Any:  # noqa: ANN401 - an iterator of problems
    return unknown_scopes(*subject)


REBALANCER_RULES: Final[tuple[Rule[tuple[RebalancerSpec, Settings]], ...]] = (
    Rule(
        "rebalancer-scope-unknown",
        "A workload without a namespace, of a kind whose scope is not known.",
        _scopes_of,
    ),
)
ALL_RULES: Final[tuple[Rule[Any], ...]] = (*POLICY_RULES, *KUBEADMIRAL_RULES, *REBALANCER_RULES)
RULE_IDS: Final = frozenset(rule.id for rule in ALL_RULES)
