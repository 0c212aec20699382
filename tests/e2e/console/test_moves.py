"""The page Moves in a browser: filters, and controllers that stop while the page is open."""

import json
import re
from datetime import UTC, datetime

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


def test_dead_controllers_and_overdue_moves_are_told_from_living_ones(visit, console):
    console.renew(datetime.now(UTC))
    page = visit("/moves")
    notice = page.get_by_text("No controller has renewed its lease.")
    expect(notice).to_have_count(0)
    console.renew(datetime(2026, 1, 1, tzinfo=UTC))
    binding, late = overdue(console)
    try:
        expect(notice).to_be_visible()
        page.get_by_role("link", name="1 overdue").click()
        expect(page).to_have_url(re.compile("state=overdue"))
        expect(rows(page)).to_have_count(1)
        expect(rows(page)).to_contain_text("overdue")
        visit.accessible(page)
    finally:
        console.renew(datetime.now(UTC))
        console.api.put(binding, late)
    expect(notice).to_have_count(0)


def overdue(console):
    """Let the deadline of one move pass; return the path of its binding and the binding as it was."""
    for path, each in console.api.objects.items():
        move = json.loads((each["metadata"].get("annotations") or {}).get(MOVE, "{}"))
        if move.get("phase") == "Surging" and each["metadata"]["namespace"] != "hostile":
            past = json.dumps({**move, "until": "2026-01-01T00:00:00Z"})
            annotations = {**each["metadata"]["annotations"], MOVE: past}
            console.api.put(path, {**each, "metadata": {**each["metadata"], "annotations": annotations}})
            return path, each
    raise AssertionError("no move is under way")
