"""The hook of the build: the wheel also has the man pages."""

import sys
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))
from man_pages import pages


class ManPagesHook(BuildHookInterface):
    """Adds the man pages to a wheel. In a checkout without docs/, such as that of the image, there are none."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        folder = Path(mkdtemp(prefix="man-"))
        for name, text in pages().items():
            (folder / name).write_text(text)
            build_data["shared_data"][str(folder / name)] = f"share/man/man1/{name}"
