import json

import msgspec
import pytest
from fake_clock import FakeClock
from fake_metrics import FakeMetrics
from kube_in_memory import KubeInMemory

from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.moves import control
from berthmaster.controllers.moves.control import LiveControl
from berthmaster.deciding.lease_record import SOURCES
from berthmaster.kube.lease import Lease, LeaseOptions
from berthmaster.model.binding import Binding
from berthmaster.model.errors import InputError
from berthmaster.model.move import MOVE, MovePhase, MoveReason

HEAD = "apiVersion: berthmaster.io/v1alpha1\nkind: MovesConfiguration\n"


class Process:
    def __init__(self, path):
        self.clock, self.metrics, self.events = FakeClock(), FakeMetrics(), FakeMetrics()
        self.lease = Lease(KubeInMemory(), LeaseOptions("karmada-system", "berthmaster-controllers", "me"), self.clock)
        context = ControllerContext(KubeInMemory(), self.clock, self.events, None, lease=self.lease)  # type: ignore[arg-type]
        self.control = LiveControl(context, path, self.metrics)

    def tick(self, *bindings, seconds=10.0):
        self.clock.pass_by(seconds)
        pairs = [(each.metadata.key, each) for each in bindings]
        self.control.tick(pairs, pairs)


@pytest.fixture
def at_once(monkeypatch):
    """A file is checked at each tick: ``ReloadedFiles`` has a clock of its own."""
    monkeypatch.setattr(control, "_CHECK_S", 0.0)


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "moves.yaml"
    found.write_text(f"{HEAD}pause: All\n")
    return found


def binding(name="web", clusters=None, move=None, health=None, **spec):
    annotations = {} if move is None else {MOVE: json.dumps(move)}
    raw = {
        "metadata": {"name": name, "namespace": "shop", "annotations": annotations},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "clusters": [{"name": each, "replicas": count} for each, count in (clusters or {"old": 4}).items()], **spec,
        },
        "status": {
            "aggregatedStatus": [{"clusterName": each, "health": state} for each, state in (health or {}).items()]
        },
    }  # fmt: skip
    return msgspec.convert(raw, Binding)


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(InputError, match=r"--moves-config .*absent\.yaml: cannot be read"):
        Process(tmp_path / "absent.yaml")


@pytest.mark.usefixtures("at_once")
def test_a_changed_file_is_used_without_a_restart(path):
    process = Process(path)
    assert process.control.config().pause == "All"
    path.write_text(f"{HEAD}pause: Planned\n")
    process.tick()
    assert process.control.config().pause == "Planned"


@pytest.mark.usefixtures("at_once")
def test_an_invalid_file_leaves_the_last_valid_content_in_use_and_is_reported(path):
    process = Process(path)
    path.write_text(f"{HEAD}pause: Sometimes\nsoak: 5\n")
    process.tick()
    process.tick()
    assert process.control.config().pause == "All"
    assert "pause: 'Sometimes' is not accepted" in process.metrics.calls_of("config_problem")[-1][0]
    [(event,)] = process.events.calls_of("record")
    assert event.reason == "InvalidMovesConfiguration"
    assert "pause: 'Sometimes' is not accepted" in event.note
    assert "soak: 5 is an int" in event.note
    path.write_text(f"{HEAD}pause: None\n")
    process.tick()
    assert process.control.config().pause == "None"


@pytest.mark.usefixtures("at_once")
def test_a_file_that_is_invalid_at_the_start_pauses_planned_moves_until_it_is_corrected(path):
    path.write_text("kind: x")
    process = Process(path)
    assert process.control.config().pause == "Planned"
    assert [event.reason for (event,) in process.events.calls_of("record")] == ["InvalidMovesConfiguration"]
    path.write_text(HEAD)
    process.tick()
    assert process.control.config().pause == "None"


@pytest.mark.usefixtures("at_once")
def test_the_lease_says_which_moves_are_on(path):
    process = Process(path)
    process.lease.try_acquire_or_renew()
    process.control.begin(process.clock.monotonic_s())
    process.lease.try_acquire_or_renew()
    assert json.loads(process.lease.annotation(SOURCES)) == {
        "drain": "On", "pause": "All", "budgets": [{"name": "default", "maxMoves": 10}], "brake": {},
    }  # fmt: skip
    path.write_text("{}")
    process.tick()
    process.lease.try_acquire_or_renew()
    assert "apiVersion: is missing" in json.loads(process.lease.annotation(SOURCES))["problem"]


def test_a_process_without_a_file_clears_what_an_earlier_leader_recorded():
    process = Process(None)
    process.lease.annotate(SOURCES, "{}")
    process.lease.try_acquire_or_renew()
    process.lease.try_acquire_or_renew()
    process.control.begin(process.clock.monotonic_s())
    process.lease.try_acquire_or_renew()
    assert process.lease.annotation(SOURCES) is None


def test_bindings_are_counted_by_reason_and_phase(path):
    process = Process(path)
    until = "2027-01-01T00:00:00Z"
    process.tick(
        binding("a", move={"reason": "Drain", "phase": "Stabilising"}),
        binding("b", move={"reason": "Drain", "phase": "Stabilising"}),
        binding("c", move={"reason": "Failback", "phase": "HeldDown", "heldDownUntil": until}), binding("d"),
    )  # fmt: skip
    [(counts, held_down)] = process.metrics.calls_of("bindings")
    assert counts == {
        (MoveReason.DRAIN, MovePhase.STABILISING): 2, (MoveReason.FAILBACK, MovePhase.HELD_DOWN): 1,
    }  # fmt: skip
    assert held_down == 1
    assert process.metrics.calls_of("waiting") == [({"stabilising": 2},)]


@pytest.mark.parametrize(
    ("health", "missing"), [({"old": "Healthy"}, []), ({"new": "Unhealthy"}, [(40.0,)]), ({"new": "Healthy"}, [])]
)
def test_replicas_of_a_move_that_no_healthy_cluster_runs_are_counted(path, health, missing):
    process = Process(path)
    move = {"reason": "Drain", "phase": "Surging", "source": {"old": 4}, "target": {"new": 4}}
    process.tick(seconds=0)
    process.tick(binding(clusters={"old": 4, "new": 4}, move=move, health=health))
    assert process.metrics.calls_of("below_wanted") == missing


def test_the_replicas_of_percentages_are_counted_without_copies_of_moves(tmp_path):
    path = tmp_path / "moves.yaml"
    path.write_text(f"{HEAD}budgets: [{{name: all, replicasPercent: 10}}]\n")
    process = Process(path)
    assert process.control.totals() is None
    move = {"reason": "Drain", "phase": "Surging", "source": {"old": 4}, "target": {"new": 4}}
    process.tick(binding("a", clusters={"old": 4, "new": 4}, move=move), binding("b", clusters={"m1": 3}))
    assert process.control.totals() == {"all": 7}
