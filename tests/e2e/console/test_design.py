"""How pages look: the map, headers and tabs that stay in view, marked changes, times, small screens."""

import re

import pytest
from e2e.console.visits import start_visits
from karmada_plane import cluster
from playwright.sync_api import expect

from console.pages.registry import PAGES

TITLES = [page.title for page in PAGES]
_IN_VIEW = """each => { const box = each.getBoundingClientRect();
    return box.top >= 0 && box.left >= 0 && box.right <= innerWidth && box.bottom <= innerHeight; }"""


def test_the_map_has_a_square_of_24_pixels_for_each_cluster(visit):
    page = visit("/fleet")
    squares = page.locator(".squares a")
    promised = page.locator("div.figure", has_text="clusters").locator("strong").inner_text()
    assert squares.count() == int(promised)
    box = squares.first.bounding_box()
    assert (box["width"], box["height"]) == (24, 24)
    visit.open(page, "/fleet?q=-0")  # regions with names of usual length
    assert squares.count() > 30
    squares.get_by_text("berlin-02", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("berlin-02")


def test_the_header_of_a_table_stays_in_view(visit):
    page = visit.page()
    page.set_viewport_size({"width": 1440, "height": 900})
    visit.open(page, "/workloads")
    last = page.locator("main table tbody tr").last
    last.scroll_into_view_if_needed()
    expect(last).to_be_in_viewport()
    assert page.evaluate("scrollY") > 0, "the page scrolls, and no box inside it"
    assert page.get_by_role("columnheader", name="Workload", exact=True).evaluate(_IN_VIEW)


@pytest.mark.parametrize("title", TITLES)
def test_the_current_tab_is_in_view_on_a_phone(narrow, title):
    page = narrow.page()
    narrow.open(page, "/")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name=title, exact=True).click()
    current = page.locator(".top nav [aria-current]")
    expect(current).to_have_text(title)
    page.wait_for_function(f"({_IN_VIEW})(document.querySelector('.top nav [aria-current]'))")


def test_a_change_is_marked_for_some_seconds(visit, console):
    console.put(cluster("marked-change-1"))
    page = visit("/fleet?view=table&q=marked-change")
    marked = page.locator("[data-changed]")
    row = page.locator("#cluster-marked-change-1")
    expect(row).to_be_visible()
    expect(marked).to_have_count(0)  # a row that was not in the page at first is marked as a whole
    lost = cluster("marked-change-1")
    lost["status"]["conditions"][0]["status"] = "False"
    console.put(lost)
    expect(row.locator("td[data-changed]").first).to_contain_text("not ready")
    assert row.locator("th[data-changed]").count() == 0, "the name did not change"
    expect(marked).to_have_count(0)
    console.put(cluster("marked-change-2"))
    expect(page.locator("#cluster-marked-change-2 [data-changed]").first).to_be_visible()


def test_times_are_also_those_of_the_visitor(browser, console, axe):
    with start_visits(browser, console.url, axe, timezone_id="Asia/Tokyo", locale="en-GB") as visits:
        page = visits("/moves")
        title = page.locator("main time").first.get_attribute("title")
        utc, local = re.fullmatch(r"[\d-]+ (\d\d):[\d:]+ UTC · .* (\d\d):[\d:]+ local", title).groups()
        assert (int(utc) + 9) % 24 == int(local)
        expect(page.locator(".bottom time")).to_have_attribute("data-local", re.compile(r"^\d"))
