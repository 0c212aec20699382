"""Metrics of services with one process or several.

With several processes, each process writes its values to files in one folder, and the process that serves ``/metrics``
adds them up. A process that has ended leaves no files. ``prometheus_client`` chooses the kind of its values when it is
imported. The folder must be set before any metric is defined: call ``share`` first, then import the module that defines
the metrics. A service with one process needs no folder.
"""

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from berthmaster.runtime.traces import began_ns

_FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
_LOCK: Final = "lock"
_ADDED: Final = ("counter", "histogram", "summary")
"""The kinds of values that outlive their process."""


def share(folder: Path) -> None:
    """Keep the values of this process and of its forks in an empty folder. Import the library after this call."""
    if "prometheus_client" in sys.modules:
        raise RuntimeError("share() must be called before prometheus_client is imported")
    os.environ[_FOLDER] = str(folder)


@contextmanager
def _locked(kind: int) -> Iterator[Path]:
    """Yield the folder, with its lock: ``LOCK_SH`` to read the files, ``LOCK_EX`` to replace some."""
    folder = Path(os.environ[_FOLDER])
    with (folder / _LOCK).open("ab") as file:
        fcntl.flock(file, kind)
        yield folder


def exposition() -> tuple[str, bytes]:
    """Return the content type and the text of all values of all processes."""
    from prometheus_client import (  # noqa: PLC0415 - see the module
        CONTENT_TYPE_LATEST,
        CollectorRegistry,
        generate_latest,
        multiprocess,
    )

    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)
    with _locked(fcntl.LOCK_SH):
        return CONTENT_TYPE_LATEST, generate_latest(registry)


def own_exposition() -> tuple[str, bytes]:
    """Return the content type and the text of one process; with traces as OpenMetrics, which has exemplars."""
    if began_ns() is not None:
        from prometheus_client import REGISTRY  # noqa: PLC0415 - see the module
        from prometheus_client.openmetrics import exposition as openmetrics  # noqa: PLC0415 - see the module

        return openmetrics.CONTENT_TYPE_LATEST, openmetrics.generate_latest(REGISTRY)
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest  # noqa: PLC0415 - see the module

    return CONTENT_TYPE_LATEST, generate_latest()


def process_ended(pid: int) -> None:
    """Remove the files of a process that has ended. Its counters are added to those of the others that have ended."""
    with _locked(fcntl.LOCK_EX) as folder:
        for kind in _ADDED:
            for file in folder.glob(f"{kind}_{pid}.db"):
                _add(file, folder / f"{kind}_ended.db")
                file.unlink()
        for gauge in folder.glob(f"gauge_*_{pid}.db"):
            gauge.unlink()


def _add(file: Path, total: Path) -> None:
    """Add the values of a file to those of another one."""
    from prometheus_client.mmap_dict import MmapedDict  # noqa: PLC0415 - see the module

    added = MmapedDict(str(total))
    for key, value, *_ in MmapedDict.read_all_values_from_file(str(file)):
        added.write_value(key, added.read_value(key)[0] + value, 0.0)
    added.close()
