"""The page What if in a browser: by form, by keyboard, by address, with wrong input, and on a phone."""

import re

from e2e.console.visits import NARROW
from playwright.sync_api import expect

POLICY = """\
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: everyday, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, namespace: shop}]
  placement: {clusterAffinity: {clusterNames: [berlin-01]}}
  schedulerName: berthmaster
"""
MOVES = re.compile("workloads? moves?|Nothing")


def headline(page):
    return page.locator(".headline")


def overflow(page):
    return page.evaluate("document.scrollingElement.scrollWidth - innerWidth")


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
    assert field.input_value() == POLICY.replace("clusterNames", "clusterName").strip()
    visit.accessible(page)

    field.fill(POLICY)
    page.get_by_label("Taints, one per line").fill("")
    page.get_by_role("button", name="Show what moves").click()
    expect(headline(page)).to_contain_text(MOVES)
    expect(page.get_by_role("heading", name="Policies")).to_be_visible()


def test_the_keyboard_suffices(visit):
    page = visit("/what-if")
    page.get_by_label("More names, separated by spaces").focus()
    page.keyboard.type("berlin-01 berlin-02")
    page.keyboard.press("Enter")
    expect(page.locator(".asked")).to_contain_text("2 clusters fail: berlin-01, berlin-02")


def test_an_answer_fits_a_phone(narrow):
    page = narrow.page()
    page.set_viewport_size(NARROW)
    narrow.open(page, "/what-if?lose=berlin-01")
    expect(headline(page)).to_contain_text(MOVES)
    assert overflow(page) <= 0
