"""Visits of the console with a browser: every page is watched for errors, blocked content and foreign requests."""

import json
from dataclasses import dataclass, field
from typing import Any, Final, Self
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, ViewportSize, expect

WAIT_MS: Final = 30_000
NARROW: Final[ViewportSize] = {"width": 390, "height": 844}
WIDE: Final[ViewportSize] = {"width": 1280, "height": 900}
_RULES: Final = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], "resultTypes": ["violations"]}
_COLOURS: Final = {"runOnly": {"type": "rule", "values": ["color-contrast"]}, "resultTypes": ["violations"]}
# Chromium reports each answer with an error status in its log. A test that expects such a page checks the status.
_STATUS: Final = "Failed to load resource: the server responded with a status of"
_RECORD_VIOLATIONS: Final = """
window.blocked = [];
addEventListener("securitypolicyviolation", (event) =>
  window.blocked.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""

expect.set_options(timeout=WAIT_MS)


@dataclass
class Visits:
    """Visits with one profile of a browser, so with one session.

    Attributes:
        origin: the address of the console, without a path.
        context: the profile.
        axe: the script that checks the accessibility.
        problems: what a visitor must not see, found so far.
        expected: parts of messages that are no problems, for a test that loses the console.
    """

    origin: str
    context: BrowserContext
    axe: str
    problems: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)

    def page(self) -> Page:
        page = self.context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.on("console", self._logged)
        page.on("pageerror", lambda error: self.problems.append(f"{page.url}: {error}"))
        page.on("request", self._requested)
        page.on("dialog", self._opened)
        return page

    def __call__(self, address: str, *, status: int = 200) -> Page:
        """Open an address in a new tab and check the status of the answer."""
        page = self.page()
        self.open(page, address, status=status)
        return page

    def open(self, page: Page, address: str, *, status: int = 200) -> None:
        """Open an address in a tab; check the status of the answer, and that hostile names are text."""
        response = page.goto(self.origin + address)
        assert response is not None
        assert response.status == status, f"{address}: {page.inner_text('main')}"
        assert not page.locator("main script, main img").count(), f"{address}: markup of a name became an element"
        assert not {"\x07", "\u202e"} & set(page.inner_html("main")), f"{address}: a control character is not escaped"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """Check all pages, and close the profile."""
        try:
            self.check()
        finally:
            self.context.close()

    def check(self) -> None:
        """Fail if a page had an error, blocked content, a dialog, or a request to another origin."""
        for page in self.context.pages:
            blocked = page.evaluate("window.blocked ?? []")
            self.problems += [f"{page.url}: blocked by the security policy: {each}" for each in blocked]
        found = [each for each in self.problems if not any(part in each for part in self.expected)]
        assert not found, "\n".join(found)

    def _logged(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and not message.text.startswith(_STATUS):
            self.problems.append(f"{message.type}: {message.text} {json.dumps(message.location)}")

    def _requested(self, request: Request) -> None:
        url = urlsplit(request.url)
        if f"{url.scheme}://{url.netloc}" != self.origin and url.scheme != "data":
            self.problems.append(f"a request to another origin: {request.url}")

    def _opened(self, dialog: Any) -> None:
        self.problems.append(f"a dialog opened: {dialog.message}")
        dialog.dismiss()

    def accessible(self, page: Page) -> None:
        """Fail if axe finds a violation of WCAG 2 A or AA, in the light scheme and then in the dark one."""
        page.wait_for_load_state()  # with its styles
        page.evaluate(self.axe)
        for scheme, rules in (("light", _RULES), ("dark", _COLOURS)):
            page.emulate_media(color_scheme=scheme)
            result = page.evaluate("options => axe.run(document, options)", rules)
            assert not result["violations"], "\n".join(_told(page.url, scheme, each) for each in result["violations"])
        page.emulate_media(color_scheme="light")


def _told(url: str, scheme: str, violation: dict[str, Any]) -> str:
    nodes = [f"  {node['html'][:200]}\n    {node['failureSummary'][:300]}" for node in violation["nodes"][:5]]
    return "\n".join([f"{url} ({scheme}): {violation['id']}: {violation['help']}", *nodes])


def start_visits(browser: Browser, origin: str, axe: str, screen: ViewportSize = WIDE, **options: Any) -> Visits:
    """Return visits with a new profile. Options are those of Playwright's ``new_context``."""
    context = browser.new_context(viewport=screen, **options)
    context.add_init_script(_RECORD_VIOLATIONS)
    return Visits(origin, context, axe)
