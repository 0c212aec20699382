"""The page Fleet: what it says of each cluster, filters, order, and pages."""

import re

import pytest
from console_answers import fleet_cluster, fleet_view, large_fleet, listed_workloads, workload_row
from console_source import GivenSource, console_client
from tables import cases, data

from berthmaster.model.taint import Taint
from berthmaster.native_api.fleet import FleetAmount
from console.pages.fleet_model import ATTENTION, LINKED, FleetQuestion, Tile, fleet_page, state_of

WORDS = data("console_words")
TAINTED = (Taint("dedicated", "NoSchedule", "batch"),)
LOST = {"ready": False, "ready_message": "the kubelet stopped"}
MIXED = fleet_view(
    fleet_cluster("a", used=2),
    fleet_cluster("b", region="us", provider="gcp", used=15, taints=TAINTED),
    fleet_cluster("c", region="", provider="", **LOST),
    fleet_cluster("d", region="us", provider="gcp", draining=True, taints=TAINTED),
)


def names(page):
    return [tile.cluster.name for tile in page.rows]


@cases(
    ("fields", "state"),
    {
        "ready": ({}, ("good", "ready")),
        "tainted": ({"taints": TAINTED}, ("warn", "tainted")),
        "draining is worse than tainted": ({"taints": TAINTED, "draining": True}, ("busy", "draining")),
        "not ready is worse than draining": ({"draining": True, **LOST}, ("bad", "not ready")),
        "deleting is the worst": ({"deleting": True, **LOST}, ("bad", "deleting")),
        "assumed replicas count as full": ({"used": 14, "assumed": 1}, ("warn", "nearly full")),
        "87 percent is not full": ({"used": 14}, ("good", "ready")),
        "no resources reported": ({"resources": {}}, ("good", "ready")),
    },
)
def test_the_state_of_a_cluster_is_the_worst_that_holds(fields, state):
    assert state_of(fleet_cluster("a", **fields)) == state


@cases(("amount", "text", "long_text"), WORDS["load"])
def test_the_use_of_a_resource_in_words(amount, text, long_text):
    (load,) = Tile(fleet_cluster("a", resources={"cpu": FleetAmount(*amount)})).loads
    assert (load.text, load.long_text) == (text, long_text)


@cases(("fields", "choices"), WORDS["choices"])
def test_workloads_by_the_position_of_their_group(fields, choices):
    assert Tile(fleet_cluster("a", **fields)).choices == choices


@cases(("question", "found"), WORDS["fleet"])
def test_filters_and_order(question, found):
    assert names(fleet_page(MIXED, FleetQuestion(view="table", **question))) == found


def test_figures_count_what_their_links_show():
    page = fleet_page(MIXED, FleetQuestion())
    assert [number for _, number, _, _ in page.figures] == ["4", "3", "1", "1", "2", "1"]
    counted = [fleet_page(MIXED, FleetQuestion(state=state)).paging.matched for *_, state in page.figures]
    assert [int(number) for _, number, _, _ in page.figures] == counted


def test_the_numbers_of_a_filter_follow_the_others():
    page = fleet_page(MIXED, FleetQuestion(region="us", state="nearly-full"))
    assert [text for _, text in page.regions] == ["us (1)"]
    assert [text for _, text in page.providers] == ["gcp (1)"]
    assert [text for _, text in page.states[:2]] == ["ready (2)", "not ready (0)"]
    chosen = fleet_page(MIXED, FleetQuestion(region="eu-west", state="draining")).regions
    assert [text for _, text in chosen] == ["eu-west (0)", "us (1)"]


def test_a_region_keeps_its_place_on_the_map_and_has_its_worst_clusters_first():
    areas = fleet_page(MIXED, FleetQuestion()).areas
    assert [(each.title, each.summary) for each in areas] == [
        ("eu-west · aws", "1 cluster: 1 ready"),
        ("us · gcp", "2 clusters: 1 tainted, 1 draining"),
        ("No region, no provider", "1 cluster: 1 not ready"),
    ]
    assert [(each.cluster.name, each.look) for area in areas for each in area.squares] == [
        ("a", "l2"), ("b", "warn"), ("d", "busy"), ("c", "bad"),
    ]  # fmt: skip
    assert areas[0].squares[0].title == "a: ready; CPU 12 %, Memory 50 %, Pods 50 %"


def test_the_clusters_to_look_at_have_damage_first_and_planned_work_last():
    gone = [fleet_cluster(f"gone-{number}", deleting=True) for number in range(ATTENTION)]
    lost = [fleet_cluster("lost-1", workloads=3, **LOST), fleet_cluster("lost-2", workloads=9, **LOST)]
    found = fleet_page(fleet_view(*gone, fleet_cluster("out", draining=True), *lost), FleetQuestion()).attention
    assert [each.cluster.name for each in found][:4] == ["lost-2", "lost-1", "out", "gone-0"]


@pytest.mark.parametrize("size", [10, LINKED, LINKED + 1, 5000])
def test_each_cluster_has_one_square_and_the_page_stays_small(page, size):
    fleet = large_fleet(size)
    areas = fleet_page(fleet, FleetQuestion()).areas
    linked = sum(len(each.squares) for each in areas)
    assert linked + sum(each.drawn for each in areas) == size
    assert (linked == size) == (size <= LINKED)
    for area in areas:
        covered = [square for _, outline in area.runs for square in squares_of(outline)]
        assert sorted(covered) == [divmod(each, 50) for each in range(area.drawn)]
    assert len(page("/fleet", fleet=fleet)[0].data) < 100_000


def squares_of(path):
    """The squares that an outline covers: row and column."""
    for x, y, width, height in re.findall(r"M(\d+) (\d+)h(\d+)v(\d+)", path):
        for row in range(int(y) // 10, (int(y) + int(height)) // 10):
            yield from ((row, column) for column in range(int(x) // 10, (int(x) + int(width)) // 10))


def test_a_page_of_the_table_has_a_bound(page):
    fleet = large_fleet(51)
    first, second = (fleet_page(fleet, FleetQuestion(view="table", page=page)) for page in (1, 2))
    assert (len(names(first)), first.paging) == (50, (1, 2, 1, 50, 51, 51))
    assert (len(names(second)), second.paging) == (1, (2, 2, 51, 51, 51, 51))
    assert names(fleet_page(fleet, FleetQuestion(view="table", page=99))) == names(second)
    assert len(page("/fleet?view=table", fleet=fleet)[0].data) < 100_000


def test_a_column_that_says_the_same_in_each_row_is_one_line(page):
    one_region = fleet_view(fleet_cluster("a"), fleet_cluster("b", taints=TAINTED))
    assert set(fleet_page(one_region, FleetQuestion(view="table")).same) == {
        "Region", "Provider", "Version", "Other resources",
    }  # fmt: skip
    text = page("/fleet?view=table", fleet=one_region)[0].text
    assert "The same for all: region eu-west; provider aws;" in text
    assert ('data-label="Region"' in text, 'data-label="Taints"' in text) == (False, True)
    assert fleet_page(fleet_view(fleet_cluster("a")), FleetQuestion(view="table")).same == {}


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
    assert page("/fleet/z", fleet=MIXED)[0].status_code == 404


def test_numbers_of_workloads_are_left_out_for_visitors_of_some_namespaces():
    page = fleet_page(MIXED, FleetQuestion(view="table"), counted=False)
    assert not page.counted
    assert {tile.counts + tile.choices + tile.movements for tile in page.rows} == {""}


def test_a_visitor_of_some_namespaces_sees_no_numbers_of_workloads_of_a_cluster():
    source = GivenSource(fleet=MIXED, workloads=listed_workloads())
    shown = [console_client(source, namespaces=each).get("/fleet/a").text for each in (None, frozenset({"shop"}))]
    assert ["<dt>Workloads</dt>" in text for text in shown] == [True, False]


def test_the_map_is_drawn_once_for_each_version_of_the_fleet(page):
    before = page("/fleet", fleet=MIXED)[0].text
    assert page("/fleet", fleet=MIXED)[0].text == before
    after = page("/fleet", fleet=fleet_view(fleet_cluster("new")))[0].text
    assert ('href="/fleet/new"' in before, 'href="/fleet/new"' in after) == (False, True)
    assert 'href="/fleet/a"' not in page("/fleet?q=b", fleet=MIXED)[0].text


def test_the_page_starts_with_how_many_workloads_are_not_as_they_should_be(page):
    found = listed_workloads(total=400, matched=400, only={"nowhere": 3, "moving": 1, "short": 0})
    text = page("/fleet", fleet=fleet_view(fleet_cluster("a")), workloads=found)[0].text
    figures = re.findall(r'<a class="figure (\w*)" href="([^"]+)"><strong>([\d,]+)</strong> <span>([^<]+)', text)
    assert figures[:3] == [
        ("", "/workloads", "400", "workloads"),
        ("bad", "/workloads?only=nowhere", "3", "nowhere"),
        ("", "/workloads?only=moving", "1", "moving"),
    ]
