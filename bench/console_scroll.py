"""Scroll the tiles of the console's fleet in Chromium and measure the frames: a part of ``make bench-console``."""

import statistics
from typing import Final

import click
from e2e.console.chromium import ARGUMENTS, chromium
from playwright.sync_api import Page, sync_playwright

LIMIT_MS: Final = 50
_STEP_PX: Final = 120
_RECORD: Final = """() => {
  window.frames_ms = [];
  let last = performance.now();
  const frame = (now) => { window.frames_ms.push(now - last); last = now; requestAnimationFrame(frame); };
  requestAnimationFrame(frame);
}"""


def scrolled(page: Page, steps: int) -> list[float]:
    """Scroll down and up by the wheel. Return the time of each frame in milliseconds."""
    page.mouse.move(600, 500)
    page.evaluate(_RECORD)
    for direction in (1, -1):
        for _ in range(steps):
            page.mouse.wheel(0, direction * _STEP_PX)
            page.wait_for_timeout(16)
    return [float(each) for each in page.evaluate("window.frames_ms")]


@click.command()
@click.argument("url")
@click.option("--steps", default=150, show_default=True, help="How many turns of the wheel in each direction.")
def main(url: str, steps: int) -> None:
    """Scroll the tiles of a console in Chromium and print the times of the frames."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=list(ARGUMENTS))
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(f"{url}/fleet?view=tiles")
        nodes = page.evaluate("document.querySelectorAll('*').length")
        frames_ms = scrolled(page, steps)
        browser.close()
    slow = [each for each in frames_ms if each > LIMIT_MS]
    print(
        f"{nodes} elements; {len(frames_ms)} frames, {statistics.median(frames_ms):.0f} ms median, "
        f"{statistics.quantiles(frames_ms, n=100)[98]:.0f} ms at the 99th, {max(frames_ms):.0f} ms at most; "
        f"{len(slow)} above {LIMIT_MS} ms",
        flush=True,
    )


if __name__ == "__main__":
    main()
