"""The versions of the parts, and whether they fit."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from kube_in_memory import ScriptedClient
from tables import cases

from berthmaster.deciding.lease_record import CONTROLLERS, ControllersRecord, text_of
from berthmaster.kube import http_client
from berthmaster.model.errors import ApiError
from berthmaster.model.releases import TRIED
from berthmaster.version import __version__
from berthmaster_cli.main import main
from berthmaster_cli.version import Versions, skew

LEASES = "GET /apis/coordination.k8s.io/v1/namespaces/karmada-system/leases"
BINDINGS = "GET /openapi/v3/apis/work.karmada.io/v1alpha2"
DAY = timedelta(days=1)
COMPATIBILITY = Path(__file__).parents[3] / "docs" / "compatibility.md"


def schemas(*fields):
    binding = {
        "x-kubernetes-group-version-kind": [
            {"group": "work.karmada.io", "version": "v1alpha2", "kind": "ResourceBinding"}
        ],
        "properties": {"spec": {"properties": {name: {"properties": {}} for name in fields}}},
    }
    return {"components": {"schemas": {"binding": binding}}}


def lease(record: ControllersRecord, renewed_at: datetime):
    return {
        "metadata": {"annotations": {CONTROLLERS: text_of(record)}},
        "spec": {"holderIdentity": "one", "renewTime": renewed_at.isoformat()},
    }


ANSWERS = {
    "GET /version": {"gitVersion": "v1.36.0"},
    BINDINGS: schemas("components", "workloadAffinityGroups"),
    # This file is read long before its tests run, so the Lease is renewed in the future.
    f"{LEASES}/berthmaster-controllers": lease(ControllersRecord(version=__version__), datetime.now(UTC) + DAY),
}


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """A function that runs the command on a control plane with these answers."""
    user = {"name": "me", "user": {}}
    cluster = {"name": "karmada", "cluster": {"server": "http://127.0.0.1:9"}}
    context = {"name": "karmada", "context": {"cluster": "karmada", "user": "me"}}
    config = {"users": [user], "clusters": [cluster], "contexts": [context], "current-context": "karmada"}
    (tmp_path / "config").write_text(json.dumps(config))

    def ask(*words, answers=ANSWERS):
        monkeypatch.setattr(http_client, "connect", lambda _: ScriptedClient(answers))
        words = ["version", "--kubeconfig", str(tmp_path / "config"), *words]
        return CliRunner().invoke(main, words, prog_name="berthmaster")

    return ask


def test_all_parts_have_their_version(asked):
    found = json.loads(asked("-o", "json").stdout)
    assert found["client"] == found["controllers"] == __version__
    assert (found["controllersRun"], found["karmada"], found["kubernetes"]) == (True, "1.17", "v1.36.0")
    assert (found["problems"], found["gaps"], found["extender"]) == ([], [], None)


def test_a_table_has_a_line_for_each_part(asked):
    lines = asked().stdout.splitlines()
    assert [re.split(r"  +", each)[:2] for each in lines[1:]] == [
        ["command", __version__], ["controllers", __version__], ["Karmada", "1.17"], ["API server", "v1.36.0"],
    ]  # fmt: skip
    assert lines[3].endswith("tried with 1.16.8, 1.17.5, 1.18.2, master")


@cases(
    ("changed", "gap"),
    {
        "a Kubernetes without Karmada": ({BINDINGS: None}, "this API server has no definitions of Karmada"),
        "no Lease": ({f"{LEASES}/berthmaster-controllers": None}, "there is no Lease karmada-system/berthmaster"),
        "no right": ({f"{LEASES}/berthmaster-controllers": ApiError(403, "Forbidden", "no")}, "no right to get the"),
        "no answer": ({"GET /version": ApiError(0, "", "refused")}, "the control plane does not answer: refused"),
    },
)
def test_what_cannot_be_read_is_said(asked, changed, gap):
    result = asked("--check", answers={**ANSWERS, **changed})
    assert gap in result.stderr
    assert result.exit_code == 1
    assert asked(answers={**ANSWERS, **changed}).exit_code == 0


def test_controllers_that_stopped_are_said_to(asked):
    stopped = lease(ControllersRecord(version=__version__), datetime(2026, 1, 1, tzinfo=UTC))
    lines = asked(answers={**ANSWERS, f"{LEASES}/berthmaster-controllers": stopped}).stdout
    assert "no controller renews the Lease now" in lines


def test_without_a_kubeconfig_the_command_has_its_version(monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    result = CliRunner().invoke(main, ["version"])
    assert (result.exit_code, __version__ in result.stdout) == (0, True)
    assert "the control plane is not asked" in result.stderr
    assert CliRunner().invoke(main, ["version", "--client"]).output == f"{__version__}\n"


@cases(
    ("versions", "problem"),
    {
        "the same": (Versions("0.2.0", controllers="0.2.0", extender="0.2.0"), None),
        "another patch": (Versions("0.2.0", controllers="0.2.7"), None),
        "another minor version": (Versions("0.2.0", controllers="0.3.0"), "the controllers have version 0.3.0"),
        "an old extender": (Versions("0.2.0", extender="0.1.0"), "the extender has version 0.1.0"),
        "none on record": (Versions("0.2.0", controllers="not recorded"), "the controllers have no version on record"),
        "an old Karmada": (Versions("0.2.0", karmada="older than 1.15"), "the oldest supported release is 1.15"),
        "a new Karmada": (
            Versions("0.2.0", karmada="1.19", unknown_fields=("spec.placement.x",)),
            "(spec.placement.x)",
        ),
    },
)
def test_skew(versions, problem):
    found = skew(versions)
    assert (problem is None) == (found == [])
    assert problem is None or problem in found[0]


def test_the_releases_that_were_tried_are_those_of_the_page():
    section = COMPATIBILITY.read_text().split("## Releases that were tried")[1]
    (header,) = [line for line in section.splitlines() if line.startswith("| | ")]
    assert tuple(each.strip(" `") for each in header.strip("|").split("|")[1:]) == TRIED
