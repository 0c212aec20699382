"""``berthmaster doctor``: is everything there, does it fit together, and if not, what is to be done."""

import sys
from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.markup import escape

from berthmaster.controllers.registry import REGISTRY, gated, selected
from berthmaster.controllers.settings import GATES
from berthmaster.kube.client import APIClient
from berthmaster.kube.http_client import load_client
from berthmaster.runtime.clock import SystemClock
from berthmaster.runtime.feature_gates import FeatureGates
from berthmaster_cli.console import output_option, print_data, stdout
from berthmaster_cli.doctor.facts import KARMADA_NAMESPACE, LEASE_NAME, SCHEDULER_NAME, Setup
from berthmaster_cli.doctor.finding import Finding, Verdict
from berthmaster_cli.doctor.gather.collector import Round
from berthmaster_cli.doctor.judge import GROUPS, findings
from berthmaster_cli.main import EXIT_CHECK_FAILED
from berthmaster_cli.options import config_option

_FILE: Final = click.Path(dir_okay=False, path_type=Path)
_BEFORE: Final = frozenset({"api-server", "definitions", "rights", "conflicts"})
"""What can be seen, and has to be well, before anything is installed."""
_STYLES: Final = {
    Verdict.FAILED: "bold red", Verdict.WARNING: "yellow", Verdict.SKIPPED: "dim", Verdict.OK: "green",
}  # fmt: skip
_ORDER: Final = tuple(Verdict)
_WIDTH: Final = 8


def _options(*options: Callable[..., Any]) -> Callable[..., Any]:
    return lambda command: reduce(lambda decorated, option: option(decorated), reversed(options), command)


_access = _options(
    click.option(
        "--kubeconfig", type=_FILE,
        help="Access to the host, where pods run; without it, that of a pod in its cluster.",
    ),
    click.option("--context", help="Which context of the kubeconfig."),
    click.option(
        "--target-kubeconfig", type=_FILE,
        help="Access to the API server that has the policies, Karmada's; without it, the host.",
    ),
    click.option("--target-context", help="Which context of that kubeconfig."),
    click.option(
        "--as", "user", default="", metavar="USER",
        help="Ask what this user may do instead of yourself: the controllers', system:serviceaccount:NS:NAME as well.",
    ),
    click.option(
        "--timeout-s", type=click.FloatRange(0.5, 60), default=5.0, show_default=True,
        help="How long the answer to one question may take.",
    ),
)  # fmt: skip
_scope = _options(
    click.option(
        "--before-install", is_flag=True, help="Look only at what has to be well before anything is installed."
    ),
    click.option(
        "--skip", "skipped", multiple=True, type=click.Choice(GROUPS), help="A part not to look at. Repeatable."
    ),
    click.option("-v", "--verbose", is_flag=True, help="Say what was seen of what is well, too."),
    click.option("--strict", is_flag=True, help="Exit with 1 on warnings too."),
    click.option(
        "--probe", "probes", multiple=True, metavar="URL",
        help="A probe endpoint that can be reached from here, as http://127.0.0.1:9080. Repeatable.",
    ),
)  # fmt: skip
_setup_options = _options(
    click.option(
        "-n", "--namespace", default=KARMADA_NAMESPACE, show_default=True, help="Of the release, on the host."
    ),
    click.option(
        "--release", default="berthmaster", show_default=True, metavar="NAME",
        help="What the names of its objects begin with.",
    ),
    click.option(
        "--karmada-namespace", default=KARMADA_NAMESPACE, show_default=True, metavar="NAME",
        help="Where Karmada's components run on the host.",
    ),
    click.option(
        "--trial-namespace", default="default", show_default=True, metavar="NAME",
        help="Where, in the target, a policy is created on trial; nothing is stored.",
    ),
    click.option("--scheduler-name", default=SCHEDULER_NAME, show_default=True, metavar="NAME", help="Ours."),
    click.option(
        "--other-scheduler", "other_schedulers", multiple=True, metavar="NAME",
        help="A further name that somebody serves. Repeatable.",
    ),
    click.option(
        "--controllers", default="*", show_default=True, metavar="LIST",
        help="Which controllers are meant to run, as of `berthmaster controllers`.",
    ),
    click.option("--feature-gates", default="", metavar="LIST", help="Their gates, NAME=true|false, by commas."),
    click.option(
        "--enable-scheduler-estimator", is_flag=True, help="The controllers are meant to ask Karmada's estimators."
    ),
    click.option(
        "--leader-elect-namespace", default=KARMADA_NAMESPACE, show_default=True, metavar="NAME",
        help="Where their lease is, in the target.",
    ),
    click.option("--leader-elect-name", default=LEASE_NAME, show_default=True, metavar="NAME", help="Its name."),
)  # fmt: skip


@click.command(
    context_settings={"auto_envvar_prefix": "BERTHMASTER_DOCTOR"},
    epilog="Nothing is changed: policies are created on trial only. Every option is also read from the environment, "
    "--kubeconfig from BERTHMASTER_DOCTOR_KUBECONFIG and so on. Exit codes: 0 nothing failed; 1 something did, or "
    "there are warnings and --strict; 2 bad usage or input.",
)
@config_option
@_access
@_scope
@_setup_options
@output_option
def command(**given: Any) -> None:  # noqa: ANN401 - click's values, each checked by its type
    """Look at an installation, or at where one is to be, and say what is wrong and what to do."""
    groups = (_BEFORE if given["before_install"] else frozenset(GROUPS)) - {*given["skipped"]}
    host, target = _clients(given)
    facts = Round(
        target=target,
        host=host,
        setup=_setup(given),
        groups=groups,
        clock=SystemClock(),
        limit_s=given["timeout_s"],
        user=given["user"],
        probes=given["probes"],
    ).facts()
    found = findings(facts, groups)
    if given["output"] == "table":
        print_findings(stdout(), found, verbose=given["verbose"])
    else:
        print_data(as_data(found), given["output"])
    wrong = {Verdict.FAILED, Verdict.WARNING} if given["strict"] else {Verdict.FAILED}
    if any(each.verdict in wrong for each in found):
        sys.exit(EXIT_CHECK_FAILED)


def _single(given: dict[str, Any]) -> bool:
    return given["target_kubeconfig"] is None and given["target_context"] is None


def _clients(given: dict[str, Any]) -> tuple[APIClient, APIClient]:
    """Host and target: the same one where no other is named."""
    host = load_client(given["kubeconfig"], given["context"])
    if _single(given):
        return host, host
    return host, load_client(given["target_kubeconfig"] or given["kubeconfig"], given["target_context"])


def _setup(given: dict[str, Any]) -> Setup:
    host = _kubectl(given["kubeconfig"], given["context"])
    target = _kubectl(given["target_kubeconfig"] or given["kubeconfig"], given["target_context"])
    return Setup(
        target=host if _single(given) else target,
        host=host,
        single=_single(given),
        namespace=given["namespace"],
        release=given["release"],
        karmada_namespace=given["karmada_namespace"],
        scheduler_name=given["scheduler_name"],
        other_schedulers=given["other_schedulers"],
        lease=(given["leader_elect_namespace"], given["leader_elect_name"]),
        controllers=_controllers(given),
        trial_namespace=given["trial_namespace"],
        estimators=given["enable_scheduler_estimator"],
    )


def _controllers(given: dict[str, Any]) -> tuple[str, ...]:
    """Those that run, since only they need rights."""
    switches = [part.strip() for part in given["controllers"].split(",") if part.strip()]
    gates = FeatureGates.parse(given["feature_gates"], GATES)
    return tuple(each.name for each in gated(selected(switches, REGISTRY), gates))


def _kubectl(kubeconfig: Path | None, context: str | None) -> str:
    """``kubectl`` as a person would have to call it."""
    words = ["kubectl"]
    if kubeconfig is not None:
        words.append(f"--kubeconfig={kubeconfig}")
    if context is not None:
        words.append(f"--context={context}")
    return " ".join(words)


def in_order(findings: Sequence[Finding]) -> list[Finding]:
    """The worst first, and among equals in the order of the parts."""
    return sorted(findings, key=lambda each: (_ORDER.index(each.verdict), GROUPS.index(each.group)))


def counts(findings: Sequence[Finding]) -> dict[str, int]:
    """How many findings there are of each verdict."""
    return {verdict.value: sum(each.verdict is verdict for each in findings) for verdict in Verdict}


def as_data(findings: Sequence[Finding]) -> dict[str, Any]:
    """For programs."""
    told = [
        {"group": each.group, "check": each.check, "verdict": each.verdict, "told": each.told, "remedy": each.remedy}
        for each in in_order(findings)
    ]
    return {"summary": counts(findings), "findings": told}


def print_findings(console: Console, findings: Sequence[Finding], *, verbose: bool = False) -> None:
    """For people; what is well in one line for each part, unless they want all of it."""
    for finding in in_order(findings):
        if finding.verdict is Verdict.OK and not verbose:
            continue
        _line(console, finding.verdict, f"{finding.check}: {finding.told}")
        if finding.remedy:
            # Not wrapped: a command that is cut in lines cannot be copied.
            console.print(f"{'':<{_WIDTH}} -> {escape(finding.remedy)}", soft_wrap=True)
    if not verbose:
        for group in GROUPS:
            fine = [each.name for each in findings if each.verdict is Verdict.OK and each.group == group]
            if fine:
                _line(console, Verdict.OK, f"{group}: {', '.join(dict.fromkeys(fine))}")
    said = ", ".join(f"{count} {verdict}" for verdict, count in counts(findings).items() if count)
    console.print(f"{len(findings)} checks: {said}")


def _line(console: Console, verdict: Verdict, text: str) -> None:
    console.print(f"[{_STYLES[verdict]}]{verdict.value:<{_WIDTH}}[/] {escape(text)}", soft_wrap=True)
