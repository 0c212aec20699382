"""Signing in with a token, signing out, and what a visitor may see."""

import console_fleet
import pytest
from e2e.console.visits import start_visits
from playwright.sync_api import expect

TOKEN = "a-token-of-ada-0123456789abcdef"  # noqa: S105 - of this test only
SHOWN, OTHER = console_fleet.TEAMS[:2]
WIDE = "ClusterPropagationPolicy fallback"


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    file = tmp_path_factory.mktemp("sessions") / "tokens"
    file.write_text(f"{TOKEN},ada\n")
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
    with start_visits(browser, protected, axe) as visits:
        yield visits


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
    expect(page.locator("main table tbody tr").nth(10)).to_be_visible()
    visit.open(page, f"/workloads?namespace={OTHER}")
    expect(page.locator("main table tbody tr")).to_have_count(0)
    visit.accessible(page)
    copied = visit.context.cookies()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    visit.context.add_cookies(copied)
    visit.open(page, "/fleet")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")


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
