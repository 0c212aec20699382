"""The configuration file of moves, and its use."""

import json

import jsonschema_rs
import msgspec
import pytest
from fake_clock import FakeClock
from fake_metrics import FakeMetrics
from kube_in_memory import KubeInMemory
from prometheus_client import REGISTRY
from tables import cases, data

from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.moves import control
from berthmaster.controllers.moves.config_file import SCHEMA_FILE, json_schema, parse_moves_config, read_moves_config
from berthmaster.controllers.moves.control import LiveControl
from berthmaster.controllers.moves.drift_looks import LOOKS_PER_S, ROUND_S, DriftLooks
from berthmaster.controllers.moves.waiting_moves import INTERVAL_S, WaitingMoves
from berthmaster.deciding.budgets import DEFAULT_BUDGET
from berthmaster.deciding.lease_record import SOURCES
from berthmaster.deciding.move_selector import MoveSubject
from berthmaster.deciding.move_settings import RebalanceSettings
from berthmaster.kube.lease import Lease, LeaseOptions
from berthmaster.model.binding import Binding
from berthmaster.model.errors import InputError
from berthmaster.model.move import MOVE, MovePhase, MoveReason

HEAD = "apiVersion: berthmaster.io/v1alpha1\nkind: MovesConfiguration\n"


def sample(name, **labels):
    return REGISTRY.get_sample_value(f"berthmaster_moves_{name}", labels)


class Process:
    def __init__(self, path):
        self.clock, self.events = FakeClock(), FakeMetrics()
        self.lease = Lease(KubeInMemory(), LeaseOptions("karmada-system", "berthmaster-controllers", "me"), self.clock)
        context = ControllerContext(KubeInMemory(), self.clock, self.events, lease=self.lease)  # type: ignore[arg-type]
        self.control = LiveControl(context, path)

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
    assert process.control.config.pause == "All"
    path.write_text(f"{HEAD}pause: Planned\n")
    process.tick()
    assert process.control.config.pause == "Planned"


def test_a_standby_that_begins_to_lead_uses_the_file_as_it_is_then(path):
    process = Process(path)
    path.write_text(f"{HEAD}pause: None\nbudgets: [{{name: few, maxMoves: 2}}]\n")
    process.control.begin(process.clock.monotonic_s())
    assert process.control.config.pause == "None"
    assert [each.name for each in process.control.config.budgets] == ["few"]


@pytest.mark.usefixtures("at_once")
def test_an_invalid_file_leaves_the_last_valid_content_in_use_and_is_reported(path):
    process = Process(path)
    path.write_text(f"{HEAD}pause: Sometimes\nsoak: 5\n")
    process.tick()
    process.tick()
    assert process.control.config.pause == "All"
    assert sample("config_valid") == 0
    [(event,)] = process.events.calls_of("record")
    assert event.reason == "InvalidMovesConfiguration"
    assert "pause: 'Sometimes' is not accepted" in event.note
    assert "soak: 5 is a number" in event.note
    path.write_text(f"{HEAD}pause: None\n")
    process.tick()
    assert process.control.config.pause == "None"
    assert sample("config_valid") == 1


@pytest.mark.usefixtures("at_once")
def test_a_file_that_is_invalid_at_the_start_pauses_planned_moves_until_it_is_corrected(path):
    path.write_text("kind: x")
    process = Process(path)
    assert process.control.config.pause == "Planned"
    assert [event.reason for (event,) in process.events.calls_of("record")] == ["InvalidMovesConfiguration"]
    path.write_text(HEAD)
    process.tick()
    assert process.control.config.pause == "None"


@pytest.mark.usefixtures("at_once")
def test_the_lease_says_which_moves_are_on(path):
    process = Process(path)
    process.lease.try_acquire_or_renew()
    process.control.begin(process.clock.monotonic_s())
    process.lease.try_acquire_or_renew()
    assert json.loads(process.lease.annotation(SOURCES)) == {
        "drain": "On", "pause": "All", "brake": {}, "strategy": "MakeBeforeBreak", "volumes": "Keep",
        "moveBudgets": [{"name": "default", "maxMoves": 10, "maxMovesPerNamespace": 5}],
        "soak": "1m", "deadline": "15m", "moveRules": [],
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
    counts = {
        (reason, phase): sample("bindings", reason=reason.value, phase=phase.value)
        for reason in MoveReason
        for phase in MovePhase
    }
    assert {each: count for each, count in counts.items() if count} == {
        (MoveReason.DRAIN, MovePhase.STABILISING): 2, (MoveReason.FAILBACK, MovePhase.HELD_DOWN): 1,
    }  # fmt: skip
    assert sample("held_down") == 1
    assert (sample("waiting", cause="stabilising"), sample("waiting", cause="limit")) == (2, 0)


@pytest.mark.parametrize(
    ("health", "missing"), [({"old": "Healthy"}, 0), ({"new": "Unhealthy"}, 40), ({"new": "Healthy"}, 0)]
)
def test_replicas_of_a_move_that_no_healthy_cluster_runs_are_counted(path, health, missing):
    process = Process(path)
    move = {"reason": "Drain", "phase": "Surging", "source": {"old": 4}, "target": {"new": 4}}
    process.tick(seconds=0)
    before = sample("replica_seconds_below_wanted_total")
    process.tick(binding(clusters={"old": 4, "new": 4}, move=move, health=health))
    assert sample("replica_seconds_below_wanted_total") == before + missing


def test_the_replicas_of_percentages_are_counted_without_copies_of_moves(tmp_path):
    path = tmp_path / "moves.yaml"
    path.write_text(f"{HEAD}budgets: [{{name: all, replicasPercent: 10}}]\n")
    process = Process(path)
    assert process.control.totals is None
    move = {"reason": "Drain", "phase": "Surging", "source": {"old": 4}, "target": {"new": 4}}
    process.tick(binding("a", clusters={"old": 4, "new": 4}, move=move), binding("b", clusters={"m1": 3}))
    assert process.control.totals == {"all": 7}


CONFIG_FILE_HEAD = {"apiVersion": "berthmaster.io/v1alpha1", "kind": "MovesConfiguration"}
FULL = data("moves_configuration")
VALIDATOR = jsonschema_rs.validator_for(json_schema())


def parsed(document):
    return parse_moves_config(json.dumps(document).encode(), "moves.yaml")


def test_a_file_with_every_field_is_read():
    config = parsed(FULL)
    settings = config.settings_for(MoveSubject("db", {}, "", "StatefulSet"))
    assert (config.pause, settings.failback.mode, settings.failback.after_s, settings.soak_s) == (
        "Planned", "Off", 1200, 600,
    )  # fmt: skip
    assert (settings.drain.mode, settings.deadline_s, settings.hold_down_s, settings.max_hold_down_s) == (
        "DryRun", 1800, 300, 43200,
    )  # fmt: skip
    assert settings.rebalance == RebalanceSettings("DryRun", 1800, 20, 8)
    assert (config.rebalances, parsed(CONFIG_FILE_HEAD).rebalances) == (True, False)
    assert [(each.name, each.max_moves, each.replicas_percent, each.limits_failover) for each in config.budgets] == [
        ("all", 20, None, False), ("nights", None, 10, True),
    ]  # fmt: skip
    assert (config.brake.unhealthy_percent, config.brake.window_s, config.brake.settle_s) == (50, 60, 300)


def test_an_empty_configuration_drains_only_and_has_the_default_budget():
    config = parsed(CONFIG_FILE_HEAD)
    settings = config.settings_for(MoveSubject("shop"))
    assert (settings.failback.mode, settings.drain.mode, config.budgets) == ("Off", "On", (DEFAULT_BUDGET,))


def test_an_empty_list_of_budgets_sets_no_limit():
    assert parsed({**CONFIG_FILE_HEAD, "budgets": []}).budgets == ()


@pytest.mark.parametrize(("text", "mode"), [("On", "On"), ("Off", "Off"), ('"Off"', "Off"), ("DryRun", "DryRun")])
def test_a_mode_that_yaml_reads_as_a_boolean_is_the_mode(text, mode):
    data = f"apiVersion: berthmaster.io/v1alpha1\nkind: MovesConfiguration\nfailback:\n  mode: {text}\n"
    assert parse_moves_config(data.encode(), "f").defaults.failback.mode == mode


@cases(
    ("fields", "errors"),
    {
        "a duration without a unit": ({"soak": "5"}, ["soak: '5' is not a duration"]),
        "a misspelled field": ({"budget": []}, ["budget: unknown field; did you mean budgets?"]),
        "another kind": ({"kind": "Moves"}, ["kind: 'Moves' is not accepted"]),
        "a mode in lower case and a number": (
            {"failback": {"mode": "on", "headroom": 10}},
            ["failback.mode: 'on' is not accepted; accepted are Off, DryRun, On", "failback.headroom: 10 is a number"],
        ),
        "an unknown strategy": (
            {"strategy": "Both"},
            ["strategy: 'Both' is not accepted; accepted are MakeBeforeBreak, BreakBeforeMake"],
        ),
        "a mapping for a list": ({"rules": {}}, ["rules: {} is a mapping, where a list is accepted"]),
        "a rule without a selector": ({"rules": [{}]}, ["rules[0].selector: is missing"]),
        "budgets with errors of types": (
            {"budgets": [{"maxMoves": -1}, 7, {"name": "a"}, {"name": "a"}]},
            ["budgets[0].name: is missing", "budgets[0].maxMoves: -1 is out of range", "budgets[1]: 7 is a number"],
        ),
        "values that are not accepted": (
            {
                "budgets": [
                    {"name": "a", "windows": [{"schedule": "@daily", "duration": "200h", "timeZone": "Berlin"}]},
                    {"name": "a", "selector": {"labels": {"matchLabels": {"a b": "c"}}}},
                    {"name": ""},
                ],
                "brake": {"window": "0s"},
                "rebalance": {"tolerance": "2000%", "minGain": "5000%", "after": "1d"},
            },
            [
                "budgets[0].windows[0].schedule: '@daily' is not a schedule",
                "budgets[0].windows[0].duration: '200h' is too long; accepted is at most 168h",
                "budgets[0].windows[0].timeZone: 'Berlin' is not a time zone",
                "budgets[1].name: 'a' is the name of an earlier budget",
                "budgets[1].selector.labels.matchLabels[a b]: 'a b' is not a label key",
                "budgets[2].name: is empty",
                "brake.window: '0s' is too short; accepted is at least 1s",
                "rebalance.after: '1d' is not a duration",
                "rebalance.tolerance: '2000%' is too large",
                "rebalance.minGain: '5000%' is too large",
            ],
        ),
        "a percentage": ({"brake": {"unhealthyPercent": 101}}, ["brake.unhealthyPercent: 101 is out of range"]),
        "too many rules": ({"rules": [{"selector": {}}] * 257}, ["rules: has 257 entries"]),
    },
)
def test_all_errors_are_reported_with_their_paths(fields, errors):
    with pytest.raises(InputError) as error:
        parsed({**CONFIG_FILE_HEAD, **fields})
    message = str(error.value)
    assert message.startswith("moves.yaml: ")
    assert [each for each in errors if each not in message] == []


@pytest.mark.parametrize("data", [b"", b"[]", b"a: [", b"\xff", b"kind: a\n---\nkind: b\n"])
def test_something_else_than_one_mapping_is_an_error(data):
    with pytest.raises(InputError, match=r"^moves\.yaml"):
        parse_moves_config(data, "moves.yaml")


def test_a_large_file_is_an_error(tmp_path):
    path = tmp_path / "moves.yaml"
    path.write_text("#" * (2**20 + 1))
    with pytest.raises(InputError, match="larger than"):
        read_moves_config(path)


def test_the_schema_that_is_shipped_is_that_of_the_fields():
    assert json.loads(SCHEMA_FILE.read_text()) == json_schema()


@cases("document", {"the empty one": CONFIG_FILE_HEAD, "one with every field": FULL})
def test_the_schema_accepts_a_valid_configuration(document):
    VALIDATOR.validate(document)


@pytest.mark.parametrize(
    "fields",
    [{"soak": 5}, {"soak": "5q"}, {"budget": []}, {"kind": "x"}, {"failback": {"mode": "on"}}, {"rules": [{}]},
     {"budgets": [{"name": "a", "maxMoves": -1}]}, {"brake": {"unhealthyPercent": 101}}],
)  # fmt: skip
def test_the_schema_rejects_what_the_validation_rejects(fields):
    assert not VALIDATOR.is_valid({**CONFIG_FILE_HEAD, **fields})


A, B = ("shop", "a"), ("shop", "b")


def test_a_gain_brings_back_all_that_wait_once_in_an_interval():
    clock = FakeClock()
    waiting = WaitingMoves(clock)
    for key in (A, B, A):
        waiting.update(key, waits=True)
    waiting.gained(["m1"])
    waiting.gained(["m2"])
    assert waiting.take() == ([B, A], {"m1", "m2"}), "the binding that waits longest comes first"
    waiting.gained(["m1"])
    assert waiting.take() == ([], set())
    clock.pass_by(INTERVAL_S)
    assert waiting.take() == ([B, A], {"m1"})


def test_without_a_gain_or_without_bindings_nothing_is_looked_at():
    waiting = WaitingMoves(FakeClock())
    waiting.gained(["m1"])
    waiting.update(A, waits=True)
    assert waiting.take() == ([], set())
    waiting.gained(["m1"])
    waiting.update(A, waits=False)
    assert (len(waiting), waiting.take()) == (0, ([], {"m1"}))


def test_all_bindings_are_looked_at_for_drift_in_turn_and_few_each_second():
    clock = FakeClock()
    looks = DriftLooks(clock)
    keys = [("shop", f"w{number}") for number in range(10 * LOOKS_PER_S)]
    others = [("shop", f"off{number}") for number in range(1000)]
    found = []
    for _ in range(60):
        clock.pass_by(1)
        due = looks.next(lambda: [*others, *keys], lambda key: key in keys)
        assert len(due) <= LOOKS_PER_S
        found += due
    assert found[: len(keys)] == keys
    assert found[len(keys) : 2 * len(keys)] == keys, "the next round"
    assert (looks.take(keys[0]), looks.take(keys[0]), looks.take(others[0])) == (True, False, False)


def test_few_bindings_are_looked_at_for_drift_once_in_a_round():
    clock = FakeClock()
    looks = DriftLooks(clock)
    found = []
    for _ in range(int(3 * ROUND_S)):
        clock.pass_by(1)
        found += looks.next(lambda: [A], lambda _: True)
    assert found == [A] * 3
