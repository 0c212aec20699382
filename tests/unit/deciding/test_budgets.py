from datetime import UTC, datetime

import pytest
from builders import binding
from tables import cases

from berthmaster.deciding.admissions import Budgets, MoveCandidate, Waiting
from berthmaster.deciding.budgets import Budget
from berthmaster.deciding.config import MovesConfig
from berthmaster.deciding.move_selector import MoveSelector, MoveSubject
from berthmaster.deciding.windows import Window
from berthmaster.model.move import MoveReason

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
NIGHTS = (Window("0 22 * * *", 6 * 3600),)


def move(name, *, reason="Failback", policy="shop/web", namespace="shop", sources=None, targets=None, pause="None"):
    return MoveCandidate(
        (namespace, name), MoveSubject(namespace, {}, policy, "Deployment"), MoveReason(reason),
        sources or {"old": 4}, targets or {"new": 4}, pause,
    )  # fmt: skip


def admitted(budgets, candidate, active=(), *, totals=None, pause="None"):
    config = MovesConfig(pause=pause, budgets=tuple(budgets))
    return Budgets(config).admit(candidate, active, NOON, totals)


def budget(name="b", **limits):
    return Budget(name, **limits)


@pytest.mark.parametrize(
    ("limit", "active", "reason"),
    [
        pytest.param({}, [move("a"), move("b")], "", id="no limit"),
        pytest.param({"max_moves": 2}, [move("a")], "", id="below the limit"),
        pytest.param({"max_moves": 2}, [move("a"), move("b")], "2 moves under way, at most 2", id="at the limit"),
        pytest.param({"max_moves": 0}, [], "0 moves under way, at most 0", id="a limit of 0 is closed"),
        pytest.param(
            {"max_moves_per_policy": 1}, [move("a")], "1 move of policy shop/web under way, at most 1",
            id="the policy is at its limit",
        ),
        pytest.param({"max_moves_per_policy": 1}, [move("a", policy="all")], "", id="another policy is"),
        pytest.param(
            {"max_moves_per_namespace": 1}, [move("a", policy="all")], "1 move of namespace shop under way, at most 1",
            id="the namespace is at its limit",
        ),
        pytest.param({"max_moves_per_namespace": 1}, [move("a", namespace="x")], "", id="another namespace is"),
        pytest.param(
            {"max_moves_from_cluster": 1}, [move("a", sources={"old": 1, "x": 1})], "at most 1 moves may leave old",
            id="the source is at its limit",
        ),
        pytest.param({"max_moves_from_cluster": 1}, [move("a", sources={"x": 1})], "", id="another source is"),
        pytest.param(
            {"max_moves_to_cluster": 1}, [move("a", sources={"x": 1})], "at most 1 moves may arrive at new",
            id="the target is at its limit",
        ),
        pytest.param({"max_moves_to_cluster": 1}, [move("a", targets={"x": 1})], "", id="another target is"),
    ],
)  # fmt: skip
def test_a_limit_counts_the_moves_under_way(limit, active, reason):
    found = admitted([budget(**limit)], move("c"), active)
    assert (found.reason if isinstance(found, Waiting) else "") == (f"budget b: {reason}" if reason else "")


TWO = [budget(max_moves=2, max_moves_per_namespace=1), budget("percent", replicas_percent=50)]


@cases(
    ("candidate", "drains", "active", "waits"),
    {
        "no drain waits": (move("f"), [], [move("a", namespace="x")], False),
        "a drain waits for the last place": (move("f"), [move("d", reason="Drain", namespace="y")], [move("a")], True),
        "there is a place for both": (move("f"), [move("d", reason="Drain", namespace="y")], [], False),
        "the drain is of the same namespace": (move("f"), [move("d", reason="Drain")], [], True),
        "the namespace of the drain is at its limit": (
            move("f"), [move("d", reason="Drain", namespace="x")], [move("a", namespace="x")], False,
        ),
        "the drain never fits": (
            move("f"), [move("d", reason="Drain", namespace="x", sources={"old": 90})], [], False,
        ),
        "the second drain could begin": (
            move("f"),
            [move("d", reason="Drain", sources={"old": 90}), move("e", reason="Drain", namespace="y")],
            [move("a", namespace="x")],
            True,
        ),
        "its policy pauses the drain": (
            move("f"), [move("d", reason="Drain", namespace="y", pause="Planned")], [move("a")], False,
        ),
        "rebalancing gives way, too": (
            move("f", reason="Rebalance"), [move("d", reason="Drain", namespace="y")], [move("a")], True,
        ),
        "a failover does not": (
            move("f", reason="Failover"), [move("d", reason="Drain", namespace="y")], [move("a")], False,
        ),
        "a drain does not": (
            move("f", reason="Drain"), [move("d", reason="Drain", namespace="y")], [move("a")], False,
        ),
    },
)  # fmt: skip
def test_a_failback_gives_way_to_a_drain_that_could_use_its_place(candidate, drains, active, waits):
    budgets = Budgets(MovesConfig(budgets=tuple(TWO)))
    found = budgets.gives_way(candidate, drains, active, NOON, {"percent": 100})
    assert (found is not None) is waits


def test_one_namespace_never_fills_the_default_budget():
    active = [move(f"a{number}") for number in range(5)]
    assert isinstance(Budgets(MovesConfig()).admit(move("c"), active, NOON), Waiting)
    assert Budgets(MovesConfig()).admit(move("c", namespace="other"), active, NOON) is None


def test_a_move_does_not_count_against_itself():
    assert admitted([budget(max_moves=1)], move("a"), [move("a")]) is None


def test_only_moves_that_the_selector_matches_count():
    selective = budget(max_moves=1, selector=MoveSelector({"shop"}))
    assert admitted([selective], move("c"), [move("a", namespace="other")]) is None
    assert admitted([selective], move("c", namespace="other"), [move("a")]) is None


def test_several_budgets_apply_together_and_all_reasons_are_given():
    found = admitted([budget("wide", max_moves=9), budget("one", max_moves=1), budget("night", windows=NIGHTS)],
                     move("c"), [move("a")])  # fmt: skip
    assert found == Waiting(
        "budget one: 1 move under way, at most 1; budget night: its window opens at 2026-06-01 22:00:00Z",
        300.0,
        "window",
        about=("one", "night", "2026-06-01 22:00:00Z"),
    )


@pytest.mark.parametrize(
    ("total", "moving", "answer"),
    [
        (None, 0, "the replicas of its workloads are not counted yet"),
        (40, 0, ""),
        (79, 4, "4 replicas are moving and this move needs 4; 10 % of 79 is 7"),
        (80, 4, ""),
        (39, 0, "this move needs 4 replicas; 10 % of 39 is 3, so it never fits unless the percentage is raised"),
    ],
)
def test_a_percentage_counts_replicas(total, moving, answer):
    active = [move("a", sources={"old": moving}, targets={"new": 1})] if moving else []
    found = admitted([budget(replicas_percent=10)], move("c"), active, totals=None if total is None else {"b": total})
    assert (found.reason if isinstance(found, Waiting) else "") == (f"budget b: {answer}" if answer else "")


def test_the_totals_of_percentages_are_those_of_the_selected_bindings():
    config = MovesConfig(budgets=(
        budget("shop", replicas_percent=10, selector=MoveSelector({"shop"})), budget("none"),
        budget("all", replicas_percent=5),
    ))  # fmt: skip
    budgets = Budgets(config)
    assert budgets.needs_totals
    bindings = [binding(namespace=name, clusters={"m1": 2, "m2": rest}) for name, rest in (("shop", 3), ("other", 5))]
    assert budgets.totals(bindings) == {"shop": 5, "all": 12}


@cases(("limits_failover", "result"), {"by default": (False, ""), "if a budget says so": (True, "limit")})
def test_a_failover_waits_for_no_window_and_for_limits_only_on_request(limits_failover, result):
    limited = budget(max_moves=1, limits_failover=limits_failover, windows=NIGHTS)
    found = admitted([limited], move("c", reason="Failover"), [move("a")])
    assert (found.cause if isinstance(found, Waiting) else "") == result


def test_a_failover_under_way_counts_against_planned_moves():
    assert isinstance(admitted([budget(max_moves=1)], move("c"), [move("a", reason="Failover")]), Waiting)


@pytest.mark.parametrize("reason", ["Failback", "Drain", "Rescheduled", "Failover"])
@pytest.mark.parametrize("where", ["config", "policy"])
@pytest.mark.parametrize("pause", ["None", "Planned", "All"])
def test_a_pause_stops_planned_moves_or_all(reason, where, pause):
    candidate = move("a", reason=reason, pause=pause if where == "policy" else "None")
    found = admitted([], candidate, pause=pause if where == "config" else "None")
    stopped = pause == "All" or (pause == "Planned" and reason != "Failover")
    assert (found.cause if isinstance(found, Waiting) else "") == ("paused" if stopped else "")
