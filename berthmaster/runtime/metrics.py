"""Metrics of services with one process or several.

With several processes, each process writes its values to files in one folder, and the process that serves ``/metrics``
adds them up. ``prometheus_client`` chooses the kind of its values when it is imported. The folder must be set before
any metric is defined: call ``share`` first, then import the module that defines the metrics. A service with one
process needs no folder.
"""

import os
import sys
from pathlib import Path
from typing import Final

from berthmaster.runtime.logs import began_ns

_FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"


def share(folder: Path) -> None:
    """Keep the values of this process and of its forks in an empty folder. Import the library after this call."""
    if "prometheus_client" in sys.modules:
        raise RuntimeError("share() must be called before prometheus_client is imported")
    os.environ[_FOLDER] = str(folder)


def exposition() -> tuple[str, bytes]:
    """Return the content type and the text of all values of all processes."""
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
    """Return the content type and the text of one process; with traces as OpenMetrics, which has exemplars."""
    if began_ns() is not None:
        from prometheus_client import REGISTRY  # noqa: PLC0415 - see the module
        from prometheus_client.openmetrics import exposition as openmetrics  # noqa: PLC0415 - see the module

        return openmetrics.CONTENT_TYPE_LATEST, openmetrics.generate_latest(REGISTRY)  # type: ignore[no-untyped-call] # it has no types
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest  # noqa: PLC0415 - see the module

    return CONTENT_TYPE_LATEST, generate_latest()


def process_ended(pid: int) -> None:
    """Remove the gauges of a process that has ended. Its counters stay."""
    from prometheus_client import multiprocess  # noqa: PLC0415 - see the module

    multiprocess.mark_process_dead(pid)  # type: ignore[no-untyped-call]  # the library has no types here
