"""What holds on every page: it is accessible, fits a phone, uses nothing from elsewhere, and needs no script."""

import console_fleet
import console_ledger
import pytest
from e2e.console.visits import NARROW, start_visits
from playwright.sync_api import expect
from tables import cases

from console.pages.registry import PAGES

TITLES = [page.title for page in PAGES]
MORE = {
    "search": "/search?q=web",
    "clusters as a table": "/fleet?view=table",
    "workloads that move": "/workloads?only=moving",
    "nothing found": "/workloads?q=there-is-no-such-workload",
    "workload nowhere": f"/workloads/{console_fleet.TEAMS[0]}/importer-5-deployment",
    "a policy": "/policies/shop/critical",
    "a policy of all namespaces": "/policies/-/platform",
    "a workload that moves": f"/workloads/{console_fleet.TEAMS[0]}/mailer-78-deployment",
    "an answer about a region": "/what-if?lose=region=eu-west-1",
    "a workload that left its group": console_ledger.ADDRESS,
    "cluster-scoped workload": "/workloads/-/viewer-clusterrole",
}
SMALLEST = {"width": 320, "height": 640}
SCRIPT_LIMIT_BYTES = 200_000
_OVERLAPPING_CELLS = """() => [...document.querySelectorAll(".table th, .table td")]
    .filter((cell) => cell.clientWidth > 1 && cell.scrollWidth > cell.clientWidth + 1)
    .map((cell) => cell.textContent.trim())"""
"""The texts of the cells of tables that are wider than their cell, and so lie over the next one."""

_PROSE = """() => {
    const main = document.querySelector("main").cloneNode(true);
    main.querySelectorAll(".commands").forEach((each) => each.remove());
    return main.textContent;
}"""
"""What a page says besides the commands that it shows."""

_SCROLLING_TABLES = """() => [...document.querySelectorAll(".table")]
    .filter((table) => table.scrollWidth > table.clientWidth + 1)
    .map((table) => table.getAttribute("aria-label"))"""
"""The names of the tables that scroll sideways."""


def addresses(visit):
    """The addresses of all pages, from the navigation."""
    page = visit("/")
    links = page.get_by_role("navigation", name="Pages").get_by_role("link")
    return {each.inner_text(): each.get_attribute("href") for each in links.all()}


@pytest.mark.parametrize("title", TITLES)
def test_a_page_of_the_navigation_is_accessible_in_both_schemes(visit, title):
    page = visit("/")
    navigation = page.get_by_role("navigation", name="Pages")
    navigation.get_by_role("link", name=title, exact=True).click()
    expect(navigation.get_by_role("link", name=title, exact=True)).to_have_attribute("aria-current", "page")
    if title == "Resilience":  # it reloads by itself until the failures are simulated
        expect(page.get_by_role("img")).to_be_visible()
    visit.accessible(page)


@pytest.mark.parametrize("title", MORE)
def test_another_page_is_accessible_in_both_schemes(visit, title):
    visit.accessible(visit(MORE[title]))


def test_every_page_fits_a_phone(narrow):
    page = narrow.page()
    for address in [*addresses(narrow).values(), *MORE.values(), "/fleet/berlin-02"]:
        page.set_viewport_size(NARROW)
        narrow.open(page, address)
        if "/resilience" in address:  # it reloads by itself until the failures are simulated
            expect(page.get_by_role("img")).to_be_visible()
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{address} is {wide} px wider than the screen"
        cells = page.evaluate(_OVERLAPPING_CELLS)
        assert not cells, f"{address}: cells overlap others: {cells[:3]}"
        tables = page.evaluate(_SCROLLING_TABLES)
        assert not tables, f"{address}: tables scroll sideways: {tables}"
        page.set_viewport_size(SMALLEST)
        assert page.evaluate("document.documentElement.scrollWidth") <= SMALLEST["width"], address


def test_a_phone_can_sort_workloads(narrow):
    page = narrow.page()
    narrow.open(page, "/workloads")
    page.get_by_role("link", name="Replicas", exact=True).click()
    expect(page.locator("th[aria-sort=ascending]")).to_have_text("Replicas ↑")


@pytest.mark.parametrize(
    ("address", "column"),
    [("/fleet?view=table", "CPU"), ("/moves", "Workload"), ("/policies", "Priority"), ("/drift", "Full repair")],
)
def test_a_list_is_sorted_by_its_headers(visit, address, column):
    page = visit(address)
    header = page.locator(".sorts").get_by_role("columnheader", name=column)
    for order in ("ascending", "descending"):
        header.get_by_role("link").click()
        expect(header).to_have_attribute("aria-sort", order)
    visit.accessible(page)


@cases(
    ("address", "status", "title"),
    {
        "an unknown page": ("/no-such-page", 404, "Not found"),
        "an unknown cluster": ("/fleet/no-such-cluster", 404, "Not found"),
        "a wrong parameter": ("/workloads?only=nothing", 400, "The address or the form has an error"),
        "a long address": (f"/workloads?q={'x' * 4096}", 414, "The address is too long"),
    },
)
def test_an_error_is_a_page_of_the_console(visit, address, status, title):
    page = visit(address, status=status)
    expect(page.get_by_role("heading", level=1)).to_have_text(title)
    visit.accessible(page)
    page.get_by_role("link", name="first page").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")


def test_hostile_names_and_searches_are_shown_as_text(visit):
    page = visit("/fleet?view=table")
    expect(page.get_by_role("main")).to_contain_text("{{ 7 * 7 }}%s{% raw %}")
    for text in (console_fleet.HOSTILE[0], "%22'><img src=x onerror=alert(1)>"):
        for address in ("/workloads?q={}", "/fleet?q={}", "/workloads?cluster={}", "/policies?q={}"):
            visit.open(page, address.format(text))
        visit.open(page, f"/no-such-page?{text}", status=404)


def test_every_page_works_without_scripts(browser, console, axe):
    with start_visits(browser, console.url, axe, java_script_enabled=False) as visits:
        page = visits.page()
        pages = ("/fleet?view=map", "/what-if", "/resilience", "/drift", "/moves", "/policies", "/help")
        for address in (*pages, *MORE.values()):
            visits.open(page, address)
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            assert " --" not in page.evaluate(_PROSE), f"{address}: a sentence names an option of a command"
        visits.open(page, "/workloads")
        page.get_by_role("searchbox", name="Search").fill("gateway-12")
        page.get_by_role("button", name="Show").click()
        expect(page.get_by_role("link", name="gateway-12", exact=True)).to_be_visible()
        assert not visits.problems


def test_all_scripts_together_are_small(visit):
    page = visit("/fleet")
    sizes = page.evaluate(
        "Promise.all([...document.scripts].map((each) => fetch(each.src).then((got) => got.text())))"
        ".then((texts) => texts.map((text) => text.length))"
    )
    assert len(sizes) == 2, "the console's own script and idiomorph"
    assert sum(sizes) <= SCRIPT_LIMIT_BYTES
