"""One play of Karmada's suite, and what became of each spec."""

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from e2e.forwarder import Forwarder
from e2e.processes import NotInTimeError, Process, Processes, wait_for
from karmada_suite import kind_clusters
from karmada_suite.plane import GINKGO, SUITE, SuitePlane, access, spare

SKIPPED_FILES: Final = (
    "karmadactl_test", "search_test", "mcs_test", "metrics_test", "aggregatedapi_test", "federatedhpa_test",
    "cronfederatedhpa_test", "remedy_test",
)  # fmt: skip
"""Files of specs that schedule nothing: they are about karmadactl, search, services, metrics and the proxy."""
SKIPPED: Final = "Resource interpreter webhook testing"
"""Specs whose example of an interpreter webhook serves metrics on all addresses of the machine."""
SPARES: Final = 2
KIND_PORT: Final = 6443
_STOP_LIMIT_S: Final = 120.0


@dataclass(frozen=True)
class Spec:
    """A spec that was played.

    Attributes:
        file: the file that has it.
        name: its words.
        passed: whether it passed.
        seconds: how long it took.
        failure: what it says if it failed.
    """

    file: str
    name: str
    passed: bool
    seconds: float
    failure: str = ""


@dataclass(frozen=True)
class Play:
    """The result of a run of the suite.

    Attributes:
        player: who scheduled.
        seconds: how long the run took.
        specs: by file and name.
    """

    player: str
    seconds: float
    specs: dict[tuple[str, str], Spec]

    def document(self) -> dict[str, Any]:
        return {"player": self.player, "seconds": self.seconds, "specs": [asdict(each) for each in self.specs.values()]}


def play(
    plane: SuitePlane, binaries: Path, player: str, *, processes: int, limit_s: float, options: Sequence[str]
) -> Play:
    """Play the suite on a plane.

    Args:
        plane: where.
        binaries: the folder with the suite and ginkgo.
        player: who schedules; a name.
        processes: how many specs run at once.
        limit_s: after this time the rest of the specs is not played.
        options: more options of ginkgo.

    Raises:
        NotInTimeError: see ``has_ended``, or the suite runs for too long.
    """
    report = plane.folder / "report.json"
    with ExitStack() as opened:
        environment = _environment(plane, binaries, opened)
        command = [
            str(binaries / GINKGO), f"--procs={processes}", f"--timeout={limit_s:.0f}s", "--no-color",
            f"--json-report={report.name}", f"--output-dir={plane.folder}", "--keep-going", "--silence-skips",
            *(f"--skip-file={each}" for each in SKIPPED_FILES), f"--skip={SKIPPED}", *options, str(binaries / SUITE),
        ]  # fmt: skip
        begin_s = time.monotonic()
        suite = plane.processes.start("suite", command, environment)
        wait_for("the end of the suite", lambda: has_ended(suite, plane.processes), limit_s + _STOP_LIMIT_S)
        took_s = time.monotonic() - begin_s
    return Play(player, took_s, read(report.read_text()) if report.exists() else {})


def has_ended(suite: Process, processes: Processes) -> bool:
    """Return whether the suite has ended.

    Raises:
        NotInTimeError: a component of Karmada ended before it. Specs without the component show nothing.
    """
    for each in processes.ended():
        if each.name.startswith("karmada-"):
            raise NotInTimeError(f"{each.name} ended before the suite: {each.log}")
    return not suite.running


def _environment(plane: SuitePlane, binaries: Path, opened: ExitStack) -> dict[str, str]:
    """Start spare members, and return the variables that the suite needs: it calls ``go`` and ``docker``."""
    home = plane.folder / "home"
    (home / ".kube").mkdir(parents=True)
    spares: dict[str, str] = {}
    for number in range(1, SPARES + 1):
        address = f"127.{os.getpid() % 250 + 1}.{os.getpid() // 250 % 250}.{number}"
        member = spare(f"spare{number}", plane.folder / f"spare{number}", address)
        opened.callback(member.close)
        front = Forwarder(KIND_PORT, address)
        opened.callback(front.close)
        front.add(int(member.plane.url.rpartition(":")[2]), _always)
        spares[address] = json.dumps(access(member.plane, "kubernetes"))
    programs = kind_clusters.command(plane.folder / "kind", spares)
    go = programs / "go"
    go.write_text(f'#!/bin/sh\necho "{home}"\n')
    go.chmod(0o755)
    (home / "bin").mkdir()
    if (binaries / "karmadactl").exists():
        (home / "bin" / "karmadactl").symlink_to(binaries / "karmadactl")
    pull = ";".join(f"{name}:{file}" for name, file in plane.pull.items())
    return {
        "HOME": str(home), "KUBECONFIG": str(plane.kubeconfig), "PULL_BASED_CLUSTERS": pull,
        "PATH": f"{programs}:{os.environ['PATH']}",
    }  # fmt: skip


def _always() -> bool:
    return True


def read(report: str) -> dict[tuple[str, str], Spec]:
    """Return the specs that ran, from a report of ginkgo."""
    found = {}
    for suite in json.loads(report):
        for each in suite.get("SpecReports") or ():
            if each["LeafNodeType"] == "It" and each["State"] not in ("skipped", "pending"):
                spec = _spec(each)
                found[spec.file, spec.name] = spec
    return found


def _spec(report: Mapping[str, Any]) -> Spec:
    failure = report.get("Failure") or {}
    texts = [*(report.get("ContainerHierarchyTexts") or ()), report["LeafNodeText"]]
    place = failure.get("Location") or {}
    at = f"{Path(place.get('FileName', '')).name}:{place.get('LineNumber', 0)}"
    return Spec(
        Path(report["LeafNodeLocation"]["FileName"]).name.removesuffix("_test.go"),
        " ".join(filter(None, texts)),
        report["State"] == "passed",
        report["RunTime"] / 1e9,
        f"{at} {failure['Message']}" if failure else "",
    )
