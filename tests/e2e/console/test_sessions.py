"""Signing in with a token, signing out, and what a visitor may see."""

from concurrent.futures import ThreadPoolExecutor
from urllib.request import Request, urlopen

import console_fleet
import pytest
from e2e.console.visits import start_visits
from playwright.sync_api import expect

TOKEN = "a-token-of-ada-0123456789abcdef"  # noqa: S105 - of this test only
BOB = "a-token-of-bob-0123456789abcdef"
SHOWN, OTHER = console_fleet.TEAMS[:2]


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
    expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")
    template = "web-{}-deployment"
    visit.open(page, f"/workloads/{SHOWN}/{template.format(0)}")
    response = page.goto(f"{visit.origin}/workloads/{OTHER}/{template.format(104)}")
    assert response.status in {403, 404}
    expect(page.get_by_role("main")).not_to_contain_text("replicas")


def test_reviews_are_about_the_namespace_of_a_page_and_visitors_at_one_time_share_them(console, protected):
    def ask(path):
        return urlopen(Request(protected + path, headers={"Authorization": f"Bearer {BOB}"}), timeout=30).status

    reviewed = console.api.reviewed
    reviewed.clear()
    console.api.may_list["bob"] = {SHOWN}
    assert ask(f"/workloads/{SHOWN}/web-0-deployment") == 200
    assert reviewed == {"clusterresourcebindings ": 1, "resourcebindings ": 1, f"resourcebindings {SHOWN}": 1}
    reviewed.clear()
    with ThreadPoolExecutor(12) as pool:
        assert set(pool.map(ask, ["/workloads"] * 12)) == {200}
    assert len(reviewed) > 5
    assert set(reviewed.values()) == {1}


def test_guesses_in_the_header_end_at_a_page_that_says_why(browser, console, tokens, axe):
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
