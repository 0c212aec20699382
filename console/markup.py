"""Text from the API becomes HTML here: everything is escaped, and control characters are visible."""

from datetime import datetime
from typing import Final

from markupsafe import Markup

from berthmaster.model.errors import printable

MAX_NAME: Final = 253
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def visible(value: object) -> object:
    """Return a value with control and format characters escaped. Jinja applies it to each expression of a template."""
    return value if isinstance(value, (Markup, int, float)) else printable(str(value))


def name(text: str) -> str:
    """Return a name as one printable line of at most 253 characters. The filter ``name`` of templates."""
    return printable(text, MAX_NAME)


def drawn(svg: str) -> Markup:
    """Mark an SVG as safe that ``berthmaster.views`` drew with escaping. No other text may pass here."""
    return Markup(svg)  # noqa: S704 - see the docstring


def number(value: int) -> str:
    """Return a number with a comma before each group of three digits. The filter ``number`` of templates."""
    return f"{value:,}"


def age(then: datetime | None, now: datetime) -> str:
    """Return how long ago something was, in one or two units: ``3 h 20 min``. The filter ``age`` of templates."""
    if then is None:
        return "never"
    seconds = round((now - then).total_seconds())
    if seconds < 0:
        return f"in {duration(-seconds)}"
    return f"{duration(seconds)} ago"


def duration(seconds: float) -> str:
    """Return a duration in at most two units: ``3 h 20 min``. The filter ``duration`` of templates."""
    left = round(seconds)
    for index, (size, unit) in enumerate(_UNITS):
        if left < size:
            continue
        smaller, smaller_unit = _UNITS[min(index + 1, len(_UNITS) - 1)]
        rest = left % size // smaller
        return f"{left // size} {unit} {rest} {smaller_unit}" if rest else f"{left // size} {unit}"
    return "0 s"
