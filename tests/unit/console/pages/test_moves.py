"""The page Moves: what moves, what waits and for what, and what stops it."""

import re
from datetime import timedelta

from console_answers import HOSTILE, NOW, budget, move_row, moves_view
from console_source import GivenSource, console_client
from tables import cases, data

from berthmaster.deciding.lease_record import SourcesRecord
from berthmaster.views.move_rows import (
    BrakeReport,
    ControllersReport,
    MoveQuery,
    MoveSort,
    RowState,
    WaitReason,
    WindowUse,
)
from console.pages.moves import BADGES, limits_of

LATER = NOW + timedelta(hours=3)


def notices(client):
    """Return the kind and the HTML of each notice at the top of the page."""
    return re.findall(r'<div class="panel stop (\w+)" role="alert">(.*?)</div>', client.get("/moves").text, re.DOTALL)


def test_every_state_and_phase_has_words():
    assert set(RowState) == set(BADGES)


def test_what_stops_moves_comes_first():
    view = moves_view(
        brake=BrakeReport(engaged=True, reason="5 of 9 clusters are not ready", since=NOW),
        sources=SourcesRecord(failback="On", pause="Planned", problem="budgets[0]: no name"),
    )
    brake, invalid, paused = notices(console_client(GivenSource(moves=view)))
    assert [kind for kind, _ in (brake, invalid, paused)] == ["bad", "warn", "warn"]
    assert "storm brake is engaged" in brake[1]
    assert "budgets[0]: no name" in invalid[1]
    assert "failovers continue" in paused[1]


def test_an_unknown_brake_is_not_called_free():
    client = console_client(GivenSource(moves=moves_view(brake=BrakeReport(), budgets=None)))
    assert notices(client) == []
    text = client.get("/moves").text
    assert "Storm brake: not known" in text
    assert "The budgets are not known" in text


@cases(("fields", "expected"), data("console_words")["limits"])
def test_the_limits_of_a_budget(fields, expected):
    assert [text for *_, text in limits_of(budget(**fields))] == expected


def test_the_address_is_the_question(page):
    answer, source = page(
        "/moves?q=web&state=held-down&reason=Failback&cluster=b&sort=-since&page=3",
        moves=moves_view(move_row(), matched=120),
    )
    assert answer.status_code == 200
    wanted = MoveQuery("web", RowState.HELD_DOWN, "Failback", "b", None, MoveSort.SINCE, True, 100, 50)  # noqa: FBT003
    assert source.asked == [("moves", (wanted._replace(namespaces=None),), {})]
    assert "101–120 of 120" in answer.text


def test_a_page_after_the_last_one_is_the_last_one(page):
    def moves(query):
        return moves_view(*[move_row()][query.offset :], counts={"moving": 1}, matched=1)

    answer, _ = page("/moves?page=77", moves=moves)
    assert "shop/Deployment/web" in answer.text
    assert "Nothing moves" not in answer.text


def test_controllers_that_are_silent_are_a_notice():
    silent = moves_view(controllers=ControllersReport(NOW - timedelta(hours=2), silent=True))
    ((kind, text),) = notices(console_client(GivenSource(moves=silent)))
    assert kind == "bad"
    assert "No controller has renewed its lease" in text
    assert "2 h ago" in text


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


def test_nothing_that_moves_and_nothing_that_matches_differ():
    assert "Nothing moves or waits." in console_client(GivenSource(moves=moves_view())).get("/moves").text
    client = console_client(GivenSource(moves=moves_view(counts={"moving": 3})))
    assert "No move matches the filter." in client.get("/moves?q=web").text
