"""One namespace with many moves beside another one, on the model of Karmada with the real scheduler of bindings."""

from dataclasses import replace

import pytest
from karmada_model.stage import Stage
from karmada_plane import cluster, deployment, policy, selector
from kube_store import JSON
from move_plays import AFTER_S, ON, SETTINGS, terms_of

from berthmaster.deciding.budgets import DEFAULT_BUDGET, Budget
from berthmaster.model.binding import Binding
from berthmaster.model.decode import convert
from berthmaster.model.move import DRAINING, move_of

STEP_S = 10
SHOP: list[JSON] = [deployment(f"shop{number}", 1) for number in range(12)]
BANK = deployment("ledger", 1, namespace="bank")
OWN = {"schedulerName": "berthmaster"}


def two_namespaces(budget: Budget) -> Stage:
    """Return a stage where twelve workloads of one namespace are about to fail back, and one of another is on m3."""
    stage = Stage(
        *(cluster(name) for name in ("m2", "m3", "m4")),
        policy("shop", selector(), placement={"clusterAffinities": terms_of({"a": ["m1"], "b": ["m2"]})}, **OWN),
        policy(
            "bank", selector(namespace="bank"), namespace="bank", **OWN,
            placement={"clusterAffinities": terms_of({"a": ["m3"], "b": ["m4"]})},
        ),
        *SHOP, BANK,
        settings=SETTINGS, moves=replace(ON, budgets=(budget,)),
    )  # fmt: skip
    stage.run(60)
    assert stage.assignment(BANK).keys() == {"m3"}
    stage.apply(cluster("m1"))
    return stage


def moving(stage: Stage, templates: list[JSON]) -> list[str]:
    """Return the templates that move now."""
    states = {each["metadata"]["name"]: move_of(convert(Binding, stage.binding(each))) for each in templates}
    return [name for name, state in states.items() if state is not None and state.under_way]


def until_failbacks(stage: Stage, count: int) -> None:
    for _ in range(3 * AFTER_S // STEP_S):
        stage.run(STEP_S)
        if len(moving(stage, SHOP)) >= count:
            return
    raise AssertionError("too few failbacks began")


def test_one_namespace_leaves_half_of_the_default_budget_to_others():
    stage = two_namespaces(DEFAULT_BUDGET)
    until_failbacks(stage, 5)
    stage.edit(cluster("m3"), spec={"taints": [{"key": DRAINING, "effect": "NoSchedule"}]})
    stage.run(STEP_S)
    assert len(moving(stage, SHOP)) == 5
    assert moving(stage, [BANK]) == ["ledger"]


@pytest.mark.parametrize("after_s", range(0, 15, 3))
def test_a_drain_is_the_next_move_although_many_failbacks_wait(after_s: int):
    stage = two_namespaces(Budget("one", max_moves=1))
    until_failbacks(stage, 1)
    stage.run(after_s)
    (first,) = moving(stage, SHOP)
    stage.edit(cluster("m3"), spec={"taints": [{"key": DRAINING, "effect": "NoSchedule"}]})
    for _ in range(60):
        stage.run(STEP_S)
        if moving(stage, [BANK]):
            break
        assert moving(stage, SHOP) in ([first], [])
    assert moving(stage, [BANK]) == ["ledger"]
    stage.run(600)
    assert stage.assignment(BANK).keys() == {"m4"}
    stage.run(6000)
    assert all(stage.assignment(each).keys() == {"m1"} for each in SHOP)
