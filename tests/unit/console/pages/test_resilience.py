"""The page Resilience: failures, the worst first, as a picture and as a table."""

import re

import pytest
from console_answers import HOSTILE, impact, resilience_view
from console_source import GivenSource, console_client, refused_question

from berthmaster.simulation.plan_answer import Switch
from console.pages.resilience import ROWS, hurt, question_of
from console.pages.resilience_picture import PICTURE, picture_of
from console.question import WhatIfQuestion, decoded


def test_a_failure_says_what_happens_and_leads_to_what_if():
    harm = impact(
        "north", ["a"], nowhere=["shop/Deployment/web"], staying=["shop/Deployment/web", "bank/DaemonSet/log"],
        moved=2, stopping=2, stopped=9, arriving={"b": 3, "c": 6}, overcommitted={"b": ["cpu", "memory"]},
    )  # fmt: skip
    text = console_client(GivenSource(resilience=resilience_view(harm))).get("/resilience").text
    assert "<div>b (cpu, memory)</div>" in text
    assert text.index("c</code> 6") < text.index("b</code> 3")
    workloads, *more = hurt(harm)
    assert workloads == [("shop/Deployment/web", "runs nowhere"), ("bank/DaemonSet/log", "stays on a lost cluster")]
    assert more == [0, True]
    assert decoded(question_of(harm)) == WhatIfQuestion(lose=("a",), failover=Switch.ON)


def test_counts_are_about_everything_and_names_about_what_the_visitor_may_see():
    workloads, *more = hurt(impact("north", ["a"], nowhere=["shop/Deployment/y"], totals=(0, 700, 0, 0)))
    assert [name for name, _ in workloads] == ["shop/Deployment/y"]
    assert more == [699, False]


def test_clusters_that_get_replicas_and_are_not_listed_are_counted():
    source = GivenSource(resilience=resilience_view(impact("north", ["a"], arriving={f"c{n}": 1 for n in range(7)})))
    assert "and 2 more" in console_client(source).get("/resilience").get_data(as_text=True)


def test_the_question_about_a_large_failure_names_the_region():
    assert decoded(question_of(impact("north", [f"c{n}" for n in range(101)]))).lose == ("region=north",)


def test_the_picture_is_bounded_and_shows_the_clusters_that_matter():
    clusters = [f"c{number:04}" for number in range(900)]
    impacts = [impact(f"r{n}", ["c0899"], arriving=dict.fromkeys(clusters[:800], 1)) for n in range(PICTURE[0] + 9)]
    picture = picture_of(resilience_view(*impacts, clusters=clusters, failures=400), "zone")
    assert picture.count("rotate(") == PICTURE[1]
    assert ">c0899<" in picture
    hidden = f"{400 - PICTURE[0]} less severe failures are not shown; {900 - PICTURE[1]} clusters are not shown"
    assert hidden in picture
    assert "style" not in picture


def test_the_picture_of_regions_has_a_column_for_each_region():
    over = {"s1": ["cpu"], "s2": ["cpu"]}
    north = impact("north", ["n1", "n2"], arriving={"s1": 3, "s2": 4, "x": 1}, overcommitted=over)
    south = impact("south", ["s1", "s2"], arriving={"n1": 2})
    picture = picture_of(resilience_view(north, south, clusters=["n1", "n2", "s1", "s2", "x"]), "region")
    assert re.findall(r"rotate.*?>([^<]+)<", picture) == ["north", "others", "south"]
    assert "region north: south gets 7 replicas, more cpu than is free" in picture
    assert "region north: others gets 1 replica" in picture
    assert "Columns: the regions that get replicas by failover" in picture


def test_a_long_table_has_parts():
    view = resilience_view(*(impact(f"r{number}", ["a"]) for number in range(ROWS + 2)))
    page = console_client(GivenSource(resilience=view)).get("/resilience?page=2").text
    assert re.findall(r'id="failure-(\d+)"', page) == ["16", "17"]
    assert re.findall(r"What if (r\d+) fails", page) == ["r15", "r16"]
    assert "16–17 of 17" in page


def test_the_page_shows_figures_picture_and_table():
    source = GivenSource(
        resilience=resilience_view(impact(HOSTILE, ["a"], nowhere=["shop/Deployment/web"]), impact("south", ["b"]))
    )
    page = console_client(source).get("/resilience?by=provider").get_data(as_text=True)
    assert source.asked == [
        ("resilience", (("provider",),), {"limit": 1000, "namespaces": None, "failover": Switch.AUTO, "stale": True})
    ]
    assert 'aria-current="page">Providers' in page
    assert '<svg xmlns="http://www.w3.org/2000/svg" class="heat"' in page
    assert "outage" in page
    assert "no harm" in page
    assert 'href="/workloads/shop/web-deployment"' in page
    assert "<script>alert" not in page
    assert re.search(r"Computed .*\d", page)


def test_a_simulation_that_is_too_large_is_an_error_that_does_not_ask_again():
    source = GivenSource(resilience=refused_question("the simulation takes longer than 300 s", 503))
    answer = console_client(source).get("/resilience?by=cluster")
    assert (answer.status_code, "Refresh" in answer.headers) == (503, False)
    assert "The simulation takes longer than 300 s" in answer.text


def test_a_fleet_without_regions_says_so():
    page = console_client(GivenSource(resilience=resilience_view())).get("/resilience").get_data(as_text=True)
    assert "No cluster reports a region" in page
    assert "svg" not in page.partition("<main")[2].partition("</main>")[0]


@pytest.mark.parametrize("by", ["region", "cluster"])
def test_the_page_of_a_large_fleet_stays_small(by):
    names = [f"eu-west-1-{number:04}" for number in range(5000)]
    impacts = [
        impact(
            name, [name], nowhere=[f"team-{each}/Deployment/checkout-{each}" for each in range(8)], moved=200,
            arriving={names[(number * 7 + each) % 5000]: each + 1 for each in range(40)},
            overcommitted={names[(number + each) % 5000]: ["cpu", "memory"] for each in range(3)},
        )
        for number, name in enumerate(names[:1000])
    ]  # fmt: skip
    source = GivenSource(resilience=resilience_view(*impacts, clusters=tuple(names), failures=5000))
    assert len(console_client(source).get(f"/resilience?by={by}").data) < 100_000
