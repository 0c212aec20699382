"""Fetch the script that draws the diagrams of the site from the npm registry, and copy it into `docs/vendor`.

    python packaging/site_assets.py

`packaging/site/package-lock.json` pins it by its version and its checksum, as for the scripts of the console. The theme
uses this script instead of the one that it would load from another host.
"""

import sys
import tempfile
from pathlib import Path
from typing import Final

from console_assets import ROOT, AssetsError, copy, install

PINS: Final = ROOT / "packaging" / "site"
TARGET: Final = ROOT / "docs" / "vendor"
FILES: Final = {"mermaid.js": ("@mermaid-js/tiny", "dist/mermaid.tiny.js")}


def main() -> int:
    """Fetch and copy the script; print what went wrong.

    Returns:
        The exit code: 1 if it is missing.
    """
    try:
        with tempfile.TemporaryDirectory() as folder:
            copy(install(Path(folder), PINS), FILES, TARGET)
    except (AssetsError, OSError) as problem:
        print(f"the script of diagrams: {problem}", file=sys.stderr)  # noqa: T201 - the output of a script
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
