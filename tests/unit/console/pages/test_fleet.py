"""The page Fleet: what it says of each cluster, filters, order, and pages."""

import re

import pytest
from console_answers import fleet_cluster, fleet_view, large_fleet, listed_workloads, workload_row

from berthmaster.model.cluster import Taint
from berthmaster.native_api.fleet import FleetAmount
from console.pages.fleet_model import ROWS, TILES, FleetQuestion, fleet_page
from console.pages.fleet_tiles import cluster_page, state_of, tile_of

TAINTED = (Taint("dedicated", "NoSchedule", "batch"),)
LOST = {"ready": False, "ready_message": "the kubelet stopped"}
MIXED = fleet_view(
    fleet_cluster("a", used=2),
    fleet_cluster("b", region="us", provider="gcp", used=15, taints=TAINTED),
    fleet_cluster("c", region="", provider="", **LOST),
    fleet_cluster("d", region="us", provider="gcp", draining=True, taints=TAINTED),
)


def names(page):
    return [tile.name for section in page.sections for tile in section.tiles]


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        pytest.param({}, ("good", "ready"), id="ready"),
        pytest.param({"taints": TAINTED}, ("warn", "tainted"), id="tainted"),
        pytest.param({"taints": TAINTED, "draining": True}, ("busy", "draining"), id="draining is worse than tainted"),
        pytest.param({"draining": True, **LOST}, ("bad", "not ready"), id="not ready is worse than draining"),
        pytest.param({"deleting": True, **LOST}, ("bad", "deleting"), id="deleting is the worst"),
        pytest.param({"used": 14, "assumed": 1}, ("warn", "nearly full"), id="assumed replicas count as full"),
        pytest.param({"used": 14}, ("good", "ready"), id="87 percent is not full"),
        pytest.param({"resources": {}}, ("good", "ready"), id="no resources reported"),
    ],
)
def test_the_state_of_a_cluster_is_the_worst_that_holds(fields, state):
    assert state_of(fleet_cluster("a", **fields)) == state


@pytest.mark.parametrize(
    ("amount", "text", "long_text"),
    [
        pytest.param(FleetAmount(16_000, 4_000, 0), "25 %", "4 used, of 16", id="used"),
        pytest.param(FleetAmount(16_000, 4_000, 500), "25 % + 3 %", "4 used, 0.5 assigned on top, of 16", id="assumed"),
        pytest.param(FleetAmount(16_000, 4_000, None), "25 %", "4 used, of 16", id="assumed is not known"),
        pytest.param(
            FleetAmount(16_000, None, 500), "not reported", "use not reported, 0.5 assigned on top, of 16",
            id="use is not known",
        ),
        pytest.param(FleetAmount(0, 0, 0), "none", "0 used, of 0", id="there is nothing"),
        pytest.param(FleetAmount(100_000, 1, 0), "1 %", "0.001 used, of 100", id="a little is not nothing"),
        pytest.param(FleetAmount(100_000, 99_999, 0), "99 %", "99.999 used, of 100", id="nearly all is not all"),
    ],
)  # fmt: skip
def test_the_use_of_a_resource_in_words(amount, text, long_text):
    (load,) = tile_of(fleet_cluster("a", resources={"cpu": amount})).loads
    assert (load.text, load.long_text) == (text, long_text)


@pytest.mark.parametrize(
    ("fields", "choices"),
    [
        pytest.param({}, "10 first choice, 3 second, 1 without groups", id="all are known"),
        pytest.param(
            {"by_group": [1, 0, 2, 3, 4], "without_groups": 0, "workloads": 11},
            "1 first choice, 2 third, 7 later, 1 in an unknown group",
            id="late and unknown groups",
        ),
        pytest.param({"workloads": None, "by_group": None, "without_groups": None}, "", id="bindings are not watched"),
    ],
)  # fmt: skip
def test_workloads_by_the_position_of_their_group(fields, choices):
    assert tile_of(fleet_cluster("a", **fields)).choices == choices


@pytest.mark.parametrize(
    ("question", "found"),
    [
        pytest.param({}, ["a", "b", "d", "c"], id="by region, unknown regions last"),
        pytest.param({"view": "table"}, ["a", "b", "c", "d"], id="a table has one order"),
        pytest.param({"q": "B"}, ["b"], id="part of a name in any case"),
        pytest.param({"region": "us"}, ["b", "d"], id="region"),
        pytest.param({"region": "-"}, ["c"], id="no region"),
        pytest.param({"provider": "aws"}, ["a"], id="provider"),
        pytest.param({"state": "ready"}, ["a", "b", "d"], id="ready"),
        pytest.param({"state": "not-ready"}, ["c"], id="not ready"),
        pytest.param({"state": "tainted"}, ["b", "d"], id="tainted"),
        pytest.param({"state": "draining"}, ["d"], id="draining"),
        pytest.param({"state": "nearly-full"}, ["b"], id="nearly full"),
        pytest.param({"state": "deleting"}, [], id="deleting"),
        pytest.param({"view": "table", "sort": "-cpu"}, ["b", "c", "d", "a"], id="by use"),
        pytest.param({"view": "table", "sort": "state"}, ["c", "d", "b", "a"], id="the worst state first"),
        pytest.param(
            {"view": "table", "sort": "-region"}, ["b", "d", "a", "c"], id="unknown values come last in both directions"
        ),
    ],
)  # fmt: skip
def test_filters_and_order(question, found):
    assert names(fleet_page(MIXED, FleetQuestion(**question))) == found


def test_sections_sum_up_their_clusters_also_those_of_other_pages():
    page = fleet_page(MIXED, FleetQuestion())
    us = page.sections[1]
    assert (us.title, us.summary) == ("us · gcp", "2 clusters: 1 draining, 1 tainted")
    assert us.loads[0].long_text == "23 used, of 32"
    assert page.sections[2].title == "No region, no provider"
    assert [number for _, number, _, _ in page.figures] == ["4", "3", "1", "1", "2", "1"]
    counted = [len(names(fleet_page(MIXED, FleetQuestion(state=state)))) for *_, state in page.figures]
    assert [int(number) for _, number, _, _ in page.figures] == counted


@pytest.mark.parametrize(("view", "size"), [("tiles", TILES), ("table", ROWS)])
def test_a_page_has_a_bound(view, size):
    fleet = large_fleet(size + 1)
    first, second = (fleet_page(fleet, FleetQuestion(view=view, page=page)) for page in (1, 2))
    assert (len(names(first)), first.paging) == (size, (1, 2, 1, size, size + 1, size + 1))
    assert (len(names(second)), second.paging) == (1, (2, 2, size + 1, size + 1, size + 1, size + 1))
    assert names(fleet_page(fleet, FleetQuestion(view=view, page=99))) == names(second)


def test_bars_are_short_paths():
    drawing = tile_of(fleet_cluster("a", used=12, assumed=3)).drawing
    assert (drawing.high, drawing.assumed) == ("M0 3H75", "M75 3H94")
    assert drawing.used == "M0 9H50M0 15H50"


def test_the_page_shows_names_as_data(page):
    hostile = "<script>alert(1)</script>\u202e"
    answer = page("/fleet", fleet=fleet_view(fleet_cluster(hostile, region=hostile)))[0]
    assert answer.status_code == 200
    assert b"<script>alert" not in answer.data
    assert "\u202e".encode() not in answer.data


@pytest.mark.parametrize("query", ["view=list", "state=broken", "sort=price", "page=0"])
def test_an_invalid_parameter_is_named(page, query):
    answer = page(f"/fleet?{query}", fleet=MIXED)[0]
    assert answer.status_code == 400
    assert query.partition("=")[0] in answer.text
    assert "accepted" in answer.text or "is not a number" in answer.text


@pytest.mark.parametrize("query", ["", "?view=table", "?view=table&sort=-cpu&state=tainted", "?q=nothing"])
def test_each_view_is_shown(page, query):
    answer = page(f"/fleet{query}", fleet=MIXED)[0]
    assert answer.status_code == 200
    assert ("No cluster matches" in answer.text) == ("nothing" in query)


def test_a_cluster_has_a_page_of_its_own(page):
    gpu = {"nvidia.com/gpu": FleetAmount(8, 2, 1)}
    fleet = fleet_view(fleet_cluster("a", resources=gpu, taints=TAINTED, **LOST))
    answer, source = page("/fleet/a", fleet=fleet, workloads=listed_workloads(workload_row("web"), matched=31))
    text = answer.text
    parts = ["the kubelet stopped", "2 used, 1 assigned on top, of 8", "dedicated=batch:NoSchedule", "all 31 workloads"]
    assert [part for part in parts if part not in text] == []
    (asked,) = [arguments[0] for name, arguments, _ in source.asked if name == "workloads"]
    assert asked.cluster == "a"


def test_an_unknown_cluster_is_not_found(page):
    assert cluster_page(MIXED, "z") is None
    assert page("/fleet/z", fleet=MIXED)[0].status_code == 404


def test_numbers_of_workloads_are_left_out_for_visitors_of_some_namespaces():
    page = fleet_page(MIXED, FleetQuestion(), counted=False)
    assert not page.counted
    assert {tile.counts + tile.choices + tile.movements for section in page.sections for tile in section.tiles} == {""}
    assert "Workloads" not in dict(cluster_page(MIXED, "a", counted=False).facts)


def test_tiles_are_drawn_once_for_each_version_of_the_fleet(page):
    before = page("/fleet", fleet=MIXED)[0].text
    assert page("/fleet", fleet=MIXED)[0].text == before
    after = page("/fleet", fleet=fleet_view(fleet_cluster("new")))[0].text
    assert ('id="cluster-new"' in before, 'id="cluster-new"' in after) == (False, True)
    assert 'id="cluster-a"' not in page("/fleet?q=b", fleet=MIXED)[0].text


def test_the_page_starts_with_how_many_workloads_are_not_as_they_should_be(page):
    found = listed_workloads(total=400, matched=400, only={"nowhere": 3, "moving": 1, "short": 0})
    text = page("/fleet", fleet=fleet_view(fleet_cluster("a")), workloads=found)[0].text
    figures = re.findall(r'<a class="figure (\w*)" href="([^"]+)"><strong>([\d,]+)</strong> <span>([^<]+)', text)
    assert figures[:3] == [
        ("", "/workloads", "400", "workloads"),
        ("bad", "/workloads?only=nowhere", "3", "nowhere"),
        ("", "/workloads?only=moving", "1", "moving"),
    ]
