"""A fleet in two regions, and a command on a file of tests beside it."""

import json

import pytest
from click.testing import CliRunner
from fleet_dump import DIVIDED, RECORD, members, stored_binding, stored_policy, stored_template

from berthmaster_cli.main import main

HEAD = """\
apiVersion: test.berthmaster.io/v1alpha1
kind: PlacementTest
metadata: {name: a test}
"""
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config, namespace: default}\n"
_ZONES = {"eu-1": "eu-1a", "eu-2": "eu-2a", "us-1": "us-1a", "us-2": "us-2a"}


def group(name, *clusters):
    return {"affinityName": name, "clusterNames": list(clusters)}


def named(name):
    return {"target": {"name": name}}


def fleet():
    """checkout: two groups, 6 replicas in eu. web: on eu-1 only. stuck: nowhere."""
    clusters = [
        {**each, "spec": {**each["spec"], "region": name[:2], "provider": "own", "zones": [_ZONES[name]]}}
        for each in members(*_ZONES)
        if (name := each["metadata"]["name"])
    ]
    groups = {"clusterAffinities": [group("main", "eu-1", "eu-2"), group("backup", "us-1", "us-2")], **DIVIDED}
    checkout = stored_policy("checkout", placement=groups, **named("checkout"))
    web = stored_policy("web", to=["eu-1"], placement=DIVIDED, **named("web"))
    stuck = stored_policy("stuck", to=["elsewhere"], placement=DIVIDED, **named("stuck"))
    idle = stored_policy("idle", to=["eu-1"], **named("nothing"))
    templates = {
        name: stored_template(name=name, replicas=6 if name == "checkout" else 2, held_by=each)
        for each in (checkout, web, stuck)
        if (name := each["metadata"]["name"])
    }
    return [
        RECORD, *clusters, checkout, web, stuck, idle, *templates.values(),
        stored_binding(templates["checkout"], {"eu-1": 3, "eu-2": 3}, policy=checkout, replicas=6, observed="main"),
        stored_binding(templates["web"], {"eu-1": 2}, policy=web, replicas=2),
        stored_binding(templates["stuck"], {}, policy=stuck, replicas=2),
    ]  # fmt: skip


@pytest.fixture
def tested(tmp_path, monkeypatch):
    """Run ``berthmaster test`` on the text of a file beside the fleet."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fleet").mkdir()
    (tmp_path / "fleet" / "dump.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": fleet()}))

    (tmp_path / "config.yaml").write_text(CONFIG)

    def test(text, *words, head=HEAD, path="tests.yaml"):
        (tmp_path / path).write_text(head + text)
        return CliRunner().invoke(main, ["test", path, *words], prog_name="berthmaster")

    return test
