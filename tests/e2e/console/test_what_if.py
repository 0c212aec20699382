"""The page What if in a browser: by form, by keyboard, by address, with wrong input, and on a phone."""

import re

from playwright.sync_api import expect
from tables import DATA

POLICY = (DATA / "everyday_policy.yaml").read_text()
MOVES = re.compile("workloads? moves?|Nothing")


def headline(page):
    return page.locator(".headline")


def test_clusters_are_lost_by_the_form_and_the_address_has_the_question(visit):
    page = visit("/what-if")
    page.get_by_text("eu-west-1 (").click()
    page.get_by_role("checkbox", name="eu-west-1-01").check()
    page.get_by_role("checkbox", name="eu-west-1-02").check()
    page.get_by_role("button", name="Show what moves").click()
    expect(headline(page)).to_contain_text(MOVES)
    expect(page.locator(".asked")).to_contain_text("2 clusters fail: eu-west-1-01, eu-west-1-02")
    expect(page.locator("svg.flows")).to_be_visible()
    expect(page.get_by_role("checkbox", name="eu-west-1-02")).to_be_checked()
    expect(page.get_by_role("heading", name="Due without the change, too")).to_be_visible()
    visit.accessible(page)

    colleague = visit.page()
    colleague.goto(page.url)
    assert headline(colleague).inner_text() == headline(page).inner_text()

    page.get_by_text("The drawing as a table").click()
    expect(page.get_by_role("columnheader", name="Amount")).to_be_visible()
    page.get_by_role("link", name="Deployment").first.click()
    page.go_back()
    expect(headline(page)).to_contain_text(MOVES)
    page.go_back()
    expect(headline(page)).to_have_count(0)


def test_a_pasted_policy_is_planned_and_a_wrong_one_is_not_lost(visit):
    page = visit("/what-if")
    field = page.get_by_label("Policies as they would be applied, in YAML")
    field.fill(POLICY.replace("clusterNames", "clusterName"))
    page.get_by_label("Taints, one per line").fill("berlin-01=disk:Sometimes")
    page.get_by_role("button", name="Show what moves").click()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("clusterName")
    expect(alert).to_contain_text("'berlin-01=disk:Sometimes': accepted is CLUSTER=KEY[=VALUE]:EFFECT")
    expect(field).to_have_value(POLICY.replace("clusterNames", "clusterName").strip())
    visit.accessible(page)

    field.fill(POLICY)
    page.get_by_label("Taints, one per line").fill("")
    page.get_by_role("button", name="Show what moves").click()
    expect(headline(page)).to_contain_text(MOVES)
    expect(page.get_by_role("heading", name="Policies")).to_be_visible()


def test_a_whole_region_fails_and_the_answer_links_to_clusters(visit):
    page = visit("/what-if")
    page.get_by_text("A whole region").click()
    page.get_by_role("checkbox", name="eu-west-1 6").check()
    page.get_by_label("Failover").select_option("on")
    page.get_by_role("button", name="Show what moves").click()
    expect(page.locator(".asked")).to_contain_text("1 domain fails: region=eu-west-1")
    expect(page.get_by_role("checkbox", name="eu-west-1 6")).to_be_checked()
    visit.accessible(page)
    page.get_by_role("table", name="Clusters (").get_by_role("link").first.click()
    expect(page).to_have_url(re.compile("/fleet/"))


def test_the_form_survives_back_and_a_lost_session(visit):
    page = visit("/what-if")
    names, policies = page.get_by_label("More names, separated by spaces"), page.get_by_label("Policies as they would")
    names.fill("berlin-01")
    policies.fill(POLICY)
    page.get_by_role("link", name="Fleet", exact=True).click()
    page.go_back()
    expect(names).to_have_value("berlin-01")
    expect(policies).to_have_value(POLICY)
    visit.context.clear_cookies()  # as after a restart with another secret
    page.get_by_role("button", name="Show what moves").click()
    expect(page.get_by_role("alert")).to_contain_text("the form is out of date")
    expect(policies).to_have_value(POLICY.strip())
    page.get_by_role("button", name="Show what moves").click()
    expect(page.locator(".asked")).to_contain_text("1 cluster fails: berlin-01")
