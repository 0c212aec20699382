"""How this copy was installed, and so how to add an extra to it."""

import json
from importlib.metadata import PackageNotFoundError, distribution
from typing import Final

_NAME: Final = "berthmaster"


def extra_remedy(extra: str) -> str:
    """Return how to install an extra from the place where this copy came from.

    A name without a place could fetch a package of others from an index.
    """
    try:
        record = distribution(_NAME).read_text("direct_url.json")  # PEP 610
        origin = json.loads(record) if record else {}
    except (PackageNotFoundError, ValueError):
        origin = {}
    url = origin.get("url")
    if not url:
        return f"install this copy of {_NAME} again, from the same file or folder, with its extra {extra!r}"
    if origin.get("dir_info", {}).get("editable"):
        return f"pip install -e '{url.removeprefix('file://')}[{extra}]'"
    revision = origin.get("vcs_info", {})
    if revision:
        url = f"{revision.get('vcs')}+{url}@{revision.get('commit_id')}"
    return f"pip install '{_NAME}[{extra}] @ {url}'"
