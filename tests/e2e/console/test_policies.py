"""The pages of policies in a browser: filters, one policy, and hostile names."""

import re

from playwright.sync_api import expect


def rows(page):
    return page.get_by_role("table", name="Policies").locator("tbody tr")


def test_filters_lead_to_a_policy_and_to_its_workloads(visit):
    page = visit("/policies")
    page.get_by_label("Policy", exact=True).fill("shop")
    page.get_by_label("Kind").select_option("PropagationPolicy")
    page.get_by_role("button", name="Show").click()
    expect(rows(page).first).to_contain_text("shop/")
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
