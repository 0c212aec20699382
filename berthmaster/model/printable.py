"""Printable forms of text from input: names, keys, values and file names.

Such text can contain control characters, line ends, characters that hide or reorder others, and lone surrogates. In a
message or a log it must not move the cursor of a terminal, end a line, or fail to encode.
"""

import re
from typing import Final

MAX_MESSAGE_LENGTH: Final = 4096
_UNUSUAL: Final = re.compile(r"[^ -~]")
_UNUSUAL_IN_JSON: Final = re.compile(r"[^\n -~]")


def printable(text: str, limit: int = MAX_MESSAGE_LENGTH) -> str:
    """Return text as one printable line: control and format characters escaped, lone surrogates replaced.

    Args:
        text: any text.
        limit: the largest number of characters of the text that are kept.
    """
    if len(text) > limit:
        text = f"{text[: limit - 1]}…"
    return text if text.isprintable() else _UNUSUAL.sub(_escaped, text)


def printable_json(text: str) -> str:
    """Return JSON with the same value, in printable text. Line ends between values stay."""
    # Only strings contain other characters, and a string may write any character as an escape.
    return text if text.isprintable() else _UNUSUAL_IN_JSON.sub(_escaped_in_json, text)


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    if character.isprintable():
        return character
    return "\ufffd" if "\ud800" <= character <= "\udfff" else repr(character)[1:-1]


def _escaped_in_json(match: re.Match[str]) -> str:
    character = match[0]
    if character.isprintable():
        return character
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
