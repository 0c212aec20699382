"""How this copy was installed, and so how to add an extra to it."""

import json
import os
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

_NAME: Final = "berthmaster"
_ZIPAPP: Final = "BERTHMASTER_ZIPAPP"
"""The variable in which the file that `make zipapp` builds says where it is."""
_PIPX: Final = "pipx"
"""The folder of pipx above each environment that it makes."""


def extra_remedy(extra: str) -> str:
    """Return how to install an extra from the place where this copy came from, with what installed it.

    A name without a place could fetch a package of others from an index.
    """
    file = os.environ.get(_ZIPAPP)
    if file:
        return f"{file} has no extras; install the wheel of this release with its extra {extra!r}, with pipx or pip"
    install = "pipx install --force" if _PIPX in Path(sys.prefix).parts else "pip install"
    try:
        record = distribution(_NAME).read_text("direct_url.json")  # PEP 610
        origin = json.loads(record) if record else {}  # noqa: TID251 - written by pip; below the model
    except (PackageNotFoundError, ValueError):
        origin = {}
    url = origin.get("url")
    if not url:
        return f"install this copy of {_NAME} again, from the same file or folder, with its extra {extra!r}"
    if origin.get("dir_info", {}).get("editable"):
        return f"{install} --editable '{url.removeprefix('file://')}[{extra}]'"
    revision = origin.get("vcs_info", {})
    if revision:
        url = f"{revision.get('vcs')}+{url}@{revision.get('commit_id')}"
    return f"{install} '{_NAME}[{extra}] @ {url}'"
