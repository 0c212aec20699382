"""docs/plugins.md and the example plugins use the public API of plugins, and only that."""

import re
from pathlib import Path

from berthmaster import scheduling

ROOT = Path(__file__).parents[3]


def test_the_page_lists_the_public_api():
    _, rest = (ROOT / "docs" / "plugins.md").read_text().split("This package is the public API.")
    table, _ = rest.split("\n\nThe class attribute", maxsplit=1)
    cells = re.findall(r"^\| (`.+`) \|", table, re.MULTILINE)
    assert sorted(name for cell in cells for name in re.findall(r"`(\w+)`", cell)) == sorted(scheduling.__all__)


def test_the_example_plugins_import_only_the_public_api():
    imported = {
        name
        for path in (ROOT / "examples" / "plugins").rglob("*.py")
        for name in re.findall(r"^(?:from|import) (berthmaster[\w.]*)", path.read_text(), re.MULTILINE)
    }
    assert imported == {"berthmaster.scheduling"}
