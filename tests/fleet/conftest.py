"""The fleet of the scenarios: one for the run, with a part of the time line for each test."""

import shutil
from collections.abc import Iterator

import pytest
from e2e.assets import binary
from e2e.conftest import needed
from e2e.control_plane import crd_folder
from e2e.processes import sigterm_as_ctrl_c
from fleet.chaos import start
from fleet.fleet import Fleet
from fleet.invariants import Invariants
from fleet.observer import shown
from fleet.real_karmada import binaries


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"):
        needed(lambda name=name: binary(name))
    needed(lambda: binaries() or crd_folder())
    with sigterm_as_ctrl_c():
        fleet = start(folder / "run")
        try:
            yield fleet
        finally:
            fleet.close()
            for etcd in folder.rglob("etcd"):
                shutil.rmtree(etcd, ignore_errors=True)


@pytest.fixture
def fleet(running: Fleet, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    """The fleet at rest. After the test its part of the time line is written, and held against the invariants."""
    begin = len(running.observer.lines)
    try:
        yield running
    finally:
        lines = running.observer.lines[begin:]
        text = "\n".join(map(shown, lines))
        (running.folder / f"{request.node.name}.txt").write_text(text + "\n")
        running.clear()
    found = Invariants().read(lines)
    assert not found, "\n".join(f"{at_s:8.2f}  {problem}" for at_s, problem in found)
