"""Metrics, and how they are right with several processes.

There, each process writes its values into files of one folder, and whoever answers ``/metrics`` adds them up. The
client library decides which kind of values it makes when it is imported, so the folder has to be named before any
metric is defined: call ``share`` first, then import the module that defines them. A service of one process needs no
folder.
"""

import os
import sys
from pathlib import Path
from typing import Final

_FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"


def share(folder: Path) -> None:
    """Keep the values of this process and of those it forks in a folder, which must be empty."""
    if "prometheus_client" in sys.modules:
        raise RuntimeError("metrics are shared before the client library is imported")
    os.environ[_FOLDER] = str(folder)


def exposition() -> tuple[str, bytes]:
    """The content type and the text of all values of all processes."""
    from prometheus_client import (  # noqa: PLC0415 - see the module
        CONTENT_TYPE_LATEST,
        CollectorRegistry,
        generate_latest,
        multiprocess,
    )

    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]  # the library has no types here
    return CONTENT_TYPE_LATEST, generate_latest(registry)


def own_exposition() -> tuple[str, bytes]:
    """The content type and the text of the values of this process, which shares none."""
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest  # noqa: PLC0415 - see the module

    return CONTENT_TYPE_LATEST, generate_latest()


def process_ended(pid: int) -> None:
    """Forget the gauges of a process that has ended; what it counted stays."""
    from prometheus_client import multiprocess  # noqa: PLC0415 - see the module

    multiprocess.mark_process_dead(pid)  # type: ignore[no-untyped-call]  # the library has no types here
