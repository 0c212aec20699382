"""The page History in a browser: what moved since yesterday, here, and why."""

from playwright.sync_api import expect


def rows(page):
    return page.get_by_role("table", name="Records, the latest first").locator("tbody tr")


def test_what_moved_on_a_cluster_and_by_a_policy(visit):
    page = visit("/fleet/recorded-spare")
    page.get_by_role("link", name="What moved here?").click()
    expect(rows(page)).to_have_count(1)
    expect(rows(page)).to_contain_text("- recorded-home-1, + recorded-spare (60)")
    visit.open(page, "/policies/shop/checkout")
    page.get_by_role("link", name="What moved by it?").click()
    expect(rows(page)).to_have_count(2)
    page.get_by_label("Time").select_option("1h")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_text("Nothing moved.")).to_be_visible()
    page.get_by_label("From (UTC)").fill("2020-01-01T00:00")
    page.get_by_role("button", name="Show").click()
    expect(rows(page)).to_have_count(2)
    visit.accessible(page)
    page.get_by_role("link", name="Open 1.2").click()
    expect(page.get_by_role("main")).to_contain_text("What changed since decision 1.1")
