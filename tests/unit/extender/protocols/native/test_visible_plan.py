"""A plan for a reader of few namespaces: nothing in it names a workload or a policy of another one."""

from berthmaster.model.decode import encode_json
from berthmaster.model.reader import ANY_READER, Reader
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.simulation.plan_answer import (
    ClaimChange,
    Plan,
    PlannedMove,
    PlanSummary,
    PolicyEffect,
    StayingWorkload,
    StayReason,
    UnplacedWorkload,
)  # fmt: skip
from extender.protocols.native.visible import visible_plan

BOTH = ["shop/Deployment/web", "vault/Deployment/secret", "ClusterRole/secret"]
SHOP = Reader(frozenset({"shop"}))


def changes():
    return [ClaimChange(each, None, None) for each in BOTH]


def plan():
    moves = [PlannedMove(each, None, None, None, None, {}, {}, {}, 1, [], [], [], Trigger.NONE, "why") for each in BOTH]
    effects = [
        PolicyEffect(f"PropagationPolicy {namespace}", "created", 0, changes(), changes(), changes(), changes())
        for namespace in ("shop/web", "vault/secret")
    ]
    unplaced = [UnplacedWorkload(each, None, True, True, "why") for each in BOTH]  # noqa: FBT003
    staying = [StayingWorkload(each, None, StayReason.LAZY, "why") for each in BOTH]
    return Plan(
        "id", PlanSummary(3, 3, 3, BOTH, BOTH, BOTH), 3, 0, complete=True, gaps=[], policies=effects,
        unplaced=unplaced, moves=moves, overcommitted=[], clusters=[], staying=staying,
    )  # fmt: skip


def test_only_rows_of_the_namespaces_of_the_reader_stay():
    text = encode_json(visible_plan(plan(), SHOP)).decode()
    assert "secret" not in text
    assert "shop/Deployment/web" in text


def test_the_id_and_the_totals_are_about_all_workloads():
    seen = visible_plan(plan(), SHOP)
    assert (seen.id, seen.summary.moved, seen.concerned, len(seen.moves)) == ("id", 3, 3, 1)


def test_a_reader_of_all_namespaces_gets_the_plan_as_it_is():
    made = plan()
    assert visible_plan(made, ANY_READER) is made
