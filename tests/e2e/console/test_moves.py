"""The page Moves in a browser: filters, links, and a move that ends while the page is open."""

import re

from playwright.sync_api import expect

from berthmaster.model.move import MOVE


def rows(page):
    return page.get_by_role("table", name="Workloads with a move").locator("tbody tr")


def test_filters_leave_what_matches(visit):
    page = visit("/moves")
    visit.accessible(page)
    page.get_by_label("State").select_option("held-down")
    page.get_by_role("button", name="Show").click()
    expect(page).to_have_url(re.compile("state=held-down"))
    expect(rows(page).first).to_contain_text("held down")
    assert all("held down" in each for each in rows(page).all_inner_texts())
    name = rows(page).first.get_by_role("rowheader").inner_text()
    page.get_by_label("Workload", exact=True).fill(name)
    page.keyboard.press("Enter")
    expect(rows(page)).to_have_count(1)
    page.get_by_label("Cluster").fill("no-such-cluster")
    page.keyboard.press("Enter")
    expect(page.get_by_text("No move matches the filter.")).to_be_visible()
    page.get_by_role("link", name="Clear").click()
    expect(rows(page)).not_to_have_count(1)


def test_a_move_that_ends_leaves_the_page_without_a_reload(visit, console):
    objects = console.api.objects
    path, bound = next(
        (path, each)
        for path, each in objects.items()
        if MOVE in (each["metadata"].get("annotations") or {}) and each["metadata"]["namespace"] != "hostile"
    )
    template = bound["spec"]["resource"]
    name = f"{template['namespace']}/Deployment/{template['name']}"
    page = visit(f"/moves?q={template['name']}")
    expect(rows(page).first).to_contain_text(name)
    expect(page.locator("[data-live-state]")).to_contain_text("Live")
    ended = {**bound, "metadata": {**bound["metadata"], "annotations": {}}}
    console.api.put(path, ended)
    try:
        expect(page.get_by_text("No move matches the filter.")).to_be_visible()
    finally:
        console.api.put(path, bound)
    expect(rows(page).first).to_contain_text(name)
