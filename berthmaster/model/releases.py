"""Releases of Karmada, and what differs among those that are supported."""

import re
from typing import Final, NamedTuple

from berthmaster.model.errors import InputError, shown

_RELEASE: Final = re.compile(r"v?(\d{1,3})\.(\d{1,3})(?:\.\d{1,3})?(?:-[0-9A-Za-z.-]{1,40})?")
Release = tuple[int, int]
OLDEST: Final[Release] = (1, 15)
"""The oldest release that is supported."""
TRIED: Final = ("1.16.8", "1.17.5", "1.18.2", "master")
"""The releases that passed the acceptance scenarios, as docs/compatibility.md lists them."""
PURGE_MODES_REMOVED: Final[Release] = (1, 19)
"""The first release without the former names of purge modes."""
FIELDS_SINCE: Final[dict[tuple[str, ...], Release]] = {
    ("spec", "placement", "clusterAffinities", "overflowAffinities"): (1, 18),
    ("spec", "placement", "workloadAffinity"): (1, 17),
}
"""The first release with a field of a policy that not every supported release has. Lists have no index."""


class KarmadaReleases(NamedTuple):
    """The releases that a control plane may have; ``oldest`` and ``newest`` are equal if it is known."""

    oldest: Release
    newest: Release

    @classmethod
    def parse(cls, text: str) -> "KarmadaReleases":
        """Parse a release such as ``1.16`` or ``v1.16.3``. Raises ``InputError``."""
        found = _RELEASE.fullmatch(text.strip())
        release = (int(found[1]), int(found[2])) if found is not None else (0, 0)
        if release < OLDEST:
            raise InputError(
                f"{shown(text)} is no supported release of Karmada; accepted are {text_of(OLDEST)} and newer"
            )
        return cls(release, release)

    def __str__(self) -> str:
        return " to ".join(map(text_of, dict.fromkeys(self)))


def text_of(release: Release) -> str:
    return ".".join(map(str, release))
