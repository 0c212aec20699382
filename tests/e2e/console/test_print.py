"""A printed page has everything that the screen has: all rows of its tables, the map, times of the visitor."""

import re

import pytest
from e2e.console.printed import text_of
from e2e.console.visits import start_visits
from playwright.sync_api import expect

ADDRESSES = ("/fleet?view=table", "/workloads", "/moves", "/policies", "/drift", "/history?range=all")
_NAMES = """() => [...document.querySelectorAll("main tbody th[scope=row]")].map((each) => {
    const name = each.cloneNode(true);
    name.querySelectorAll("details").forEach((each) => each.remove());  // closed on paper
    return name.textContent.trim();
})"""
_CUT = """() => [...document.querySelectorAll("main *")]
    .filter((each) => /auto|scroll|hidden/.test(getComputedStyle(each).overflowY)
        && each.scrollHeight > each.clientHeight + 1 && each.clientHeight > 1)
    .map((each) => each.className || each.tagName)"""
"""The boxes that cut what they contain."""


def squeezed(text):
    return re.sub(r"\s", "", text)


def printed(page):
    return "".join(text_of(page.pdf(format="A4", landscape=True, print_background=False)))


@pytest.mark.parametrize("address", ADDRESSES)
def test_all_rows_of_a_page_are_printed(visit, address):
    page = visit(address)
    names = page.evaluate(_NAMES)
    assert names
    text = printed(page)
    assert [each for each in names if squeezed(each) not in text] == []
    for control in ("Skiptothecontent", "Clear", "CSV"):
        assert control not in text, f"{control} is of no use on paper"
    page.emulate_media(media="print")
    assert page.evaluate(_CUT) == []


def test_the_problems_and_the_summary_of_each_region_are_printed(visit):
    page = visit("/fleet")
    shown = [*page.locator(".subject").all_inner_texts(), *page.locator(".map section p").all_inner_texts()]
    text = printed(page)
    assert len(shown) > 8
    assert [each for each in shown if squeezed(each) not in text] == []


def test_the_squares_of_the_map_keep_their_colors_on_paper(visit):
    page = visit("/fleet")
    page.emulate_media(media="print")
    square = page.locator(".squares a").first
    assert square.evaluate("each => getComputedStyle(each).printColorAdjust") == "exact"
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"


def test_paper_and_a_screen_without_a_mouse_have_the_time_of_the_visitor(browser, console, axe):
    tokyo = {"timezone_id": "Asia/Tokyo", "locale": "en-GB"}
    with start_visits(browser, console.url, axe, has_touch=True, is_mobile=True, **tokyo) as visits:
        page = visits("/moves")
        expect(page.locator("main time").first).to_have_attribute("title", re.compile("local$"))
        content = page.locator("main time").first.evaluate("each => getComputedStyle(each, '::after').content")
        assert re.search(r"UTC · .* local", content), content
        assert re.search(r"UTC·.*local", printed(page))


@pytest.mark.parametrize("address", ADDRESSES)
def test_the_screen_has_one_scrollbar(visit, address):
    assert visit(address).evaluate(_CUT) == []
