"""What all pages share: invalid addresses, and tables as files.

A file has all rows that the filters accept, only what the visitor may see, and no formulas.
"""

import csv
import html
import io
import re
from datetime import timedelta
from urllib.parse import parse_qsl, urlsplit

import console_answers as made
import pytest
from console_source import GivenSource, console_app, console_client, refused_question
from tables import cases, data

from berthmaster.ledger.records import ChangeRecord
from berthmaster.model.cluster import Condition
from berthmaster.model.move import MovePhase
from berthmaster.native_api.fleet import StateVersion
from berthmaster.native_api.wire import Progress
from berthmaster.views.policy_rows import PolicyFinding, TakeoverRow
from console.pages.downloads import MOST
from console.question import WhatIfQuestion, encoded

TAKEOVER = TakeoverRow("shop/Deployment/web", "PropagationPolicy shop/b", "PropagationPolicy shop/all", "")
PAST = made.past_explanation(ChangeRecord("p1", "taints", "", "maintenance:NoExecute", decisive=True))
POLICY = made.policy_row(findings=[PolicyFinding("a", "error", "spec", "=x")], takes=[TAKEOVER], loses=[TAKEOVER])
WORKLOAD = made.workload_answers(
    binding=made.binding_view(conditions=[Condition("Scheduled", "True", "Success")]),
    outlook=made.binding_outlook(made.group_outlook("home"), move=made.move_state(MovePhase.SURGING)),
    history=made.history_page(made.history_row(2), made.history_row(1)),
    recorded_decision=PAST,
)
ANSWERS = {
    "fleet": made.fleet_view(made.fleet_cluster("a"), made.fleet_cluster("b", ready=False), made.fleet_cluster("=1+1")),
    "workloads": made.listed_workloads(made.workload_row("web"), made.workload_row("@api"), matched=2),
    "moves": made.moves_view(made.move_row(), made.move_row("shop/Deployment/-2"), budgets=[made.budget()]),
    "policies": made.policy_list(made.policy_row(), made.policy_row("+all")),
    "policy": made.policy_view(POLICY, [("", ["a"])]),
    "resilience": made.resilience_view(made.impact("north", ["a"]), made.impact("=south", ["b"])),
    "drift": made.drift_view(made.workload_drift(), made.workload_drift("shop/Deployment/=1", policy="+all")),
    "plan": made.plan_answer(made.planned_move(), unplaced=[made.lost_workload()]),
    **WORKLOAD,
}
TABLES = {
    "/fleet?view=table": [""],
    "/workloads": [""],
    "/moves": ["budgets", ""],
    "/policies": [""],
    "/policies/shop/all": ["groups", "findings", "takes", "loses"],
    "/history?range=all": [""],
    "/resilience": [""],
    "/drift": ["policies", "groups", "clusters", ""],
    f"/what-if?question={encoded(WhatIfQuestion(lose=('a',)))}": ["flows", "table-1", "table-2"],
    "/workloads/shop/web-deployment": ["copies", "groups", "clusters", "claims", "records", "conditions"],
    "/workloads/shop/web-deployment?record=1.1": ["groups", "clusters", "records", "changes"],
}
"""The tables of each page that are files; the usual table of a page has no name."""
HIDDEN = ("workloads", "replicas", "byGroup", "by_group", "withoutGroups", "without_groups", "arriving", "leaving")


@pytest.mark.parametrize("address", TABLES)
def test_each_table_is_a_file_of_csv_and_of_json_with_the_same_rows(address):
    client = console_client(GivenSource(**ANSWERS))
    links = [html.unescape(each) for each in re.findall(r'href="([^"]*as=csv[^"]*)"', client.get(address).text)]
    assert [dict(parse_qsl(urlsplit(each).query)).get("table", "") for each in links] == TABLES[address]
    for link in links:
        table, objects = (client.get(each) for each in (link, link.replace("as=csv", "as=json")))
        assert table.headers["Content-Type"] == "text/csv; charset=utf-8", link
        assert table.headers["Content-Disposition"].startswith('attachment; filename="')
        rows = list(csv.DictReader(io.StringIO(table.text)))
        assert len(rows) == len(objects.json["items"]) > 0, link
        assert {tuple(each) for each in rows} == {tuple(objects.json["items"][0])}
        assert not [text for each in rows for text in each.values() if text.startswith(("=", "+", "@"))]


@pytest.mark.parametrize("wrong", ["as=xlsx", "as=csv&table=secrets"])
def test_an_unknown_file_is_refused(wrong):
    assert console_client(GivenSource(**ANSWERS)).get(f"/moves?{wrong}").status_code == 400


def test_the_filters_of_the_page_count():
    client = console_client(GivenSource(**ANSWERS))
    names = [each["name"] for each in client.get("/fleet?state=not-ready&as=json").json["items"]]
    assert names == ["b"]


def test_a_file_has_the_records_of_all_pages():
    pages = {"": made.history_page(made.history_row(3), following="1.3"), "1.3": made.history_page(made.history_row(2))}
    source = GivenSource(history=lambda query, **_: pages[query.after])
    found = console_client(source).get("/history?as=json&range=all&after=1.9").json["items"]
    assert [each["id"] for each in found] == ["1.3", "1.2"]


def test_a_visitor_of_some_namespaces_gets_no_numbers_of_others():
    client = console_client(GivenSource(**ANSWERS), namespaces=frozenset({"shop"}))
    for each in client.get("/fleet?as=json").json["items"]:
        assert {each[name] for name in HIDDEN if name in each} == {None}


def test_a_file_has_a_bound():
    asked = []

    def workloads(query):
        asked.append((query.offset, query.limit))
        return made.listed_workloads(*[made.workload_row("web")] * query.limit, matched=10**6)

    rows = console_client(GivenSource(workloads=workloads)).get("/workloads?as=json").json["items"]
    assert len(rows) == MOST
    assert asked == [(each, 1000) for each in range(0, MOST, 1000)]


@pytest.mark.parametrize("address", data("console_words")["wrong addresses"])
def test_an_invalid_parameter_of_an_address_is_named(address):
    answer = console_client(GivenSource(**ANSWERS)).get(address)
    assert answer.status_code == 400
    assert address.partition("?")[2].partition("=")[0] in answer.text


def test_a_long_parameter_of_an_address_is_named():
    answer = console_client(GivenSource(**ANSWERS)).get(f"/workloads?q={'x' * 513}")
    assert (answer.status_code, "q: " in answer.text) == (400, True)


@pytest.mark.parametrize(("version", "outdated"), [("", False), ("1", False), ("2", True)])
@pytest.mark.parametrize("name", ["resilience", "drift"])
def test_the_page_says_that_its_figures_are_about_an_earlier_state(name, version, outdated):
    app = console_app(GivenSource(**{**ANSWERS, "version": StateVersion(version, made.FRESH)}))
    app.extensions["console"].watcher.poll()
    assert ("The fleet has changed since then." in app.test_client().get(f"/{name}").text) is outdated


@cases(
    ("passed_s", "progress", "refresh", "text"),
    {
        "it has just begun": (1, {}, "3", "It is being prepared."),
        "it is being prepared for long": (600, {}, "15", "It began 10 min ago."),
        "it is nearly ready": (60, {"done": 9, "total": 10}, "7", "9 of 10 are done."),
        "it takes long": (60, {"done": 1, "total": 1000}, "15", "1 of 1,000 are done."),
        "next": (60, {"first": True}, "15", "Another question comes first: the loss of each cluster."),
    },
)
@pytest.mark.parametrize("name", ["resilience", "drift"])
def test_the_page_shows_the_progress_and_asks_again_while_the_extender_simulates(
    name, passed_s, progress, refresh, text
):
    begun = made.NOW - timedelta(seconds=passed_s)
    simulating = refused_question("retry", 503, progress=Progress("the loss of each cluster", begun, **progress))
    client = console_client(GivenSource(**{name: simulating}))
    answer = client.get(f"/{name}")
    assert (answer.status_code, answer.headers["Refresh"]) == (200, refresh)
    assert text in answer.text
    other = 'href="/resilience?by=zone&amp;failover=auto"' in answer.text
    assert other is (name == "resilience"), "another question can be asked"
    file = client.get(f"/{name}?as=csv")
    assert (file.status_code, "Refresh" in file.headers) == (503, False), "no file without a result"
