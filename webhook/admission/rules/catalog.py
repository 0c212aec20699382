"""All rules, as documentation and configuration see them."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from berthmaster.model.kubeadmiral import KubeAdmiralSpec
from berthmaster.model.rebalancer import RebalancerSpec
from webhook.admission.karmada.rebalancer import unknown_scopes
from webhook.admission.problem import Problem
from webhook.admission.rules import affinities, division, kubeadmiral, selection, spreading, tolerations
from webhook.admission.rules.rule import PolicyChange, Rule
from webhook.admission.settings import Settings

POLICY_RULES: Final[tuple[Rule[PolicyChange], ...]] = (
    *selection.RULES, *affinities.RULES, *spreading.RULES, *division.RULES, *tolerations.RULES,
)  # fmt: skip
KUBEADMIRAL_RULES: Final[tuple[Rule[KubeAdmiralSpec], ...]] = kubeadmiral.RULES


class RebalancerChange(NamedTuple):
    """What rules about WorkloadRebalancers look at."""

    spec: RebalancerSpec
    settings: Settings


def _unknown_scopes(change: RebalancerChange) -> Iterator[Problem]:
    return unknown_scopes(change.spec, change.settings)


REBALANCER_RULES: Final[tuple[Rule[RebalancerChange], ...]] = (
    Rule(
        "rebalancer-scope-unknown",
        "A workload without a namespace, of a kind whose scope is not known.",
        _unknown_scopes,
    ),
)
ALL_RULES: Final[tuple[Rule[Any], ...]] = (*POLICY_RULES, *KUBEADMIRAL_RULES, *REBALANCER_RULES)
RULE_IDS: Final = frozenset(rule.id for rule in ALL_RULES)
