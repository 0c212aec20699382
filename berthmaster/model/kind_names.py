"""The names that people write for a kind: the kind, its plural and its short names, with or without the API group."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from berthmaster.model.kinds import KNOWN_KINDS

_VERSION: Final = re.compile(r"v\d+(?:(?:alpha|beta)\d+)?")


class KindNames(NamedTuple):
    group: str
    kind: str
    plural: str
    short_names: tuple[str, ...] = ()

    def matches(self, text: str) -> bool:
        """Return whether a text means this kind: ``NAME``, ``NAME.GROUP`` or ``NAME.VERSION.GROUP``, in any case."""
        name, dot, group = text.lower().partition(".")
        if name not in {self.kind.lower(), self.plural, *self.short_names}:
            return False
        version, _, rest = group.partition(".")
        return not dot or group == self.group or (rest == self.group and _VERSION.fullmatch(version) is not None)


BUILT_IN_NAMES: Final = tuple(
    KindNames(each.group, each.kind, each.names[0], each.names[1:]) for each in KNOWN_KINDS if each.names
)
"""The kinds that are known without discovery. Kinds of Kubernetes come first."""


def guessed_names(group: str, kind: str) -> KindNames:
    """Return the names of an unknown kind, with a guessed plural (apimachinery ``UnsafeGuessKindToResource``)."""
    singular = kind.lower()
    if singular.endswith("s"):
        return KindNames(group, kind, f"{singular}es")
    if singular.endswith("y"):
        return KindNames(group, kind, f"{singular.removesuffix('y')}ies")
    return KindNames(group, kind, f"{singular}s")


def resolve(text: str, known: Iterable[KindNames]) -> KindNames | None:
    return next((names for names in known if names.matches(text)), None)
