"""What holds on every page: it is accessible, fits a phone, uses nothing from elsewhere, and works by keyboard."""

import pytest
from playwright.sync_api import expect

from console.pages.registry import PAGES

TITLES = [page.title for page in PAGES]


def follow(page, title):
    page.get_by_role("navigation", name="Pages").get_by_role("link", name=title, exact=True).click()
    page.wait_for_load_state()


@pytest.mark.parametrize("title", TITLES)
def test_a_page_is_accessible_in_both_schemes(visit, title):
    page = visit("/")
    follow(page, title)
    expect(page.get_by_role("navigation", name="Pages").get_by_role("link", name=title)).to_have_attribute(
        "aria-current", "page"
    )
    if title == "Resilience":  # it reloads by itself until the failures are simulated
        expect(page.get_by_role("img")).to_be_visible()
    visit.accessible(page)
