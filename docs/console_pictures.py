"""Take the pictures of docs/console.md: ``make console-pictures``.

An API server in memory, an extender and a console run on loopback with a generated fleet. Chromium opens the pages.
"""

import sys
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from console_fleet import TEAMS  # noqa: E402 - the folder of the tests is known only now
from e2e.console.chromium import ARGUMENTS, chromium  # noqa: E402 - the same
from e2e.console.services import Console  # noqa: E402 - the same
from e2e.processes import Processes  # noqa: E402 - the same
from playwright.sync_api import Page, ViewportSize, expect, sync_playwright  # noqa: E402 - the same

FOLDER: Final = ROOT / "docs" / "images"
WIDE: Final[ViewportSize] = {"width": 1440, "height": 760}
NARROW: Final[ViewportSize] = {"width": 390, "height": 600}
_LIMIT_MS: Final = 120_000


class Picture(NamedTuple):
    """A picture of a page.

    Attributes:
        address: the page.
        scheme: ``light`` or ``dark``.
        size: the size of the screen.
        ready: a selector of what the page shows once it is complete.
        clicked: the name of a button to press first; empty for none.
    """

    address: str
    scheme: str = "light"
    size: ViewportSize = WIDE
    ready: str = "main h1"
    clicked: str = ""


PICTURES: Final[Mapping[str, Picture]] = {
    "console-fleet": Picture("/fleet", ready=".squares"),
    "console-fleet-dark": Picture("/fleet?view=table", scheme="dark", ready="main tbody tr"),
    "console-workloads": Picture("/workloads?only=not-preferred", ready="main tbody tr"),
    "console-workload": Picture(f"/workloads/{TEAMS[0]}/gateway-12-deployment", ready=".answers"),
    "console-what-if": Picture("/what-if", clicked="Show what moves", ready="main svg"),
    "console-resilience": Picture("/resilience?by=region", ready="main svg, main table"),
    "console-moves": Picture("/moves", ready="main table"),
    "console-policies": Picture("/policies", ready="main table"),
    "console-narrow": Picture(f"/workloads/{TEAMS[0]}/gateway-12-deployment", size=NARROW, ready=".answers"),
}


def taken(page: Page, origin: str, name: str, picture: Picture) -> None:
    """Open a page and write its picture."""
    page.set_viewport_size(picture.size)
    page.emulate_media(color_scheme="dark" if picture.scheme == "dark" else "light")
    page.goto(origin + picture.address)
    if picture.clicked:
        page.locator("#field-more").fill("eu-west-1-01 berlin-01")
        page.get_by_role("button", name=picture.clicked).click()
    expect(page.locator(picture.ready).first).to_be_visible(timeout=_LIMIT_MS)
    page.screenshot(path=FOLDER / f"{name}.png", caret="initial")


def main() -> None:
    """Take all pictures."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="console-pictures-") as folder, sync_playwright() as driver:
        processes = Processes(Path(folder))
        console = None
        try:
            console = Console(processes, Path(folder), hostile=False)
            browser = driver.chromium.launch(executable_path=chromium(), args=list(ARGUMENTS))
            page = browser.new_page()
            page.set_default_timeout(_LIMIT_MS)
            for name, picture in PICTURES.items():
                console.renew(datetime.now(UTC))
                taken(page, console.url, name, picture)
            browser.close()
        finally:
            processes.stop_all()
            if console is not None:
                console.close()
    total = sum((FOLDER / f"{name}.png").stat().st_size for name in PICTURES)
    sys.stdout.write(f"{len(PICTURES)} pictures, {total // 1000} kB\n")


if __name__ == "__main__":
    main()
