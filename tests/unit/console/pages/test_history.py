"""The page History: the question of the address, and what it shows of the answer."""

from datetime import UTC, datetime, timedelta

from console_answers import HOSTILE, history_page, history_row
from console_source import GivenSource, console_client, refused_question
from fake_clock import FakeClock
from tables import cases

from berthmaster.native_api.wire import HistoryPage

NOW = FakeClock().now()


@cases(
    ("query", "asked"),
    {
        "since yesterday": ("", {"since": NOW - timedelta(hours=24), "until": None, "moves": True}),
        "everything": ("range=all&show=everything", {"since": None, "moves": False}),
        "a range of times": (
            "from=2026-11-21T03:12&to=2026-11-21T05:00:00%2B01:00&range=1h",
            {"since": datetime(2026, 11, 21, 3, 12, tzinfo=UTC), "until": datetime(2026, 11, 21, 4, tzinfo=UTC)},
        ),
        "filters": (
            "cluster=a&policy=shop/web&namespace=shop&after=1.9&utm_source=x",
            {"cluster": "a", "policy": "shop/web", "namespace": "shop", "after": "1.9"},
        ),
        "a workload as people write it": (
            "workload=shop/deploy/web&trigger=Failover",
            {"namespace": "shop", "kind": "Deployment", "name": "web", "trigger": "Failover", "moves": True},
        ),
        "a person, who decides nothing": ("user=alice", {"user": "alice", "moves": False}),
        "another kind of record": ("trigger=exemption", {"trigger": "exemption", "moves": False}),
    },
)
def test_the_address_is_the_question(query, asked):
    source = GivenSource(history=history_page(history_row()))
    assert console_client(source).get(f"/history?{query}").status_code == 200
    (_, (given,), _) = source.asked[-1]
    assert asked.items() <= given._asdict().items()


def test_records_link_to_workloads_and_to_decisions():
    rows = [history_row(7, message=HOSTILE), history_row(6, kind="preemption", before=None, after=None)]
    page = console_client(GivenSource(history=history_page(*rows, following="1.6"))).get("/history").text
    assert 'href="/workloads/shop/web-deployment"' in page
    assert "record=1.7" in page
    assert "record=1.6" not in page
    assert "after=1.6" in page
    assert "<script>alert" not in page


def test_a_part_of_the_range_without_moves_is_not_the_end():
    page = console_client(GivenSource(history=HistoryPage([], "1.6"))).get("/history").text
    assert "Nothing moved in the latest part of this range." in page
    assert "Earlier" in page


def test_the_command_has_the_filters_of_the_page():
    client = console_client(GivenSource(history=history_page(history_row())))
    page = client.get("/history?workload=deploy/web&namespace=shop&trigger=Failover&from=2026-11-21T03:12").text
    assert "berthmaster history Deployment/web -n shop --trigger Failover --since 2026-11-21T03:12:00Z" in page


def test_without_a_ledger_the_page_says_what_is_missing():
    refused = refused_question("the extender has no ledger; start it with --ledger", 409)
    answer = console_client(GivenSource(history=refused)).get("/history")
    assert answer.status_code == 200
    assert "start it with --ledger" in answer.text
