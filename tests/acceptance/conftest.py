"""The fixture ``scene``: a scenario runs on the model in memory, and on the Karmada that the environment names."""

import os
import uuid
from collections.abc import Iterator

import pytest
from acceptance import federation
from acceptance.live import OWN_GATES, KarmadaPlane, connect, kubeconfig, start_controllers
from acceptance.planes import FAILOVER_AFTER_S, MOVES_CONFIG, ModelPlane, Plane
from acceptance.scenes import Scene
from e2e.processes import Process, Processes, sigterm_as_ctrl_c

collect_ignore = [] if federation.kubeconfig() is not None else ["test_kubeadmiral.py"]
collect_ignore += [] if kubeconfig() is not None else ["test_shadow_mode.py"]
PLANES = ("model", "karmada") if kubeconfig() is not None else ("model",)


@pytest.fixture(scope="session")
def unique() -> str:
    return uuid.uuid4().hex[:6]


@pytest.fixture(scope="session")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """All child processes of the run. They are stopped at its end, also after Ctrl-C and SIGTERM."""
    children = Processes(tmp_path_factory.mktemp("acceptance"))
    with sigterm_as_ctrl_c():
        try:
            yield children
        finally:
            children.stop_all()


@pytest.fixture(scope="session")
def berthmaster(unique: str, processes: Processes) -> Process:
    """Berthmaster's controllers on the Karmada of the environment, with a scheduler name of their own."""
    return start_controllers(
        processes,
        scheduler_name(unique),
        f"--controllers={os.environ.get('ACCEPTANCE_CONTROLLERS', 'binding-scheduler')}",
        "--failover=not-ready",
        f"--failover-toleration-s={FAILOVER_AFTER_S}",
        f"--moves-config={MOVES_CONFIG}",
        f"--feature-gates={','.join(OWN_GATES)}",
    )


@pytest.fixture(params=PLANES)
def plane(request: pytest.FixtureRequest) -> Iterator[Plane]:
    if request.param == "model":
        yield ModelPlane()
        return
    unique = request.getfixturevalue("unique")
    process = request.getfixturevalue("berthmaster")
    children = request.getfixturevalue("processes")
    live = KarmadaPlane(connect(), scheduler_name(unique), process, children, f"{unique}{uuid.uuid4().hex[:3]}")
    try:
        yield live
    finally:
        live.close()


@pytest.fixture
def scene(plane: Plane) -> Iterator[Scene]:
    made = Scene(plane)
    yield made
    made.clear()


def scheduler_name(unique: str) -> str:
    return f"berthmaster-{unique}"
