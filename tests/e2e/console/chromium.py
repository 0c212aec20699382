"""The browser of the tests: the Chromium of the system, driven by Playwright, and the script of axe."""

import os
import shutil
from pathlib import Path
from typing import Final

from e2e.assets import MissingAssetError

AXE: Final = Path(__file__).parent / "vendor" / "axe.min.js"
SERVED: Final = Path(__file__).parents[3] / "console" / "static" / "vendor" / "LICENSES.txt"
NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
# Chromium's sandbox needs rights that containers lack. The tests open pages of their own console only.
ARGUMENTS: Final = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")


def chromium() -> str:
    """Return the path of Chromium: ``BERTHMASTER_CHROMIUM``, or the first on the PATH."""
    given = os.environ.get("BERTHMASTER_CHROMIUM", "")
    if given and not os.access(given, os.X_OK):
        raise MissingAssetError(f"BERTHMASTER_CHROMIUM={given} is no program")
    found = given or next(filter(None, map(shutil.which, NAMES)), "")
    if not found:
        raise MissingAssetError("Chromium is not on the PATH: install it, or name it in BERTHMASTER_CHROMIUM")
    return found


def scripts() -> str:
    """Return the script of axe."""
    if not (AXE.is_file() and SERVED.is_file()):
        raise MissingAssetError("the scripts of the console and of its tests are missing; run `make console-assets`")
    return AXE.read_text()
