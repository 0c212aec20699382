"""Names and texts with markup, control characters and no end are data on every page."""

import console_fleet
import pytest
from playwright.sync_api import expect

MARKUP = console_fleet.HOSTILE[0]
ADDRESSES = {
    "fleet as tiles": "/fleet",
    "fleet as a table": "/fleet?view=table",
    "workloads": "/workloads?namespace=hostile",
    "policies": "/policies",
    "resilience": "/resilience?by=region",
    "what if": "/what-if",
}


@pytest.mark.parametrize("title", ADDRESSES)
def test_a_page_shows_hostile_names_as_text(visit, title):
    page = visit(ADDRESSES[title])
    assert not page.locator("main script, main img").count(), "markup of a name became an element"
    text = page.inner_html("main")
    assert "\x07" not in text
    assert "\u202e" not in text, "text that runs from right to left would turn what follows"
    assert "{{" not in text or "49" not in page.inner_text("main").partition("{{")[0][-5:]


def test_a_workload_with_a_hostile_name_has_a_page(visit):
    page = visit("/workloads?namespace=hostile")
    links = page.locator("main table tbody th[scope=row] a")
    expect(links.first).to_be_visible()
    addresses = [each.get_attribute("href") for each in links.all()]
    assert len(addresses) >= 4
    for address in addresses:
        visit.open(page, address)
        assert not page.locator("main script, main img").count()


@pytest.mark.parametrize("text", console_fleet.HOSTILE[:2])
@pytest.mark.parametrize("address", ["/workloads?q={}", "/fleet?q={}", "/workloads?cluster={}", "/policies?q={}"])
def test_a_hostile_search_is_shown_as_text(visit, address, text):
    page = visit.page()
    page.goto(visit.origin + address.format(text.replace(" ", "+").replace("'", "%27")))
    assert not page.locator("main script, main img").count()


def test_names_of_253_characters_fit_a_phone(narrow):
    page = narrow.page()
    for address in ("/fleet", "/fleet?view=table", "/workloads?namespace=hostile", "/policies"):
        narrow.open(page, address)
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{address} is {wide} px wider than the screen"
