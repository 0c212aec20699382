import json

import jsonschema_rs
import pytest
import yaml

from berthmaster.controllers.moves.config_file import SCHEMA_FILE, json_schema, parse_moves_config, read_moves_config
from berthmaster.deciding.config import DEFAULT_BUDGET, MoveSubject
from berthmaster.model.errors import InputError

HEAD = {"apiVersion": "berthmaster.io/v1alpha1", "kind": "MovesConfiguration"}
FULL = {
    **HEAD,
    "pause": "Planned",
    "failback": {"mode": "On", "after": "20m", "headroom": "5%"},
    "drain": {"mode": "DryRun", "after": "0"},
    "strategy": "BreakBeforeMake",
    "soak": "2m",
    "deadline": "30m",
    "holdDown": {"initial": "5m", "max": "12h"},
    "rules": [
        {"selector": {"namespaces": ["db"], "kinds": ["StatefulSet"]}, "failback": {"mode": "Off"}, "soak": "10m"},
        {"selector": {"labels": {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["1"]}]}}},
    ],
    "budgets": [
        {"name": "all", "maxMoves": 20, "maxMovesPerPolicy": 2, "maxMovesFromCluster": 5, "maxMovesToCluster": 4},
        {
            "name": "nights", "selector": {"policies": ["shop/web"]}, "replicasPercent": 10, "limitsFailover": True,
            "windows": [{"schedule": "0 22 * * MON-FRI", "duration": "6h", "timeZone": "Europe/Berlin"}],
        },
    ],
    "brake": {"enabled": True, "unhealthyPercent": 50, "minClusters": 2, "window": "1m", "settle": "5m"},
}  # fmt: skip
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
    assert [(each.name, each.max_moves, each.replicas_percent, each.limits_failover) for each in config.budgets] == [
        ("all", 20, None, False), ("nights", None, 10, True),
    ]  # fmt: skip
    assert (config.brake.unhealthy_percent, config.brake.window_s, config.brake.settle_s) == (50, 60, 300)


def test_an_empty_configuration_drains_only_and_has_the_default_budget():
    config = parsed(HEAD)
    settings = config.settings_for(MoveSubject("shop"))
    assert (settings.failback.mode, settings.drain.mode, config.budgets) == ("Off", "On", (DEFAULT_BUDGET,))


def test_an_empty_list_of_budgets_sets_no_limit():
    assert parsed({**HEAD, "budgets": []}).budgets == ()


@pytest.mark.parametrize(("text", "mode"), [("On", "On"), ("Off", "Off"), ('"Off"', "Off"), ("DryRun", "DryRun")])
def test_a_mode_that_yaml_reads_as_a_boolean_is_the_mode(text, mode):
    data = f"apiVersion: berthmaster.io/v1alpha1\nkind: MovesConfiguration\nfailback:\n  mode: {text}\n"
    assert parse_moves_config(data.encode(), "f").defaults.failback.mode == mode


@pytest.mark.parametrize(
    ("fields", "errors"),
    [
        pytest.param({"soak": "5"}, ["soak: '5' is not a duration"], id="a duration without a unit"),
        pytest.param({"budget": []}, ["budget: unknown field; did you mean budgets?"], id="a misspelled field"),
        pytest.param({"kind": "Moves"}, ["kind: 'Moves' is not accepted"], id="another kind"),
        pytest.param(
            {"failback": {"mode": "on", "headroom": 10}},
            ["failback.mode: 'on' is not accepted; accepted are Off, DryRun, On", "failback.headroom: 10 is an int"],
            id="a mode in lower case and a number",
        ),
        pytest.param(
            {"strategy": "Both"},
            ["strategy: 'Both' is not accepted; accepted are MakeBeforeBreak, BreakBeforeMake"],
            id="an unknown strategy",
        ),
        pytest.param({"rules": {}}, ["rules: {} is an object; accepted is array"], id="a mapping for a list"),
        pytest.param({"rules": [{}]}, ["rules[0].selector: is missing"], id="a rule without a selector"),
        pytest.param(
            {"budgets": [{"maxMoves": -1}, 7, {"name": "a"}, {"name": "a"}]},
            ["budgets[0].name: is missing", "budgets[0].maxMoves: -1 is out of range", "budgets[1]: 7 is an int"],
            id="budgets with errors of types",
        ),
        pytest.param(
            {
                "budgets": [
                    {"name": "a", "windows": [{"schedule": "@daily", "duration": "200h", "timeZone": "Berlin"}]},
                    {"name": "a", "selector": {"labels": {"matchLabels": {"a b": "c"}}}},
                    {"name": ""},
                ],
                "brake": {"window": "0s"},
            },
            [
                "budgets[0].windows[0].schedule: '@daily' is not a schedule",
                "budgets[0].windows[0].duration: '200h' is too long; accepted is at most 168h",
                "budgets[0].windows[0].timeZone: 'Berlin' is not a time zone",
                "budgets[1].name: 'a' is the name of an earlier budget",
                "budgets[1].selector.labels.matchLabels[a b]: 'a b' is not a label key",
                "budgets[2].name: is empty",
                "brake.window: '0s' is too short; accepted is at least 1s",
            ],
            id="values that are not accepted",
        ),
        pytest.param(
            {"brake": {"unhealthyPercent": 101}}, ["brake.unhealthyPercent: 101 is out of range"], id="a percentage"
        ),
        pytest.param({"rules": [{"selector": {}}] * 257}, ["rules: has 257 entries"], id="too many rules"),
    ],
)
def test_all_errors_are_reported_with_their_paths(fields, errors):
    with pytest.raises(InputError) as error:
        parsed({**HEAD, **fields})
    message = str(error.value)
    assert message.startswith("moves.yaml: ")
    assert [each for each in errors if each not in message] == []


@pytest.mark.parametrize("data", [b"", b"[]", b"a: [", b"\xff", b"kind: a\n---\nkind: b\n"])
def test_something_else_than_one_mapping_is_an_error(data):
    with pytest.raises(InputError, match=r"^moves\.yaml"):
        parse_moves_config(data, "moves.yaml")


def test_a_file_is_read_from_its_path(tmp_path):
    path = tmp_path / "moves.yaml"
    path.write_text(yaml.safe_dump(FULL))
    assert read_moves_config(path).pause == "Planned"


def test_a_large_file_is_an_error(tmp_path):
    path = tmp_path / "moves.yaml"
    path.write_text("#" * (2**20 + 1))
    with pytest.raises(InputError, match="larger than"):
        read_moves_config(path)


def test_the_schema_that_is_shipped_is_that_of_the_fields():
    assert json.loads(SCHEMA_FILE.read_text()) == json_schema()


@pytest.mark.parametrize("document", [HEAD, FULL], ids=["the empty one", "one with every field"])
def test_the_schema_accepts_a_valid_configuration(document):
    VALIDATOR.validate(document)


@pytest.mark.parametrize(
    "fields",
    [{"soak": 5}, {"soak": "5q"}, {"budget": []}, {"kind": "x"}, {"failback": {"mode": "on"}}, {"rules": [{}]},
     {"budgets": [{"name": "a", "maxMoves": -1}]}, {"brake": {"unhealthyPercent": 101}}],
)  # fmt: skip
def test_the_schema_rejects_what_the_validation_rejects(fields):
    assert not VALIDATOR.is_valid({**HEAD, **fields})
