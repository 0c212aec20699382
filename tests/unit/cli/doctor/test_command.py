"""The options, the report and the exit codes of the doctor."""

import json

import pytest
import yaml
from click.testing import CliRunner
from doctor_facts import HOST, NOW, SETUP, diagnose, healthy, lease, not_called, webhooks
from kube_in_memory import ScriptedClient
from rich.console import Console

from berthmaster.model.errors import InputError
from berthmaster_cli.doctor import command as module
from berthmaster_cli.doctor.command import as_data, command, print_findings
from berthmaster_cli.doctor.facts import BindingFacts, EndpointFacts, FleetFacts
from berthmaster_cli.doctor.finding import Severity, failed, ok, warning
from berthmaster_cli.doctor.judge.adoption import ADOPTION_GROUPS

VERSION = {"gitVersion": "v1.34.1", "major": "1", "minor": "34"}
LOAD_CLIENT = "berthmaster.kube.http_client.load_client"


@pytest.fixture
def run(monkeypatch):
    collectors = []

    def one(*arguments, facts=None):
        monkeypatch.setattr(LOAD_CLIENT, lambda *access: access)

        def collector(**given):
            collectors.append(given)
            return type("Collector", (), {"collect": lambda _: facts or healthy()})()

        monkeypatch.setattr(module, "Collector", collector)
        result = CliRunner().invoke(command, [*arguments], catch_exceptions=False)
        return result, collectors[-1] if collectors else {}

    return one


def text_of(findings, **more):
    console = Console(width=160, highlight=False, emoji=False)
    with console.capture() as captured:
        print_findings(console, findings, **more)
    return captured.get()


def test_the_adoption_is_shown_with_the_next_step_and_the_way_back(run):
    result, given = run("--adoption")
    assert given["groups"] == ADOPTION_GROUPS
    assert "step 6, moves (docs/adopt.md)" in result.stdout
    assert "-> berthmaster plan -f predecessor.yaml --delete" in result.stdout
    assert result.exit_code == 0


def test_the_report_of_a_broken_installation(golden):
    facts = healthy(
        webhooks=webhooks(fails_closed=False),
        endpoints=(EndpointFacts(HOST, 443, "unresolved"),),
        dry_run=not_called("tls: failed to verify certificate: x509: certificate is valid for a.svc, not b.svc"),
        lease=lease(holder=""),
        fleet=FleetFacts(3, not_ready=("member2",)),
        bindings=BindingFacts({"berthmaster": 4}),
        deployments=None,
    )
    golden("doctor-on-a-broken-installation.txt", text_of(diagnose(facts)))


def test_the_report_of_a_healthy_installation(golden):
    golden("doctor-on-a-healthy-installation.txt", text_of(diagnose(healthy())))


def test_verbose_shows_passed_checks():
    text = text_of(diagnose(healthy()), verbose=True)
    assert "ok       controllers/leader: controllers-0 leads; it renewed its lease 3 s ago\n" in text


def test_text_in_findings_is_not_read_as_markup():
    assert "[bold]a[/x]" in text_of([failed("api-server/x", "[bold]a[/x]", "Do [it].")])


def test_data_has_the_worst_findings_first():
    data = as_data([ok("rights/a", "a"), warning("fleet/b", "b", "Do."), failed("fleet/d", "d", "Do."),
                    failed("api-server/c", "c", "Do.")])  # fmt: skip
    assert [each["check"] for each in data["findings"]] == ["api-server/c", "fleet/d", "fleet/b", "rights/a"]
    assert data["summary"] == {"failed": 2, "warning": 1, "skipped": 0, "ok": 1}


@pytest.mark.parametrize(
    ("facts", "flags", "code"),
    [
        pytest.param(healthy(), [], 0, id="every check passes"),
        pytest.param(healthy(lease=None), [], 1, id="a check fails"),
        pytest.param(healthy(fleet=FleetFacts(0)), [], 0, id="a check warns"),
        pytest.param(healthy(fleet=FleetFacts(0)), ["--strict"], 1, id="a check warns in strict mode"),
        pytest.param(healthy(lease=None), ["--skip=controllers", "--skip=fleet"], 0, id="the failing part is skipped"),
        pytest.param(healthy(lease=None), ["--before-install"], 0, id="the failing part comes after the installation"),
    ],
)
def test_exit_codes(run, facts, flags, code):
    assert run(*flags, facts=facts)[0].exit_code == code


@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_json_and_yaml(run, output, read):
    result, _ = run("-o", output, facts=healthy(lease=None))
    data = read(result.stdout)
    finding = next(each for each in data["findings"] if each["check"] == "controllers/leader")
    assert set(finding) == {"group", "check", "verdict", "message", "remedy"}
    assert finding["verdict"] == "failed"
    assert data["summary"]["failed"] >= 1


@pytest.mark.parametrize("flags", [["--skip=nothing"], ["-o", "xml"], ["--timeout-s=0"], ["--nonsense"]])
def test_bad_usage_exits_with_2(flags):
    assert CliRunner().invoke(command, flags).exit_code == 2


def test_an_unknown_controller_is_bad_input(run):
    with pytest.raises(InputError, match="no-such-controller"):
        run("--controllers=no-such-controller")


def test_remedies_use_the_given_kubeconfig_files_and_contexts(run):
    _, given = run("--kubeconfig=h", "--target-kubeconfig=t", "--target-context=k", "--as=them")
    assert (given["setup"].host, given["setup"].target) == (
        "kubectl --kubeconfig=h",
        "kubectl --kubeconfig=t --context=k",
    )
    assert not given["setup"].single
    assert given["host"] != given["target"]
    assert given["user"] == "them"
    _, given = run("--kubeconfig=h")
    assert given["setup"].single
    assert given["host"] is given["target"]


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
    monkeypatch.setattr(LOAD_CLIENT, lambda *_: ScriptedClient({"GET /version": VERSION}, now=NOW))
    result = CliRunner().invoke(command, ["-o", "json", "--timeout-s=1"], catch_exceptions=False)
    assert result.exit_code == 1
    verdicts = {each["check"]: each["verdict"] for each in json.loads(result.stdout)["findings"]}
    assert verdicts["definitions/propagationpolicies"] == Severity.FAILED
    assert SETUP.release == "berthmaster"
