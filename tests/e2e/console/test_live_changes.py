"""Changes arrive without a reload, and a lost extender is announced. Nothing of what a visitor does is lost."""

import re
import time
from threading import Thread
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import console_ledger
import pytest
from e2e.console.visits import WAIT_MS, start_visits
from e2e.control_plane import HOST
from e2e.forwarder import Forwarder
from karmada_plane import binding, cluster, deployment, policy, selector
from playwright.sync_api import expect

from console.source import PAGE_DEADLINE_S

KEPT = "window.kept = true"
SETTLED_MS = 5000


@pytest.fixture
def claimant(console):
    return claimant_of(console)


@pytest.fixture
def free_port(processes):
    return processes.ports.free()


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


def test_a_cluster_that_is_lost_changes_its_square(visit, console):
    path = console.put(cluster("live-cluster", 8))
    page = visit("/fleet?q=live-cluster")
    page.evaluate(KEPT)
    page.get_by_label("Name contains").fill("half a nam")
    square, tile = page.locator(".squares a"), page.locator("#cluster-live-cluster")
    expect(square).to_have_attribute("title", re.compile("^live-cluster: ready"))
    expect(tile).to_have_count(0)
    condition = {"type": "Ready", "status": "False", "reason": "Lost", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    console.api.edit(path, status={"conditions": [condition]})
    expect(tile).to_contain_text("not ready")
    expect(square).to_have_attribute("title", re.compile("^live-cluster: not ready"))
    expect(page.get_by_label("Name contains")).to_have_value("half a nam")
    assert page.evaluate("window.kept"), "the page was loaded again"
    console.api.remove(path)
    expect(square).to_have_count(0)


def test_a_page_whose_stream_was_cut_is_not_live_until_it_shows_what_it_missed(browser, console, axe, free_port):
    proxy = before(console, free_port)
    with (
        start_visits(browser, f"http://{HOST}:{free_port}", axe) as visit,
        start_visits(browser, console.url, axe) as direct,
    ):
        visit.expected += ["ERR_CONNECTION", "ERR_EMPTY_RESPONSE", "ERR_INCOMPLETE"]
        stored(console, claimant_of(console), "kept", member1=1)
        page = visit("/workloads?namespace=live")
        expect(page.locator("[data-live-state]")).to_have_text("Live")
        page.evaluate(KEPT)
        proxy.close()
        expect(page.locator("[data-live-state]")).to_contain_text("Not live")
        notice = page.locator(".notice")
        expect(notice).to_contain_text("The console cannot be reached.")
        expect(notice).to_contain_text("ago.")
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        expect(notice).to_be_in_viewport()
        visit.accessible(page)
        path = stored(console, claimant_of(console), "missed", member1=1)
        expect(direct("/workloads?namespace=live").get_by_role("link", name="missed", exact=True)).to_be_visible()
        page.wait_for_timeout(SETTLED_MS)  # so that no later change makes the page update
        before(console, free_port)
        expect(page.get_by_role("link", name="missed", exact=True)).to_be_visible()
        expect(page.locator("[data-live-state]")).to_have_text("Live")
        expect(notice).to_be_hidden()
        assert page.evaluate("window.kept"), "the page was loaded again"
        console.api.remove(path)


def test_a_page_is_not_live_between_two_streams_until_it_shows_what_it_missed(browser, console, axe):
    url = console.start_console(first="from console import context; context.STREAM_LIFE_S = 2.0")
    with start_visits(browser, url, axe) as visit:
        visit.expected += ["ERR_FAILED"]
        stored(console, claimant_of(console), "kept", member1=1)
        page = visit("/workloads?namespace=live")
        state = page.locator("[data-live-state]")
        expect(state).to_have_text("Live")
        page.evaluate(KEPT)
        page.route("**/events", lambda route: route.abort())  # the first stream ends by itself, and no other one begins
        expect(state).to_contain_text("Not live")
        expect(page.locator(".notice")).to_be_hidden()
        path = stored(console, claimant_of(console), "between", member1=1)
        page.wait_for_timeout(SETTLED_MS)
        expect(page.get_by_role("link", name="between", exact=True)).to_have_count(0)
        page.unroute("**/events")
        expect(page.get_by_role("link", name="between", exact=True)).to_be_visible()
        expect(state).to_have_text("Live")
        assert page.evaluate("window.kept"), "the page was loaded again"
        console.api.remove(path)


def test_while_the_extender_hangs_pages_show_the_last_known_answers_and_files_do_not_wait(visit, console):
    workload = console_ledger.ADDRESS
    shown = ["/fleet", "/workloads", workload]
    page = visit("/fleet")  # one tab: a browser opens six connections to one host, and each tab has a stream
    for address in shown:
        visit.open(page, address)
    with console.hung_extender():
        for address in shown:
            begun = time.monotonic()
            visit.open(page, address)
            assert time.monotonic() - begun < 2 * PAGE_DEADLINE_S, address
            notice = page.locator(".notice")
            expect(notice).to_contain_text("The extender")
            expect(notice).to_contain_text(re.compile(r"what was known at \d\d:\d\d:\d\d UTC, \d+ s ago"))
            expect(page.locator("main")).to_contain_text(re.compile("ready|checkout"))
        pages = [Thread(target=fetched, args=(f"{console.url}/workloads?q=none-{each}",)) for each in range(80)]
        for each in pages:
            each.start()
        for address in ("/help", "/static/console.css", "/help"):
            assert fetched(f"{console.url}{address}")[1] < PAGE_DEADLINE_S, address
        for each in pages:
            each.join(30)
        begun = time.monotonic()
        visit.open(page, "/workloads?q=never-asked", status=503)
        assert time.monotonic() - begun < PAGE_DEADLINE_S, "a lost extender is not asked again by each page"
        expect(page.get_by_role("main")).to_contain_text("The extender")
        visit.open(page, "/fleet")
    expect(page.locator("[data-live-state]")).to_have_text("Live", timeout=2 * WAIT_MS)
    expect(page.locator(".notice")).to_be_hidden()


def before(console, port):
    """Put a proxy before the console, and wait until it passes requests on."""
    proxy = Forwarder(port)
    proxy.add(urlsplit(console.url).port, lambda: True)
    return proxy


def claimant_of(console):
    made = policy("live", selector(), namespace="live")
    console.put(made)
    return made


def fetched(url):
    """Return the status of an answer, and after how many seconds it came."""
    begun = time.monotonic()
    try:
        with urlopen(url, timeout=30) as answer:
            status = answer.status
    except HTTPError as error:
        status = error.code
    return status, time.monotonic() - begun


def test_a_lost_extender_is_announced_and_so_is_its_return(visit, console):
    page = visit("/workloads")
    expect(page.locator("[data-live-state]")).to_contain_text("Live")
    notice = page.get_by_role("status").first
    console.stop_extender()
    try:
        expect(notice).to_contain_text("The extender cannot be asked")
        expect(page.locator("[data-live-state]")).to_contain_text("Not live")
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        expect(notice).to_be_in_viewport()
        expect(page.locator("#age")).to_contain_text("ago.")
        expect(page.locator("main tbody tr").first).to_be_visible()
        visit.accessible(page)
        other = visit("/moves?page=2", status=502)
        expect(other.get_by_role("main")).to_contain_text("cannot be reached")
        expect(other.locator("#age")).to_be_empty()  # this page shows nothing that could be old
    finally:
        console.start_extender()
    expect(notice).to_be_hidden(timeout=2 * WAIT_MS)
    expect(page.locator("[data-live-state]")).to_have_text("Live")
    other.reload()
    expect(other.get_by_role("heading", level=1)).to_have_text("Moves")
