"""The command doctor: options, report, and adoption."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from doctor_facts import DAY, HOST, NOW, SETUP, deployment, healthy, lease, not_called, webhooks
from kube_in_memory import ScriptedClient
from tables import cases, data

from berthmaster.deciding.lease_record import SourcesRecord
from berthmaster.kube.kubeconfig import ClusterAccess
from berthmaster.kube.manner import RequestManner
from berthmaster.model.errors import InputError
from berthmaster.model.foreign_texts import call_failure, denying_webhook, failed_webhook
from berthmaster_cli.doctor import command as module
from berthmaster_cli.doctor.command import command
from berthmaster_cli.doctor.facts import BindingFacts, EndpointFacts, FleetFacts, ProbeFacts, Unobserved
from berthmaster_cli.doctor.findings import Severity
from berthmaster_cli.doctor.judge.adoption import ADOPTION_GROUPS, adoption
from berthmaster_cli.doctor.judge.call_failures import diagnosis_of

VERSION = {"gitVersion": "v1.34.1", "major": "1", "minor": "34"}
CONNECT = "berthmaster.kube.http_client.connect"


@pytest.fixture(autouse=True)
def access(monkeypatch):
    """Any file is a kubeconfig."""

    def found(file=None, context=None):
        return ClusterAccess((file or Path("default"),), context or "", "")

    monkeypatch.setattr("berthmaster.kube.kubeconfig.find_access", found)


@pytest.fixture
def run(monkeypatch):
    collectors = []

    def one(*arguments, facts=None):
        monkeypatch.setattr(CONNECT, lambda access: access)

        def collector(**given):
            collectors.append(given)
            return type("Collector", (), {"collect": lambda _: facts or healthy()})()

        monkeypatch.setattr(module, "Collector", collector)
        result = CliRunner().invoke(command, [*arguments], catch_exceptions=False)
        return result, collectors[-1] if collectors else {}

    return one


def test_the_adoption_is_shown_with_the_next_step_and_the_way_back(run):
    result, given = run("--adoption")
    assert given["groups"] == ADOPTION_GROUPS
    assert "step 6, moves (docs/adopt.md)" in result.stdout
    assert "-> berthmaster plan -f predecessor.yaml --delete" in result.stdout
    assert result.exit_code == 0


def test_the_report_of_a_broken_installation(run, golden):
    facts = healthy(
        webhooks=webhooks(fails_closed=False),
        endpoints=(EndpointFacts(HOST, 443, "unresolved"),),
        dry_run=not_called("tls: failed to verify certificate: x509: certificate is valid for a.svc, not b.svc"),
        lease=lease(holder=""),
        fleet=FleetFacts(3, not_ready=("member2",)),
        bindings=BindingFacts({"berthmaster": 4}),
        deployments=None,
    )
    golden("doctor-on-a-broken-installation.txt", run(facts=facts)[0].stdout)


def test_the_report_of_a_healthy_installation(run, golden):
    golden("doctor-on-a-healthy-installation.txt", run()[0].stdout)


def test_verbose_shows_passed_checks(run):
    line = "ok       controllers/leader: controllers-0 leads; it renewed its lease 3 s ago\n"
    assert line in run("--verbose")[0].stdout


def test_text_in_findings_is_not_read_as_markup(run):
    assert "[bold]a[/x]" in run(facts=healthy(fleet=Unobserved("[bold]a[/x]")))[0].stdout


@cases(
    ("facts", "flags", "code"),
    {
        "every check passes": (healthy(), [], 0),
        "a check fails": (healthy(lease=None), [], 1),
        "a check warns": (healthy(fleet=FleetFacts(0)), [], 0),
        "a check warns in strict mode": (healthy(fleet=FleetFacts(0)), ["--strict"], 1),
        "the failing part is skipped": (healthy(lease=None), ["--skip=controllers", "--skip=fleet"], 0),
        "the failing part comes after the installation": (healthy(lease=None), ["--before-install"], 0),
    },
)
def test_exit_codes(run, facts, flags, code):
    assert run(*flags, facts=facts)[0].exit_code == code


@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_data_has_the_worst_findings_first(run, output, read):
    result, _ = run("-o", output, facts=healthy(lease=None, fleet=FleetFacts(0), probes=(ProbeFacts("u", 0, "no"),)))
    data = read(result.stdout)
    bad = [each for each in data["findings"] if each["verdict"] != "ok"]
    assert [each["check"] for each in bad] == [
        "controllers/leader", "fleet/scheduler", "probes/ready", "fleet/clusters",
    ]  # fmt: skip
    assert set(bad[0]) == {"group", "check", "verdict", "message", "remedy"}
    assert bad[0]["verdict"] == "failed"
    assert data["findings"][: len(bad)] == bad
    assert data["summary"] == {"failed": 3, "warning": 1, "skipped": 0, "ok": len(data["findings"]) - 4}


@pytest.mark.parametrize("flags", [["--skip=nothing"], ["-o", "xml"], ["--timeout-s=0"], ["--nonsense"]])
def test_bad_usage_exits_with_2(flags):
    assert CliRunner().invoke(command, flags).exit_code == 2


def test_an_unknown_controller_is_bad_input(run):
    with pytest.raises(InputError, match="no-such-controller"):
        run("--controllers=no-such-controller")


def test_remedies_use_the_given_kubeconfig_files_and_contexts(run):
    _, given = run("--kubeconfig=h", "--target-kubeconfig=t", "--target-context=k")
    assert (given["setup"].host, given["setup"].target) == (
        "kubectl --kubeconfig=h",
        "kubectl --kubeconfig=t --context=k",
    )
    assert not given["setup"].single
    assert given["host"] != given["target"]
    assert given["asker"] is given["target"]
    _, given = run("--kubeconfig=h")
    assert given["setup"].single
    assert given["host"] is given["target"]


def test_requests_are_sent_as_one_user_and_the_rights_are_those_of_another(run):
    _, given = run("--kubeconfig=t", "--host-kubeconfig=h", "--as=jane", "--as-group=dev", "--rights-of=them")
    assert {given[each].manner for each in ("target", "host")} == {RequestManner("jane", ("dev",), 5.0)}
    assert given["asker"] == given["target"]._replace(manner=RequestManner("them", (), 5.0))


@cases(
    ("flags", "host", "target"),
    {
        "both files": (
            ["--kubeconfig=t", "--host-kubeconfig=h"],
            "kubectl --kubeconfig=h",
            "kubectl --kubeconfig=t",
        ),
        "two contexts of a file": (
            ["--kubeconfig=f", "--context=t", "--host-context=h"],
            "kubectl --kubeconfig=f --context=h",
            "kubectl --kubeconfig=f --context=t",
        ),
        "the host alone": (["--host-kubeconfig=h"], "kubectl --kubeconfig=h", "kubectl"),
    },
)
def test_the_kubeconfig_is_that_of_the_control_plane(run, flags, host, target):
    _, given = run(*flags)
    assert (given["setup"].host, given["setup"].target, given["setup"].single) == (host, target, False)


def test_old_and_new_names_of_kubeconfig_files_cannot_be_combined():
    found = CliRunner().invoke(command, ["--target-kubeconfig=t", "--host-kubeconfig=h"])
    assert (found.exit_code, "cannot be combined" in found.output) == (2, True)


@pytest.mark.parametrize(
    ("flags", "controllers"),
    [
        ([], ("binding-scheduler",)),
        (["--feature-gates=PolicyPreemption=true"], ("binding-scheduler", "preemption")),
        (["--controllers=*,workload-rebalancer"], ("binding-scheduler", "workload-rebalancer")),
    ],
)
def test_permissions_are_checked_for_the_controllers_that_run(run, flags, controllers):
    assert run(*flags)[1]["setup"].controllers == controllers


def test_a_server_without_karmada(monkeypatch):
    monkeypatch.setattr(CONNECT, lambda _: ScriptedClient({"GET /version": VERSION}, now=NOW))
    result = CliRunner().invoke(command, ["-o", "json", "--timeout-s=1"], catch_exceptions=False)
    assert result.exit_code == 1
    found = {each["check"]: each for each in json.loads(result.stdout)["findings"]}
    assert found["definitions/served"]["verdict"] == Severity.FAILED
    assert "_crds" not in result.stdout, "its definitions belong into another API server"
    assert SETUP.release == "berthmaster"


FORBIDDEN = Unobserved("GET /x: 403 not allowed", 403)
THEIRS = {"bindings": BindingFacts({"default-scheduler": 4})}
NOTHING = {"webhooks": (), "lease": None, "deployments": (deployment("karmada-scheduler"),), **THEIRS}
MOVING = replace(lease(), sources=SourcesRecord(failback="DryRun"))
LEDGER = deployment("controllers", "--ledger=sqlite:////ledger.db")


@cases(
    ("facts", "reached"),
    {
        "no right to read": ({**NOTHING, "bindings": FORBIDDEN}, 0),
        "read only": (NOTHING, 1),
        "the webhook": ({**NOTHING, "webhooks": webhooks()}, 3),
        "shadow mode": ({**NOTHING, "deployments": (deployment("controllers", "--shadow"),)}, 4),
        "controllers without a binding": ({**NOTHING, "lease": lease()}, 1),
        "bindings without controllers": ({**NOTHING, "bindings": BindingFacts({"berthmaster": 4})}, 1),
        "one policy, and the host is not known": ({"deployments": None}, 5),
        "moves as a dry run": ({"lease": MOVING}, 6),
        "moves of controllers that ended": ({"lease": replace(MOVING, holder="")}, 3),
        "moves of controllers that crashed": ({"lease": replace(MOVING, renewed=NOW - DAY)}, 3),
        "moves are off": ({"lease": replace(lease(), sources=SourcesRecord())}, 5),
        "a ledger without a console": ({"deployments": (LEDGER,)}, 5),
        "the ledger and the console": ({"deployments": (LEDGER, deployment("console"))}, 7),
    },
)
def test_the_step_that_is_reached(facts, reached):
    found = adoption(healthy(**facts))
    assert (found.reached.number if found.reached else 0) == reached
    assert (found.next.number if found.next else 8) == reached + 1


def test_commands_reach_the_servers_that_the_user_named():
    found = adoption(healthy(**NOTHING))
    assert found.reached.back == (
        f"{SETUP.target} delete clusterrolebinding berthmaster-reader",
        f"{SETUP.target} delete -f docs/read-only.yaml",
    )


URL = "https://refused.no-such-host.svc:443/mutate?timeout=3s"


@pytest.mark.parametrize(
    ("words", "name"), [(each, name) for name, texts in data("call_failures").items() for each in texts]
)
def test_the_message_determines_the_failure(words, name):
    problem = f'failed calling webhook "w.berthmaster.io": failed to call webhook: Post "{URL}": {words}'
    found = diagnosis_of(call_failure(problem), webhooks()[0], SETUP)
    assert found.name == name
    assert f"{HOST}:443" in found.message
    assert "kubectl" in found.remedy or "helm" in found.remedy or "--admission-control-config-file" in found.remedy


def test_the_message_names_the_webhook_that_failed_or_denied():
    problem = 'Internal error occurred: failed calling webhook "a.b.io": failed to call webhook: EOF'
    assert (failed_webhook(problem), denying_webhook(problem)) == ("a.b.io", "")
    problem = 'admission webhook "a.b.io" denied the request: no'
    assert (failed_webhook(problem), denying_webhook(problem)) == ("", "a.b.io")
