"""Signing in with a token, signing out, and what a visitor may see."""

import console_fleet
import pytest
from e2e.console.visits import start_visits
from playwright.sync_api import expect

TOKEN = "a-token-of-ada-0123456789abcdef"  # noqa: S105 - of this test only
BOB = "a-token-of-bob-0123456789abcdef"
SHOWN, OTHER = console_fleet.TEAMS[:2]
WIDE = "ClusterPropagationPolicy fallback"
ALL_AT_ONCE = "Promise.all([...Array(12)].map(() => fetch('/workloads').then((got) => got.status)))"
"""Fetches one page twelve times at one time, and returns the statuses."""


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    file = tmp_path_factory.mktemp("sessions") / "tokens"
    file.write_text(f"{TOKEN},ada\n{BOB},bob\n")
    return file


@pytest.fixture(scope="module")
def protected(console, tokens):
    """The address of a console that requires tokens, and shows what visitors may list."""
    console.api.may_list["ada"] = {SHOWN}
    return console.start_console(
        f"--token-file={tokens}", "--authorize=subject-access-review", f"--kubeconfig={console.kubeconfig}"
    )


@pytest.fixture
def visit(browser, protected, axe):
    visits = start_visits(browser, protected, axe)
    yield visits
    visits.check()
    visits.context.close()


def signed_in(browser, url, axe, token):
    """Visits that send a token with each request."""
    return start_visits(browser, url, axe, extra_http_headers={"Authorization": f"Bearer {token}"})


def sign_in(page, token=TOKEN):
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()


def test_a_visitor_signs_in_sees_what_they_may_and_signs_out(visit):
    page = visit(f"/workloads?namespace={SHOWN}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    visit.accessible(page)
    sign_in(page, "another-token-0123456789abcdef")
    expect(page.get_by_role("alert")).to_contain_text("not valid")
    sign_in(page)
    expect(page.get_by_role("heading", level=1)).to_have_text("Workloads")
    expect(page.get_by_role("banner")).to_contain_text("ada")
    assert page.locator("main table tbody tr").count() > 10
    visit.open(page, f"/workloads?namespace={OTHER}")
    expect(page.locator("main table tbody tr")).to_have_count(0)
    visit.accessible(page)
    copied = visit.context.cookies()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    visit.context.add_cookies(copied)
    visit.open(page, "/fleet")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")


def test_a_workload_of_another_namespace_is_not_shown(visit):
    page = visit("/fleet")
    sign_in(page)
    expect(page.locator(".limits")).to_contain_text("You may list the bindings of 1 namespace.")
    expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")
    template = "web-{}-deployment"
    visit.open(page, f"/workloads/{SHOWN}/{template.format(0)}")
    response = page.goto(f"{visit.origin}/workloads/{OTHER}/{template.format(104)}")
    assert response.status in {403, 404}
    expect(page.get_by_role("main")).not_to_contain_text("replicas")
    expect(page.locator(".limits"), "it says nothing about other namespaces").to_have_count(0)


def test_the_page_of_a_workload_alone_names_policies_that_the_visitor_may_not_see(visit):
    page = visit("/fleet")
    sign_in(page)
    expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")
    visit.open(page, f"/workloads/{SHOWN}/importer-5-deployment")
    named = page.get_by_role("table", name="Policies that match").get_by_role("rowheader")
    expect(named).to_have_text([f"PropagationPolicy {SHOWN}/{each}" for each in ("critical", "everyday")] + [WIDE])
    for address in ("/policies", "/moves", "/drift"):
        visit.open(page, address)
        expect(page.get_by_role("main")).not_to_contain_text("fallback")
    visit.open(page, "/policies/-/fallback", status=404)


def test_reviews_are_about_the_namespace_of_a_page_and_requests_at_one_time_share_them(
    browser, console, protected, axe
):
    console.api.may_list["bob"] = {SHOWN}
    visits = signed_in(browser, protected, axe, BOB)
    page, reviewed = visits("/help"), console.api.reviewed
    reviewed.clear()
    visits.open(page, f"/workloads/{SHOWN}/web-0-deployment")
    assert reviewed == {"clusterresourcebindings ": 1, "resourcebindings ": 1, f"resourcebindings {SHOWN}": 1}
    reviewed.clear()
    assert set(page.evaluate(ALL_AT_ONCE)) == {200}
    assert len(reviewed) > 5
    assert set(reviewed.values()) == {1}
    visits.check()
    visits.context.close()


def test_one_visitor_leaves_live_updates_for_others(browser, console, tokens, axe):
    url = console.start_console(f"--token-file={tokens}", "--max-streams=8")
    browsers = [signed_in(browser, url, axe, TOKEN) for _ in range(2)]  # one browser opens six connections to a host
    state = "[data-live-state]"
    for number in range(6):
        expect(browsers[number % 2]("/moves").locator(state)).to_have_text("Live")
    expect(browsers[0]("/moves").locator(state)).to_have_text("Not live. Reload")
    browsers.append(signed_in(browser, url, axe, BOB))
    expect(browsers[2]("/moves").locator(state)).to_have_text("Live")
    for each in browsers:
        each.check()
        each.context.close()


def test_guesses_in_the_header_and_in_the_form_end_at_a_page_that_says_why(browser, console, tokens, axe):
    url = console.start_console(f"--token-file={tokens}")  # its own one: all visitors here have one address
    guess = {"Authorization": "Bearer a-guess-0123456789abcdef"}
    page = start_visits(browser, url, axe, extra_http_headers=guess)("/help")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    answers = page.evaluate(
        "Promise.all([...Array(60)].map(() => fetch('/help').then(async (got) => [got.status, await got.text()])))"
    )
    limited = [text for status, text in answers if status == 429]
    assert len(limited) > 30
    assert all("<h1>Too many requests</h1>" in text for text in limited)
    page.context.close()
    other = start_visits(browser, url, axe)  # the same address with another way in
    form = other("/help")
    told = form.get_by_text("Too many attempts.")
    for _ in range(20):  # one attempt is free again each 5 seconds
        with form.expect_navigation():
            sign_in(form, "a-guess-0123456789abcdef")
        if told.is_visible():
            break
    expect(told).to_be_visible()
    other.check()
    other.context.close()


def test_a_session_ends_when_its_token_leaves_the_file(visit, tokens):
    page = visit("/help")
    sign_in(page)
    expect(page.get_by_role("heading", level=1)).to_have_text("Help")
    tokens.write_text("the-token-of-grace-0123456789abcdef,grace\n")

    def signed_out():
        page.reload()
        return page.get_by_role("heading", level=1).inner_text() == "Sign in"

    try:
        for _ in range(60):
            if signed_out():
                break
            page.wait_for_timeout(250)
        assert signed_out()
    finally:
        tokens.write_text(f"{TOKEN},ada\n")
