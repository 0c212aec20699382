"""Commands of pages: a backslash at the end of a line continues it, as in a shell."""

import re


def whole_lines(text: str) -> str:
    """Return a text with each command on one line."""
    return re.sub(r" \\\n\s+", " ", text)
