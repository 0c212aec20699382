"""Filters stand in the address, the back button returns to them, and everything works by keyboard."""

import re

import console_fleet
from playwright.sync_api import expect

TEAM = console_fleet.TEAMS[0]


def names(page):
    """The names of the workloads in the table, once all of the page has arrived."""
    page.wait_for_load_state()
    return page.locator("main table tbody th[scope=row]").all_inner_texts()


def test_the_back_button_returns_to_the_filtered_list(visit):
    page = visit("/workloads")
    page.get_by_role("combobox", name="Namespace").fill(TEAM)
    page.get_by_label("not in its preferred group").check()
    page.get_by_role("button", name="Show").click()
    expect(page).to_have_url(re.compile(rf"namespace={TEAM}.*only=not-preferred"))
    listed = names(page)
    assert listed
    page.get_by_role("link", name="gateway-12", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("gateway-12")
    page.go_back()
    expect(page.get_by_role("combobox", name="Namespace")).to_have_value(TEAM)
    expect(page.get_by_label("not in its preferred group")).to_be_checked()
    assert names(page) == listed


def with_keys(visit):
    """Switch single keys on, as a visitor does; return the page Help."""
    page = visit("/help")
    page.keyboard.type("gw")
    expect(page.get_by_role("heading", level=1)).to_have_text("Help")
    page.get_by_role("button", name="Switch single keys on").click()
    expect(page.get_by_role("button", name="Switch single keys off")).to_be_visible()
    return page


def test_everything_is_found_from_everywhere(visit):
    page = visit("/moves")
    page.keyboard.press("Control+k")
    page.keyboard.type("oslo")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Search")
    visit.accessible(page)
    page.get_by_role("main").get_by_role("link", name=re.compile("oslo")).first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("oslo")
    page.get_by_role("searchbox", name="Find").fill("gateway-12")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Search")
    page.get_by_role("main").get_by_role("link", name=re.compile("gateway-12")).first.click()
    expect(page).to_have_url(re.compile("/workloads/.*gateway-12"))
    page.get_by_role("searchbox", name="Find").fill("resil")
    page.keyboard.press("Enter")
    expect(page.get_by_role("main").get_by_role("link", name="Resilience")).to_be_visible()


def test_a_visitor_gets_everywhere_by_keyboard(visit):
    page = with_keys(visit)
    visit.open(page, "/fleet")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    page.keyboard.type("gw")
    expect(page.get_by_role("heading", level=1)).to_have_text("Workloads")
    page.wait_for_load_state()  # from here on keys are heard
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Search")).to_be_focused()
    page.keyboard.type("gateway-12")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("q=gateway-12"))
    page.wait_for_load_state()
    link = page.get_by_role("link", name="gateway-12", exact=True)
    for _ in range(80):
        page.keyboard.press("Tab")
        if link.evaluate("each => each === document.activeElement"):
            break
    outline = link.evaluate("each => getComputedStyle(each).outlineStyle")
    assert outline != "none", "the focus is not visible"
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("gateway-12")
    page.wait_for_load_state()
    page.keyboard.press("?")
    expect(page.get_by_role("heading", level=1)).to_have_text("Help")


def test_pages_turn_by_keys(visit):
    page = with_keys(visit)
    visit.open(page, "/workloads")
    page.keyboard.press("n")
    expect(page).to_have_url(re.compile("page=2"))
    page.wait_for_load_state()
    page.keyboard.press("p")
    expect(page).to_have_url(re.compile("page=1"))
