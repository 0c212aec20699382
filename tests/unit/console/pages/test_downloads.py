"""The rows of lists as files: all that the filters accept, only what the visitor may see, and no formulas."""

import csv
import io

import pytest
from console_answers import fleet_cluster, fleet_view, listed_workloads, workload_row
from console_replies import move_row, moves_view, policy_list, policy_row
from console_source import GivenSource, console_client

from console.pages.downloads import MOST

ANSWERS = {
    "fleet": fleet_view(fleet_cluster("a"), fleet_cluster("b", ready=False), fleet_cluster("=1+1")),
    "workloads": listed_workloads(workload_row("web"), workload_row("@api"), matched=2),
    "moves": moves_view(move_row(), move_row("shop/Deployment/-2")),
    "policies": policy_list(policy_row(), policy_row("+all")),
}
HIDDEN = ("workloads", "replicas", "byGroup", "by_group", "withoutGroups", "without_groups", "arriving", "leaving")


@pytest.fixture(params=["fleet", "workloads", "moves", "policies"])
def listed(request):
    return request.param, console_client(GivenSource(**ANSWERS))


def test_each_list_is_a_file_of_csv_and_of_json_with_the_same_rows(listed):
    path, client = listed
    assert f'href="/{path}?as=csv"' in client.get(f"/{path}").text or path == "fleet"
    table, objects = (client.get(f"/{path}?as={kind}") for kind in ("csv", "json"))
    assert table.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert table.headers["Content-Disposition"].startswith('attachment; filename="')
    rows = list(csv.DictReader(io.StringIO(table.text)))
    assert len(rows) == len(objects.json["items"]) > 1
    assert {tuple(each) for each in rows} == {tuple(objects.json["items"][0])}
    assert not [text for each in rows for text in each.values() if text.startswith(("=", "+", "@"))]


def test_the_filters_of_the_page_count(listed):
    path, client = listed
    assert client.get(f"/{path}?as=xlsx").status_code == 400
    if path == "fleet":
        names = [each["name"] for each in client.get("/fleet?state=not-ready&as=json").json["items"]]
        assert names == ["b"]


def test_a_visitor_of_some_namespaces_gets_no_numbers_of_others():
    client = console_client(GivenSource(**ANSWERS), namespaces=frozenset({"shop"}))
    for each in client.get("/fleet?as=json").json["items"]:
        assert {each[name] for name in HIDDEN if name in each} == {None}


def test_a_file_has_a_bound():
    asked = []

    def workloads(query):
        asked.append((query.offset, query.limit))
        return listed_workloads(*[workload_row("web")] * query.limit, matched=10**6)

    rows = console_client(GivenSource(workloads=workloads)).get("/workloads?as=json").json["items"]
    assert len(rows) == MOST
    assert asked == [(each, 1000) for each in range(0, MOST, 1000)]
