"""The page Resilience in a browser: each kind of failure, the picture, the way to What if, and the progress."""

import pytest
from e2e.console.visits import start_visits
from playwright.sync_api import expect

SIMULATES = """
from datetime import UTC, datetime, timedelta
from berthmaster.native_api.wire import Progress
from console.source import SourceError, VisibleSource
begun = datetime.now(UTC) - timedelta(minutes=2)
def simulates(*_, **__):
    raise SourceError("", 503, progress=Progress("the loss of each cluster", begun, 3, 1000))
VisibleSource.resilience = simulates"""

FITS = """each => each.scrollWidth <= each.clientWidth && [...each.querySelectorAll("text")].every(
    (text) => text.getBoundingClientRect().right <= text.ownerSVGElement.getBoundingClientRect().right)"""


@pytest.mark.parametrize("domain", ["Regions", "Providers", "Zones", "Clusters"])
def test_each_kind_of_failure_has_a_picture_and_a_table(visit, domain):
    # The first visit may find that the failures are being simulated. The page then asks again by itself.
    page = visit.page()
    page.goto(f"{visit.origin}/resilience?by={domain[:-1].lower()}")
    expect(page.get_by_role("img", name="Where failover puts replicas if a failure occurs")).to_be_visible()
    assert page.locator(".picture").evaluate(FITS)
    table = page.get_by_role("table", name="Failures, the worst first")
    expect(table.get_by_role("columnheader", name=domain[:-1], exact=True)).to_be_visible()
    expect(table.get_by_role("row")).not_to_have_count(1)
    expect(page.get_by_role("link", name=domain)).to_have_attribute("aria-current", "page")


def test_a_failure_leads_to_its_plan(visit):
    page = visit.page()
    page.goto(f"{visit.origin}/resilience?by=region")
    expect(page.get_by_role("img")).to_be_visible()
    visit.accessible(page)
    page.get_by_role("link", name="What if berlin fails").click()
    expect(page.locator(".asked")).to_contain_text("clusters fail: berlin-01")
    expect(page.locator(".headline")).to_be_visible()


def test_the_progress_of_a_simulation_is_shown(browser, console, axe):
    visits = start_visits(browser, console.start_console(first=SIMULATES), axe)
    page = visits("/resilience?by=cluster")
    expect(page.get_by_role("progressbar")).to_have_attribute("value", "3")
    expect(page.get_by_role("status").last).to_contain_text("3 of 1,000 are done.")
    visits.accessible(page)
    page.get_by_role("link", name="Zones").click()
    expect(page.get_by_role("link", name="Zones")).to_have_attribute("aria-current", "page")
    visits.check()
    visits.context.close()
