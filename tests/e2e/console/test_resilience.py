"""The page Resilience in a browser: each kind of failure, the picture, the way to What if, and the progress."""

import pytest
from playwright.sync_api import expect

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
