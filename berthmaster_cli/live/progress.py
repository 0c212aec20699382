"""A progress bar on standard error while lists are read; nothing in pipes."""

import sys
import threading
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from berthmaster_cli.output import stderr


class ListingBars:
    """One bar for each list. The bars vanish at the end of the ``with`` block. See ``ListingProgress``."""

    def __init__(self) -> None:
        columns = (TextColumn("reading {task.description}"), BarColumn(), MofNCompleteColumn())
        self._progress = Progress(*columns, console=stderr(), transient=True, disable=not sys.stderr.isatty())
        self._lock = threading.Lock()
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def listed(self, resource: str, objects: int, expected: int) -> None:
        with self._lock:
            if resource not in self._tasks:
                self._tasks[resource] = self._progress.add_task(resource)
            self._progress.update(self._tasks[resource], completed=objects, total=max(expected, 1))
