"""Names and texts with markup, control characters and no end are data on every page."""

import console_fleet
import pytest

MARKUP = console_fleet.HOSTILE[0]
ADDRESSES = {
    "fleet as a map": "/fleet",
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


def test_a_hostile_search_is_shown_as_text(visit):
    page = visit.page()
    for address in ("/workloads?q={}", "/fleet?q={}", "/workloads?cluster={}", "/policies?q={}", "/no-such-page?{}"):
        for text in (MARKUP, "%22'><img src=x onerror=alert(1)>"):
            page.goto(visit.origin + address.format(text))
            assert not page.locator("main script, main img").count(), address
