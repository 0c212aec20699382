"""What is printed, and the exit codes."""

import json

import pytest
import yaml
from click.testing import CliRunner
from examined import HOST, NOW, SETUP, examined, hooks, lease, not_called, well
from rich.console import Console
from told_api import ToldApi

from berthmaster.model.errors import InputError
from berthmaster_cli.doctor import command as module
from berthmaster_cli.doctor.command import as_data, command, print_findings
from berthmaster_cli.doctor.facts import Bindings, Fleet, Served
from berthmaster_cli.doctor.finding import Verdict, failed, ok, warning

VERSION = {"gitVersion": "v1.34.1", "major": "1", "minor": "34"}


@pytest.fixture
def run(monkeypatch):
    """Run the command on facts, and remember how they were asked for."""
    asked = []

    def one(*arguments, facts=None):
        monkeypatch.setattr(module, "load_client", lambda *access: access)

        def round_(**given):
            asked.append(given)
            return type("Round", (), {"facts": lambda _: facts or well()})()

        monkeypatch.setattr(module, "Round", round_)
        result = CliRunner().invoke(command, [*arguments], catch_exceptions=False)
        return result, asked[-1] if asked else {}

    return one


def text_of(findings, **more):
    console = Console(width=160, highlight=False, emoji=False)
    with console.capture() as captured:
        print_findings(console, findings, **more)
    return captured.get()


def test_what_a_person_sees_of_a_broken_set_up(golden):
    facts = well(
        hooks=hooks(fails_closed=False),
        served=(Served(HOST, 443, "unresolved"),),
        trial=not_called("tls: failed to verify certificate: x509: certificate is valid for a.svc, not b.svc"),
        lease=lease(holder=""),
        fleet=Fleet(3, not_ready=("member2",)),
        bindings=Bindings({"berthmaster": 4}),
        workloads=None,
    )
    golden("a-broken-set-up-examined.txt", text_of(examined(facts)))


def test_what_a_person_sees_of_one_that_is_well(golden):
    golden("a-good-set-up-examined.txt", text_of(examined(well())))


def test_all_of_it():
    text = text_of(examined(well()), verbose=True)
    assert "ok       controllers/leader: controllers-0 leads, its last sign is 3 s old\n" in text


def test_what_is_quoted_is_no_markup():
    assert "[bold]a[/x]" in text_of([failed("api-server/x", "[bold]a[/x]", "Do [it].")])


def test_programs_get_the_worst_first():
    data = as_data([ok("rights/a", "a"), warning("fleet/b", "b", "Do."), failed("fleet/d", "d", "Do."),
                    failed("api-server/c", "c", "Do.")])  # fmt: skip
    assert [each["check"] for each in data["findings"]] == ["api-server/c", "fleet/d", "fleet/b", "rights/a"]
    assert data["summary"] == {"failed": 2, "warning": 1, "skipped": 0, "ok": 1}


@pytest.mark.parametrize(
    ("facts", "flags", "code"),
    [
        pytest.param(well(), [], 0, id="all is well"),
        pytest.param(well(lease=None), [], 1, id="something failed"),
        pytest.param(well(fleet=Fleet(0)), [], 0, id="a warning"),
        pytest.param(well(fleet=Fleet(0)), ["--strict"], 1, id="a warning, strictly"),
        pytest.param(well(lease=None), ["--skip=controllers", "--skip=fleet"], 0, id="what failed is not looked at"),
        pytest.param(well(lease=None), ["--before-install"], 0, id="nothing is installed yet"),
    ],
)
def test_exit_codes(run, facts, flags, code):
    assert run(*flags, facts=facts)[0].exit_code == code


@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_for_programs(run, output, read):
    result, _ = run("-o", output, facts=well(lease=None))
    data = read(result.stdout)
    finding = next(each for each in data["findings"] if each["check"] == "controllers/leader")
    assert set(finding) == {"group", "check", "verdict", "told", "remedy"}
    assert finding["verdict"] == "failed"
    assert data["summary"]["failed"] >= 1


@pytest.mark.parametrize("flags", [["--skip=nothing"], ["-o", "xml"], ["--timeout-s=0"], ["--nonsense"]])
def test_bad_usage(flags):
    assert CliRunner().invoke(command, flags).exit_code == 2


def test_a_controller_that_nobody_knows_is_bad_input(run):
    with pytest.raises(InputError, match="nobody"):
        run("--controllers=nobody")


def test_host_and_target_and_how_a_person_reaches_them(run):
    _, asked = run("--kubeconfig=h", "--target-kubeconfig=t", "--target-context=k", "--as=them")
    assert (asked["setup"].host, asked["setup"].target) == (
        "kubectl --kubeconfig=h",
        "kubectl --kubeconfig=t --context=k",
    )
    assert not asked["setup"].single
    assert asked["host"] != asked["target"]
    assert asked["user"] == "them"
    _, asked = run("--kubeconfig=h")
    assert asked["setup"].single
    assert asked["host"] is asked["target"]


@pytest.mark.parametrize(
    ("flags", "controllers"),
    [
        ([], ("binding-scheduler",)),
        (["--feature-gates=PolicyPreemption=true"], ("binding-scheduler", "preemption")),
        (["--controllers=*,workload-rebalancer"], ("binding-scheduler", "workload-rebalancer")),
    ],
)
def test_rights_are_asked_about_for_the_controllers_that_run(run, flags, controllers):
    assert run(*flags)[1]["setup"].controllers == controllers


def test_a_server_that_knows_nothing_of_karmada(monkeypatch):
    monkeypatch.setattr(module, "load_client", lambda *_: ToldApi({"GET /version": VERSION}, now=NOW))
    result = CliRunner().invoke(command, ["-o", "json", "--timeout-s=1"], catch_exceptions=False)
    assert result.exit_code == 1
    verdicts = {each["check"]: each["verdict"] for each in json.loads(result.stdout)["findings"]}
    assert verdicts["definitions/propagationpolicies"] == Verdict.FAILED
    assert SETUP.release == "berthmaster"
