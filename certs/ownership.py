"""Which installation registered an object, by a label. Installations do not change each other's objects."""

import re
from collections.abc import Mapping
from typing import Any, Final

REGISTERED_BY: Final = "berthmaster.io/registered-by"
"""The label of registered objects. Its value names the installation."""
DEFAULT_OWNER: Final = "berthmaster"
LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_MAX_LENGTH: Final = 63
_LAST: Final = re.compile(r"[^A-Za-z0-9]+$")


def owner_of(content: Mapping[str, Any] | None) -> str:
    """Return the installation that registered an object; empty if none did."""
    labels = ((content or {}).get("metadata") or {}).get("labels") or {}
    return str(labels.get(REGISTERED_BY, ""))


def installation(namespace: str, name: str) -> str:
    """Return the label value with which the chart registers the objects of a release."""
    return _LAST.sub("", f"{namespace}.{name}"[:_MAX_LENGTH])
