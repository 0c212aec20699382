"""The pages Fleet, Workloads and Workload in a browser: filters, order, a live change, a phone, hostile names."""

import re
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from console_fleet import TEAMS
from console_ledger import ADDRESS, AUTHOR
from e2e.console.visits import NARROW
from playwright.sync_api import expect

WORKLOADS = ".table tbody tr"


def parameters(page):
    return parse_qs(urlsplit(page.url).query, keep_blank_values=False)


def show(page):
    with page.expect_navigation():
        page.get_by_role("button", name="Show").click()


def fits(page):
    """Whether the page is not wider than the screen. Tables scroll inside their box."""
    return page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_workloads_are_searched_sorted_and_paged(visit):
    page = visit("/workloads")
    page.get_by_role("searchbox", name="Search").focus()
    page.keyboard.type("web shop")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert parameters(page) == {"q": ["web shop"], "parts": ["1"]}
    assert {"shop" in text and "web" in text for text in page.locator(WORKLOADS).all_inner_texts()} == {True}
    page = visit("/workloads")
    page.get_by_role("columnheader", name="Replicas").get_by_role("link").click()
    first = page.locator(WORKLOADS).first.inner_text()
    with page.expect_navigation():
        page.get_by_role("link", name="Next").first.click()
    assert parameters(page) == {"sort": ["replicas"], "page": ["2"]}
    assert page.locator(WORKLOADS).first.inner_text() != first


@pytest.mark.parametrize("written", ["shop/web-8", "deploy/web-8 -n shop", "-n shop web-8", "shop/deployments/web-8"])
def test_a_workload_is_found_as_people_write_it(visit, written):
    page = visit("/")
    page.keyboard.press("Control+k")
    page.keyboard.type(written)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Workloads: ")).not_to_have_text("Workloads: 0")
    hit = page.get_by_role("link", name="shop/web-8", exact=True)
    expect(hit).to_be_visible()
    hit.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("web-8")
    visit.open(page, f"/workloads?parts=1&q={quote(written)}")
    expect(page.get_by_role("link", name="web-8", exact=True)).to_be_visible()


def test_history_is_filtered_by_workload_reason_and_person(visit):
    page = visit("/history?range=all")
    page.get_by_role("searchbox", name="Workload").fill("deploy/checkout -n shop")
    page.get_by_role("combobox", name="Why").select_option("Scale")
    show(page)
    rows = page.locator(WORKLOADS)
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text(re.compile(r"- recorded-home-1 \(\d\)"))
    expect(page.locator(".command")).to_contain_text("berthmaster history Deployment/checkout -n shop --trigger Scale")
    visit.open(page, "/history?range=all")
    page.get_by_label("Person").fill(AUTHOR)
    show(page)
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("plan-accepted")


def test_the_colors_are_those_that_the_visitor_chose(visit):
    page = visit("/help")
    switch = page.get_by_role("button", name="Colors: system")
    switch.click()
    scheme = "getComputedStyle(document.documentElement).colorScheme"
    assert page.evaluate(scheme) == "light"
    page.get_by_role("button", name="Colors: light").click()
    assert page.evaluate(scheme) == "dark"
    visit.open(page, "/fleet")
    assert page.evaluate(scheme) == "dark", "the choice lasts"


def test_a_workload_shows_its_manifests_without_confidential_parts(visit):
    page = visit(f"/workloads/{TEAMS[0]}/gateway-12-deployment")
    page.get_by_role("link", name="Show the workload and its binding in YAML").click()
    expect(page.get_by_label("The binding in YAML")).to_contain_text("kind: ResourceBinding")
    expect(page.get_by_label("The workload in YAML")).to_contain_text("kind: Deployment")
    expect(page.get_by_label("The workload in YAML")).not_to_contain_text("image:")


def test_the_page_of_a_workload_asks_once_for_the_state_and_otherwise_only_the_ledger(visit, console):
    address, loads = f"/workloads/{TEAMS[0]}/api-9-deployment", []  # no other test opens it
    page = visit.page()
    page.on("request", lambda request: loads.append(request.url) if request.url.endswith(address) else None)
    before = console.asked()
    visit.open(page, address)
    page.wait_for_timeout(1500)  # a page is loaded again soon after a change of the state
    page.close()
    asked = console.asked() - before
    assert asked.pop("/v1/bindings/{namespace}/{name}/overview") == len(loads)
    assert set(asked) == {"/v1/history"}, "decisions on the workload, and plans of its policy"


def test_pages_of_hostile_workloads_show_their_names_as_text(narrow):
    page = narrow.page()
    page.set_viewport_size(NARROW)
    narrow.open(page, "/workloads?namespace=hostile")
    links = page.locator(f"{WORKLOADS} th a")
    addresses = [each.get_attribute("href") for each in links.all()]
    assert len(addresses) >= 4
    for address in addresses:
        narrow.open(page, address)
        expect(page.locator(".answers")).to_contain_text("It is assigned to")
        assert fits(page), address


def test_a_recorded_decision_is_shown_as_it_was(visit):
    page = visit(ADDRESS)
    expect(page.locator(".answers")).to_contain_text("It is in the group spare, the second of 2")
    expect(page.locator(".answers")).to_contain_text(
        "60 replicas must be assigned, but the 2 selected clusters hold 32"
    )
    page.get_by_role("link", name="Open 1.1").click()
    expect(page.locator(".past")).to_contain_text("This is the decision 1.1, as it was")
    assert parameters(page)["record"] == ["1.1"]
    expect(page.locator(".answers")).to_contain_text("It went to recorded-home-1 (6).")
    page.get_by_role("link", name="Open 1.2").click()
    expect(page.get_by_role("heading", name="What changed since decision 1.1")).to_be_visible()
    expect(page.get_by_role("row", name="binding replicas 6 60")).to_contain_text("made the difference")
    visit.accessible(page)
    page.get_by_label("Cluster", exact=True).fill("recorded-home-1")
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_role("heading", name="The smallest change that helps")).to_be_visible()
    assert parameters(page)["record"] == ["1.2"]
    page.get_by_role("link", name="Show the present").click()
    expect(page.locator(".past")).to_have_count(0)
