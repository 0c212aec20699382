"""Durations as people write them, such as ``5m``."""

import re
from typing import Final

from berthmaster.model.errors import InputError, shown

MAX_DURATION_S: Final = 366 * 86400


_DURATION: Final = re.compile(r"(?:(?P<h>[0-9]{1,6})h)?(?:(?P<m>[0-9]{1,7})m)?(?:(?P<s>[0-9]{1,8})s)?")


_UNITS: Final = {"h": 3600, "m": 60, "s": 1}


def parse_duration_s(text: str) -> int:
    """Return the seconds of ``90s``, ``10m``, ``1h30m`` or ``0``. Raises ``InputError``, also above 366 days."""
    match = _DURATION.fullmatch(text)
    if text == "0":
        return 0
    if not text or match is None:
        raise InputError(f"{shown(text)} is not a duration; accepted are durations such as 90s, 10m, 1h30m and 24h")
    seconds = sum(int(match[unit] or 0) * size for unit, size in _UNITS.items())
    if seconds > MAX_DURATION_S:
        raise InputError(f"{shown(text)} is too long; accepted are at most {MAX_DURATION_S // 3600}h")
    return seconds


def duration_text(seconds: float) -> str:
    """Return a duration as ``parse_duration_s`` reads it, rounded to whole seconds, such as ``1h30m``."""
    left = max(0, round(seconds))
    parts = []
    for unit, size in _UNITS.items():
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
