"""``berthmaster doctor``: the options, the report and the exit code."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from rich.console import Console

from berthmaster.controllers.registry import REGISTRY, gated, selected
from berthmaster.controllers.settings import GATES
from berthmaster.runtime.clock import SystemClock
from berthmaster.runtime.feature_gates import FeatureGates
from berthmaster.views.texts import count_text
from berthmaster_cli.doctor.facts import KARMADA_NAMESPACE, LEASE_NAME, SCHEDULER_NAME, Setup
from berthmaster_cli.doctor.finding import Finding, Severity
from berthmaster_cli.doctor.gather.collector import Collector
from berthmaster_cli.doctor.judge import GROUPS, findings
from berthmaster_cli.environment import environment_text
from berthmaster_cli.main import EXIT_CHECK_FAILED
from berthmaster_cli.options import cluster_clients, cluster_options, config_option, option_group, single_cluster
from berthmaster_cli.output import output_option, print_data, print_line, stdout, styled

_ENVIRONMENT: Final = "BERTHMASTER_DOCTOR"
_BEFORE_INSTALL: Final = frozenset({"api-server", "definitions", "rights", "conflicts"})
"""The parts that must be in order before an installation."""
_STYLES: Final = {
    Severity.FAILED: "bold red", Severity.WARNING: "yellow", Severity.SKIPPED: "dim", Severity.OK: "green",
}  # fmt: skip
_ORDER: Final = tuple(Severity)
_WIDTH: Final = 8

_check_options = option_group(
    click.option(
        "--as", "user", default="", metavar="USER",
        help="Check the permissions of this user, for example system:serviceaccount:NAMESPACE:NAME. Default: yourself.",
    ),
    click.option(
        "--timeout-s", type=click.FloatRange(0.5, 60), default=5.0, show_default=True,
        help="The timeout of each request, in seconds.",
    ),
    click.option("--before-install", is_flag=True, help="Run only the checks that must pass before an installation."),
    click.option(
        "--skip", "skipped", multiple=True, type=click.Choice(GROUPS), help="Do not check this part. Repeatable."
    ),
    click.option("-v", "--verbose", is_flag=True, help="Show the details of passed checks too."),
    click.option("--strict", is_flag=True, help="Exit with 1 on warnings too."),
    click.option(
        "--probe", "probes", multiple=True, metavar="URL",
        help="Check a probe endpoint that is reachable from here, for example http://127.0.0.1:9080. Repeatable.",
    ),
)  # fmt: skip
_setup_options = option_group(
    click.option(
        "-n", "--namespace", default=KARMADA_NAMESPACE, show_default=True, metavar="NAME",
        help="The namespace of the release on the host.",
    ),
    click.option(
        "--release", default="berthmaster", show_default=True, metavar="NAME", help="The name of the Helm release.",
    ),
    click.option(
        "--karmada-namespace", default=KARMADA_NAMESPACE, show_default=True, metavar="NAME",
        help="The namespace of Karmada's components on the host.",
    ),
    click.option(
        "--trial-namespace", default="default", show_default=True, metavar="NAME",
        help="The namespace on the target for the dry run of a policy. Nothing is stored.",
    ),
    click.option(
        "--scheduler-name", default=SCHEDULER_NAME, show_default=True, metavar="NAME",
        help="The scheduler name that the controllers serve.",
    ),
    click.option(
        "--other-scheduler", "other_schedulers", multiple=True, metavar="NAME",
        help="Another scheduler name that is served. Repeatable.",
    ),
    click.option(
        "--controllers", default="*", show_default=True, metavar="LIST",
        help="The controllers that should run, as in `berthmaster controllers`.",
    ),
    click.option(
        "--feature-gates", default="", metavar="LIST",
        help="The controllers' feature gates, as a comma-separated list of NAME=true|false.",
    ),
    click.option(
        "--enable-scheduler-estimator", is_flag=True, help="The controllers should ask Karmada's scheduler estimators."
    ),
    click.option("--moves-config", "moves", is_flag=True, help="The controllers should have a configuration of moves."),
    click.option(
        "--leader-elect-namespace", default=KARMADA_NAMESPACE, show_default=True, metavar="NAME",
        help="The namespace of the controllers' lease on the target.",
    ),
    click.option(
        "--leader-elect-name", default=LEASE_NAME, show_default=True, metavar="NAME",
        help="The name of the controllers' lease.",
    ),
)  # fmt: skip


@click.command(
    context_settings={"auto_envvar_prefix": _ENVIRONMENT},
    epilog="The command changes nothing: it creates policies as dry runs only. "
    + environment_text(_ENVIRONMENT, "--kubeconfig")
    + "Exit codes: 0 no check failed; 1 a check failed, or there are warnings and --strict is set; 2 bad usage or "
    "input.",
)
@config_option
@cluster_options("the host, which runs the pods", "the target, the API server that has the policies")
@_check_options
@_setup_options
@output_option
def command(**given: Any) -> None:  # noqa: ANN401 - click's values, each checked by its type
    """Check an installation, report what is wrong and how to fix it."""
    groups = (_BEFORE_INSTALL if given["before_install"] else frozenset(GROUPS)) - {*given["skipped"]}
    host, target = cluster_clients(given)
    facts = Collector(
        target=target,
        host=host,
        setup=_setup(given),
        groups=groups,
        clock=SystemClock(),
        limit_s=given["timeout_s"],
        user=given["user"],
        probes=given["probes"],
    ).collect()
    found = findings(facts, groups)
    if given["output"] == "table":
        print_findings(stdout(), found, verbose=given["verbose"])
    else:
        print_data(as_data(found), given["output"])
    bad = {Severity.FAILED, Severity.WARNING} if given["strict"] else {Severity.FAILED}
    if any(each.severity in bad for each in found):
        sys.exit(EXIT_CHECK_FAILED)


def _setup(given: dict[str, Any]) -> Setup:
    host = _kubectl(given["kubeconfig"], given["context"])
    target = _kubectl(given["target_kubeconfig"] or given["kubeconfig"], given["target_context"])
    single = single_cluster(given)
    return Setup(
        target=host if single else target,
        host=host,
        single=single,
        namespace=given["namespace"],
        release=given["release"],
        karmada_namespace=given["karmada_namespace"],
        scheduler_name=given["scheduler_name"],
        other_schedulers=given["other_schedulers"],
        lease=(given["leader_elect_namespace"], given["leader_elect_name"]),
        controllers=_controllers(given),
        trial_namespace=given["trial_namespace"],
        estimators=given["enable_scheduler_estimator"],
        moves=given["moves"],
    )


def _controllers(given: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of the controllers that run. Only they need permissions."""
    switches = [part.strip() for part in given["controllers"].split(",") if part.strip()]
    gates = FeatureGates.parse(given["feature_gates"], GATES)
    return tuple(each.name for each in gated(selected(switches, REGISTRY), gates))


def _kubectl(kubeconfig: Path | None, context: str | None) -> str:
    words = ["kubectl"]
    if kubeconfig is not None:
        words.append(f"--kubeconfig={kubeconfig}")
    if context is not None:
        words.append(f"--context={context}")
    return " ".join(words)


def as_data(found: Sequence[Finding]) -> dict[str, Any]:
    """Return the report for programs, the worst findings first."""
    listed = [{"group": each.group, **msgspec.to_builtins(each)} for each in _sorted(found)]
    return {"summary": _counts(found), "findings": listed}


def print_findings(console: Console, found: Sequence[Finding], *, verbose: bool = False) -> None:
    """Print the report for people, the worst findings first. Without ``verbose``, passed checks take a line a group."""
    for finding in _sorted(found):
        if finding.severity is Severity.OK and not verbose:
            continue
        _print_line(console, finding.severity, f"{finding.check}: {finding.message}")
        if finding.remedy:
            # Not wrapped, so that commands can be copied.
            print_line(console, f"{'':<{_WIDTH}} -> {finding.remedy}")
    for group in () if verbose else GROUPS:
        passed = [each.name for each in found if each.severity is Severity.OK and each.group == group]
        if passed:
            _print_line(console, Severity.OK, f"{group}: {', '.join(dict.fromkeys(passed))}")
    counts = ", ".join(f"{count} {severity}" for severity, count in _counts(found).items() if count)
    print_line(console, f"{count_text(len(found), 'check')}: {counts}")


def _sorted(found: Sequence[Finding]) -> list[Finding]:
    return sorted(found, key=lambda each: (_ORDER.index(each.severity), GROUPS.index(each.group)))


def _counts(found: Sequence[Finding]) -> dict[str, int]:
    return {severity.value: sum(each.severity is severity for each in found) for severity in Severity}


def _print_line(console: Console, severity: Severity, text: str) -> None:
    print_line(console, styled(f"{severity.value:<{_WIDTH}}", _STYLES[severity]), f" {text}")
