"""Signing in at a provider of OpenID Connect, a process of its own, and what its claims allow."""

import console_fleet
import pytest
from e2e.conftest import needed
from e2e.console.oidc_provider import OidcProvider, provider_modules
from e2e.console.visits import start_visits
from e2e.control_plane import HOST
from playwright.sync_api import expect

SHOWN, OTHER = console_fleet.TEAMS[:2]


@pytest.fixture(scope="module")
def provider(console, processes):
    modules = needed(provider_modules)
    port = console.free_port()
    provider = OidcProvider(processes, modules, f"http://{HOST}:{port}")
    # The group comes from the claims, with the prefix that the API server would set.
    console.api.may_list["oidc:platform"] = {SHOWN}
    provider.console_url = console.start_console(
        f"--oidc-issuer-url={provider.url}", "--oidc-client-id=console", f"--public-url=http://{HOST}:{port}",
        f"--oidc-client-secret-file={provider.secret_file}", "--oidc-scopes=openid email groups",
        "--oidc-groups-prefix=oidc:", "--authorize=subject-access-review", f"--kubeconfig={console.kubeconfig}",
        port=port,
    )  # fmt: skip
    return provider


@pytest.fixture
def visit(browser, provider, axe):
    with start_visits(browser, provider.console_url, axe) as visits:
        # The pages of the provider are at another origin, and load a font from elsewhere.
        visits.expected += [provider.url, "fonts.googleapis.com"]
        visits.context.route("https://fonts.googleapis.com/**", lambda route: route.fulfill(content_type="text/css"))
        yield visits


def sign_in(page, name):
    page.get_by_role("link", name="Sign in at").click()
    page.locator("input[name=login]").fill(name)
    page.locator("input[name=password]").fill("any")
    page.locator("button[type=submit]").click()
    page.get_by_role("button", name="Continue").click()


def test_a_visitor_signs_in_at_the_provider_sees_what_its_groups_may_and_signs_out(visit):
    page = visit(f"/workloads?namespace={SHOWN}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    expect(page.get_by_label("Token")).to_have_count(0)
    visit.accessible(page)
    sign_in(page, "ada")
    expect(page.get_by_role("heading", level=1)).to_have_text("Workloads")
    assert page.url == f"{visit.origin}/workloads?namespace={SHOWN}"
    expect(page.get_by_role("banner")).to_contain_text("ada@example.org")
    expect(page.locator("main table tbody tr").nth(10)).to_be_visible()
    visit.open(page, f"/workloads?namespace={OTHER}")
    expect(page.locator("main table tbody tr")).to_have_count(0)
    copied = visit.context.cookies(visit.origin)
    page.get_by_role("button", name="Sign out").click()
    leave = page.get_by_role("link", name="Sign out at")
    expect(leave).to_be_visible()
    visit.context.add_cookies(copied)
    visit.open(page, "/fleet")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    visit.open(page, "/sign-in?ended=1")
    leave.click()
    page.get_by_role("button", name="Yes").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    sign_in(page, "grace")
    expect(page.get_by_role("banner")).to_contain_text("grace@example.org")
    visit.open(page, f"/workloads?namespace={SHOWN}")
    expect(page.locator("main table tbody tr")).to_have_count(0)
