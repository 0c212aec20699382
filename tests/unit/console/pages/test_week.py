"""The last days on the page History: what is drawn, what is not known, and who has it."""

from datetime import timedelta

from console_answers import FRESH, HOSTILE, NOW, history_page, history_row
from console_source import GivenSource, console_client, refused_question
from tables import cases

from berthmaster.native_api.days import FleetDay, FleetDays
from berthmaster.native_api.wire import Progress
from console.pages.week import HEIGHT, shown_week


def day(before=0, **changes):
    given = {"nowhere": 0, "short": 0, "not_preferred": 0, "moving": 0, "outcomes": {}, **changes}
    return FleetDay((NOW - timedelta(days=before)).date(), **given)


def fleet_days(*days, since=NOW, missing=()):
    return FleetDays(list(days), since, list(missing), NOW, "v1", [], FRESH)


def history(days, query="range=7d"):
    return console_client(GivenSource(history=history_page(history_row()), days=days)).get(f"/history?{query}")


def test_the_bars_are_as_high_as_the_numbers_the_first_day_first():
    week = shown_week(fleet_days(day(nowhere=1), day(1, nowhere=200), day(2)))
    assert [(each.number, each.height) for each in week.figures[0].bars] == [(0, 0), (200, HEIGHT), (1, 1)]
    assert [each.now for each in week.figures] == [1, 0, 0, 0]
    assert [numbers for _, numbers in week.days] == [[1, 0, 0, 0], [200, 0, 0, 0], [0, 0, 0, 0]]


def test_a_week_begins_with_its_days():
    page = history(fleet_days(day(short=1234, outcomes={"lost": 3}), day(1, moving=2), missing=[HOSTILE])).text
    for text in ("1,234", "Lost all clusters", "Decisions are on record since", "/workloads?only=short"):
        assert text in page
    assert "<script>alert" not in page
    assert "Too few replicas by day: " in page


def test_what_a_ledger_cannot_know_is_in_a_metric_and_on_a_dashboard():
    page = history(fleet_days(day(), since=None)).text
    assert "No decision is on record" in page
    for text in ("berthmaster_extender_fleet_worst_loss_workloads", "Berthmaster: the fleet", "The worst loss"):
        assert text in page


@cases(
    ("days", "said"),
    {
        "without bindings": (refused_question("the workloads are not known", 409), "the workloads are not known"),
        "while decisions are read": (
            refused_question("decisions are being read", 503, progress=Progress("the days", NOW, 5, 0, first=False)),
            "decisions are being read",
        ),
    },
)
def test_without_the_days_the_page_has_its_records(days, said):
    answer = history(days)
    assert answer.status_code == 200
    assert said in answer.text
    assert "Open 1.1" in answer.text


def test_the_days_are_those_of_the_whole_fleet_and_not_of_a_filter():
    days = fleet_days(day(outcomes={"lost": 3}))
    assert "The last days" in history(days).text
    for query in ("range=7d&cluster=a", "range=7d&after=1.9", "range=24h", "range=7d&show=everything"):
        assert "The last days" not in history(days, query).text
