"""The page Moves: what moves, what waits and for what, and what stops it."""

from datetime import timedelta

import pytest
from console_replies import HOSTILE, NOW, move_row, moves_view
from console_source import GivenSource, console_client

from berthmaster.deciding.lease_record import SourcesRecord
from berthmaster.model.move import MovePhase
from berthmaster.views.move_rows import BrakeReport, BudgetUse, RowState, WaitReason, WindowUse
from console.pages.moves_model import BADGES, PHASES, STATES, MoveFilter, moves_page

LATER = NOW + timedelta(hours=3)


def budget(**fields):
    values = {
        "name": "shop", "selects": "the namespace shop", "limits_failover": False, "moves": 2, "max_moves": None,
        "by_policy": {}, "max_moves_per_policy": None, "from_clusters": {}, "max_moves_from_cluster": None,
        "to_clusters": {}, "max_moves_to_cluster": None, "replicas_moving": 4, "replicas": None,
        "replicas_percent": None, "windows": [], "opens_at": None, "waiting": 0, **fields,
    }  # fmt: skip
    return BudgetUse(**values)


def page_of(view, wanted=MoveFilter(), page=1, rows=50):  # noqa: B008 - a constant
    return moves_page(view, wanted, page, rows)


def test_every_state_and_phase_has_words():
    assert set(STATES.values()) == set(RowState) == set(BADGES)
    assert set(PHASES) == {each.value for each in MovePhase}


def test_what_stops_moves_comes_first():
    view = moves_view(
        brake=BrakeReport(engaged=True, reason="5 of 9 clusters are not ready", since=NOW),
        sources=SourcesRecord(failback="On", pause="Planned", problem="budgets[0]: no name"),
    )
    notices = page_of(view).notices
    assert [each.kind for each in notices] == ["bad", "warn", "warn"]
    assert "storm brake is engaged" in notices[0].title
    assert notices[1].text == "budgets[0]: no name"
    assert "failovers continue" in notices[2].title


def test_an_unknown_brake_is_not_called_free():
    page = page_of(moves_view(brake=BrakeReport()))
    assert page.brake is None
    assert page.notices == []
    text = console_client(GivenSource(moves=moves_view(brake=BrakeReport(), budgets=None))).get("/moves").text
    assert "Storm brake: not known" in text
    assert "The budgets are not known" in text


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, [], id="none"),
        pytest.param({"max_moves": 2}, ["2 of 2 moves"], id="moves"),
        pytest.param(
            {"max_moves_per_policy": 3, "by_policy": {"PropagationPolicy a": 1, "PropagationPolicy b": 3}},
            ["3 of 3 moves of PropagationPolicy b"],
            id="the policy with most moves",
        ),
        pytest.param({"max_moves_from_cluster": 5}, ["0 of 5 moves leaving one cluster"], id="nothing leaves"),
        pytest.param(
            {"max_moves_to_cluster": 5, "to_clusters": {"b": 1, "a": 1}}, ["1 of 5 arriving at a"], id="arriving"
        ),
        pytest.param(
            {"replicas_percent": 10, "replicas": 55}, ["4 of 5 replicas (10 % of 55)"], id="a share of the replicas"
        ),
        pytest.param({"replicas_percent": 10}, ["4 replicas move; at most 10 % of all may"], id="of an unknown number"),
    ],
)
def test_the_limits_of_a_budget(fields, expected):
    line = page_of(moves_view(budgets=[budget(**fields)])).budgets[0]
    assert [each.text for each in line.limits] == expected


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param(MoveFilter(), ["shop/Deployment/web", "bank/Deployment/api"], id="all"),
        pytest.param(MoveFilter(state="waiting"), ["bank/Deployment/api"], id="a state"),
        pytest.param(MoveFilter(reason="Failback"), ["shop/Deployment/web"], id="a reason"),
        pytest.param(MoveFilter(cluster="b"), ["shop/Deployment/web"], id="a cluster that it arrives at"),
        pytest.param(MoveFilter(text="BANK"), ["bank/Deployment/api"], id="a part of the name"),
        pytest.param(MoveFilter(state="done"), [], id="nothing"),
    ],
)
def test_filters(wanted, expected):
    rows = [move_row(), move_row("bank/Deployment/api", RowState.WAITING, reason="Drain", target={"c": 1})]
    assert [each.workload for each in page_of(moves_view(*rows), wanted).lines] == expected


def test_a_move_that_is_not_sent_is_counted():
    page = page_of(moves_view(move_row(), counts={"moving": 1, "waiting": 1200}))
    assert page.left_out == 1200


def test_the_page_says_what_waits_for_what():
    waiting = move_row(
        state=RowState.WAITING, phase="Eligible", failures=2, held_down_until=LATER,
        waits_for=[WaitReason("window", f"closed {HOSTILE}", "shop", LATER)],
    )  # fmt: skip
    windows = [WindowUse("0 2 * * *", 7200, "UTC", open=False, next_start=LATER)]
    source = GivenSource(moves=moves_view(waiting, budgets=[budget(windows=windows, opens_at=LATER, max_moves=2)]))
    page = console_client(source).get("/moves?state=waiting").text
    assert 'href="/workloads/shop/web-deployment"' in page
    assert 'href="#budget-shop"' in page
    assert 'id="budget-shop"' in page
    assert "closed &lt;script&gt;" in page
    assert "held down; ends" in page
    assert "2 of 2 moves" in page
    assert "reached" in page
    assert "0 2 * * *" in page
    assert "data-live" in page


@pytest.mark.parametrize("query", ["state=gone", "reason=x", "page=-1", "sort=name"])
def test_a_wrong_address_says_what_is_accepted(query):
    assert console_client(GivenSource(moves=moves_view())).get(f"/moves?{query}").status_code == 400


def test_nothing_that_moves_and_nothing_that_matches_differ():
    client = console_client(GivenSource(moves=moves_view()))
    assert "Nothing moves or waits." in client.get("/moves").text
    assert "No move matches the filter." in client.get("/moves?q=web").text
