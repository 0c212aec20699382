"""Whether files have changed."""

from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

FileStates: TypeAlias = tuple[tuple[int, int, int], ...]


def file_states(paths: Iterable[Path]) -> FileStates:
    """Return the state of each file, which differs after a write or a replacement. Raises ``OSError``."""
    stats = (path.stat() for path in paths)
    return tuple((each.st_mtime_ns, each.st_size, each.st_ino) for each in stats)
