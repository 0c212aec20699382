"""Purge modes by the names that Karmada 1.19 has removed: every command accepts them, with a warning."""

import json

import pytest
from click.testing import CliRunner
from fleet_dump import RECORD, members, stored_policy
from tables import cases

from berthmaster.model.binding import GracefulEvictionTask
from berthmaster.model.decode import convert
from berthmaster.model.policy import Policy
from berthmaster.model.policy_defaults import defaulted
from berthmaster_cli.main import main
from webhook.admission.context import AdmissionContext
from webhook.admission.linting import lint
from webhook.admission.settings import AdmissionSettings

FORMER = {"Immediately": "Directly", "Graciously": "Gracefully"}


def policy(mode, **more):
    application = {"decisionConditions": {"tolerationSeconds": 60}, "purgeMode": mode, **more}
    return stored_policy(to=["a"], propagateDeps=True, failover={"application": application}, new=True)


@pytest.fixture
def run(tmp_path):
    def run(command, mode):
        for name, objects in (("fleet", [RECORD, *members("a")]), ("policy", [policy(mode)])):
            (tmp_path / f"{name}.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        files = {"F": tmp_path / "fleet.json", "P": tmp_path / "policy.json"}
        return CliRunner().invoke(main, [str(files.get(each, each)) for each in command.split()])

    return run


@pytest.mark.parametrize("command", ["lint P", "simulate -f F -f P", "plan --against F -f P"])
@pytest.mark.parametrize("mode", FORMER)
def test_every_command_warns_about_a_former_name(run, command, mode):
    found = run(command, mode)
    assert found.exit_code == 0, found.output
    assert f"write {FORMER[mode]} if Karmada is 1.15 or newer" in found.output
    assert "write" not in run(command, FORMER[mode]).output


@cases(
    ("mode", "more", "errors"),
    {
        "a grace period beside the former name": ("Graciously", {"gracePeriodSeconds": 60}, 0),
        "the default of the grace period": ("Graciously", {}, 0),
        "no grace period beside Immediately": ("Immediately", {"gracePeriodSeconds": 60}, 1),
        "an unknown name": ("Slowly", {}, 1),
    },
)
def test_former_names_have_the_checks_of_the_names_of_today(mode, more, errors):
    found = lint(policy(mode, **more), AdmissionContext(AdmissionSettings(peer_checks=True), lambda: ""), "default")
    assert len(found.errors) == errors, found.errors


def test_a_cluster_failover_never_had_the_former_names():
    raw = stored_policy(to=["a"], failover={"cluster": {"purgeMode": "Graciously"}})
    found = lint(raw, AdmissionContext(AdmissionSettings(peer_checks=True), lambda: ""), "default")
    assert [each.path for each in found.errors] == ["spec.failover.cluster.purgeMode"]


def test_the_grace_period_of_graciously_has_the_default():
    failover = defaulted(convert(Policy, policy("Graciously"))).spec.failover
    assert failover.application.grace_period_seconds == 600


@cases("mode", {"kept": "Gracefully", "kept by its former name": "Graciously", "never deleted": "Never", "no mode": ""})
def test_a_task_keeps_the_copy(mode):
    assert GracefulEvictionTask("a", purge_mode=mode).keeps_copy


@cases("mode", {"today": "Directly", "by its former name": "Immediately"})
def test_a_task_deletes_the_copy_at_once(mode):
    assert not GracefulEvictionTask("a", purge_mode=mode).keeps_copy
