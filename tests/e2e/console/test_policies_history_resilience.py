"""The pages of policies, History and Resilience in a browser."""

import re

import pytest
from playwright.sync_api import expect

FITS = """each => each.scrollWidth <= each.clientWidth && [...each.querySelectorAll("text")].every(
    (text) => text.getBoundingClientRect().right <= text.ownerSVGElement.getBoundingClientRect().right)"""
RECORDS = "Records, the latest first"


def rows(page, table):
    return page.get_by_role("table", name=table).locator("tbody tr")


def test_filters_lead_to_a_policy_and_to_its_workloads(visit):
    page = visit("/policies")
    page.get_by_label("Policy", exact=True).fill("shop")
    page.get_by_label("Kind").select_option("PropagationPolicy")
    page.get_by_role("button", name="Show").click()
    expect(rows(page, "Policies").first).to_contain_text("shop/")
    page.get_by_role("link", name="shop/everyday").click()
    expect(page).to_have_url(re.compile("/policies/shop/everyday$"))
    expect(page.get_by_role("heading", level=1)).to_have_text("shop/everyday")
    allowed = page.get_by_role("table", name="What it allows").locator("tbody tr")
    expect(allowed.first).to_contain_text(re.compile(r"home.*Clusters with region=", re.DOTALL))
    expect(allowed).to_have_count(3)
    page.get_by_text("The policy in YAML").click()
    expect(page.get_by_label("The policy in YAML")).to_contain_text("clusterAffinities:")
    visit.accessible(page)
    page.get_by_role("link", name="What if it is deleted?").click()
    expect(page.locator(".asked")).to_contain_text("1 policy is deleted: shop/PropagationPolicy/everyday")
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("shop/everyday")


def test_what_moved_on_a_cluster_and_by_a_policy(visit):
    page = visit("/fleet/recorded-spare")
    page.get_by_role("link", name="What moved here?").click()
    expect(rows(page, RECORDS)).to_have_count(1)
    expect(rows(page, RECORDS)).to_contain_text("- recorded-home-1 (6), + recorded-spare (60)")
    visit.open(page, "/policies/shop/checkout")
    page.get_by_role("link", name="What moved by it?").click()
    expect(rows(page, RECORDS)).to_have_count(2)
    page.get_by_label("Time").select_option("1h")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_text("Nothing moved.")).to_be_visible()
    page.get_by_label("From (UTC)").fill("2020-01-01T00:00")
    page.get_by_role("button", name="Show").click()
    expect(rows(page, RECORDS)).to_have_count(2)
    visit.accessible(page)
    page.get_by_role("link", name="Open 1.2").click()
    expect(page.get_by_role("main")).to_contain_text("What changed since decision 1.1")


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
