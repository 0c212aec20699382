"""Changes arrive without a reload, and a lost extender is announced. Nothing of what a visitor does is lost."""

import pytest
from e2e.console.visits import WAIT_MS
from karmada_plane import binding, cluster, deployment, policy, selector
from playwright.sync_api import expect

KEPT = "window.kept = true"


@pytest.fixture
def claimant(console):
    made = policy("live", selector(), namespace="live")
    console.put(made)
    return made


def stored(console, claimant, name, **clusters):
    """Store a workload and its binding; return the path of the binding."""
    template = deployment(name, sum(clusters.values()), namespace="live", by=claimant)
    console.put(template)
    return console.put(binding(template, claimant, **clusters))


def test_a_new_workload_appears_without_a_reload_and_goes_again(visit, console, claimant):
    stored(console, claimant, "first", member1=1)
    page = visit("/workloads?namespace=live")
    expect(page.get_by_role("link", name="first", exact=True)).to_be_visible()
    page.evaluate(KEPT)
    page.get_by_role("link", name="first", exact=True).focus()
    path = stored(console, claimant, "second", member1=2)
    expect(page.get_by_role("link", name="second", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="first", exact=True)).to_be_focused()
    console.api.remove(path)
    expect(page.get_by_role("link", name="second", exact=True)).to_have_count(0)
    assert page.evaluate("window.kept"), "the page was loaded again"


def test_a_cluster_that_is_lost_changes_its_tile(visit, console):
    path = console.put(cluster("live-cluster", 8))
    page = visit("/fleet?q=live-cluster")
    tile = page.get_by_role("listitem").filter(has_text="live-cluster")
    expect(tile).to_contain_text("ready")
    condition = {"type": "Ready", "status": "False", "reason": "Lost", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    console.api.edit(path, status={"conditions": [condition]})
    expect(tile).to_contain_text("not ready")
    console.api.remove(path)
    expect(tile).to_have_count(0)


def test_a_lost_extender_is_announced_and_so_is_its_return(visit, console):
    page = visit("/workloads")
    expect(page.locator("[data-live-state]")).to_contain_text("Live")
    notice = page.get_by_role("status").first
    console.stop_extender()
    try:
        expect(notice).to_contain_text("The extender cannot be asked")
        visit.accessible(page)
        other = visit("/moves", status=502)
        expect(other.get_by_role("main")).to_contain_text("cannot be reached")
    finally:
        console.start_extender()
    expect(notice).to_be_hidden(timeout=2 * WAIT_MS)
    other.reload()
    expect(other.get_by_role("heading", level=1)).to_have_text("Moves")
