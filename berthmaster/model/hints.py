"""Did you mean: the known name that is most like a given one, at a bounded cost."""

from collections.abc import Collection, Iterable, Iterator
from difflib import get_close_matches  # noqa: TID251 - the one place that bounds its cost
from itertools import islice
from typing import Final

SIMILAR: Final = 0.6
"""The similarity of names (``difflib``) from which one is a hint for the other."""
_MAX_LENGTH: Final = 64
"""The most characters of a given name that are compared. ``difflib`` takes time with the product of the lengths."""
_MAX_PAIRS: Final = 200_000
"""The most pairs of characters of the given name and of known names. ``difflib`` takes about 20 ms for them."""
_CHARACTERS: Final = "abcdefghijklmnopqrstuvwxyz0123456789-./"


def closest(name: str, known: Iterable[str], similarity: float = SIMILAR) -> str | None:
    """Return the known name that is most like a given one, as ``similar`` does; None if none is like it."""
    return next(iter(similar(name, known, 1, similarity)), None)


def similar(name: str, known: Iterable[str], most: int, similarity: float = SIMILAR) -> list[str]:
    """Return the known names that are most like a given one, the best first.

    The cost does not grow with the length of the given name. With very many known names, only one that differs by one
    character, or by two that changed places, is found.
    """
    if len(name) > 2 * _MAX_LENGTH:
        return []
    names = known if isinstance(known, Collection) else list(known)
    if len(name) * sum(map(len, names)) <= _MAX_PAIRS:
        return get_close_matches(name[:_MAX_LENGTH], names, most, similarity)
    every = names if isinstance(names, set | frozenset | dict) else frozenset(names)
    return list(islice((each for each in _neighbors(name) if each in every), most))


def _neighbors(name: str) -> Iterator[str]:
    """Yield the texts that differ from a name by one edit: some thousands."""
    for at in range(len(name) + 1):
        head, tail = name[:at], name[at:]
        if tail:
            yield head + tail[1:]
        if len(tail) > 1:
            yield head + tail[1] + tail[0] + tail[2:]
        for character in _CHARACTERS:
            yield head + character + tail
            if tail:
                yield head + character + tail[1:]
