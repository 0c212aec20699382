"""``berthmaster doctor``: the options, the report and the exit code."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click
import msgspec

from berthmaster.controllers.registry import REGISTRY, gated, selected
from berthmaster.controllers.settings import GATES
from berthmaster.model.comma_lists import comma_separated
from berthmaster.runtime.clock import SystemClock
from berthmaster.runtime.feature_gates import FeatureGates
from berthmaster.views.texts import count_text
from berthmaster_cli.answers import AnswerKind
from berthmaster_cli.doctor.facts import KARMADA_NAMESPACE, LEASE_NAME, SCHEDULER_NAME, Setup, Unobserved
from berthmaster_cli.doctor.findings import Finding, Severity
from berthmaster_cli.doctor.gather.collector import Collector
from berthmaster_cli.doctor.judge import GROUPS, findings
from berthmaster_cli.doctor.judge.adoption import ADOPTION_GROUPS, Adoption, adoption
from berthmaster_cli.flags import REQUEST_TIMEOUT, option, options
from berthmaster_cli.main import EXIT_CHECK_FAILED
from berthmaster_cli.option_variables import environment_text
from berthmaster_cli.options import REQUEST_TIMEOUT_HELP, ClusterFlags, config_option
from berthmaster_cli.output import OutputFlags, complain, print_answer, print_line, print_table, styled
from berthmaster_cli.watching import WatchFlags, watched

if TYPE_CHECKING:
    from berthmaster.kube.client import APIClient

_ENVIRONMENT: Final = "BERTHMASTER_DOCTOR"
_BEFORE_INSTALL: Final = frozenset({"api-server", "definitions", "rights", "conflicts"})
"""The parts that must be in order before an installation."""
_STYLES: Final = {
    Severity.FAILED: "bold red", Severity.WARNING: "yellow", Severity.SKIPPED: "dim", Severity.OK: "green",
}  # fmt: skip
_ORDER: Final = tuple(Severity)
_WIDTH: Final = 8
_ADOPTION: Final = AnswerKind("Adoption", Adoption)


class ReportedFinding(msgspec.Struct, frozen=True):
    """The result of a check in JSON."""

    group: str
    check: str
    verdict: Severity
    message: str
    remedy: str


class DoctorReport(msgspec.Struct, frozen=True):
    """All results, the worst first. ``summary``: how many there are of each verdict."""

    summary: dict[str, int]
    findings: list[ReportedFinding]


_REPORT: Final = AnswerKind("DoctorReport", DoctorReport, frozenset({"message"}))


class _Access(NamedTuple):
    """A kubeconfig file and a context of it; None for the default."""

    kubeconfig: Path | None
    context: str | None

    @property
    def kubectl(self) -> str:
        file = f" --kubeconfig={self.kubeconfig}" if self.kubeconfig is not None else ""
        return f"kubectl{file}{f' --context={self.context}' if self.context is not None else ''}"


class _DoctorFlags(ClusterFlags, OutputFlags, WatchFlags):
    host_kubeconfig: Path | None = option("Kubeconfig file of the host, which runs the pods. Default: the target.")
    host_context: str | None = option("The context of the host's kubeconfig.", metavar="NAME")
    rights_of: str = option(
        "Check the rights of this user, for example system:serviceaccount:NAMESPACE:NAME, and read everything else as "
        "yourself. Default: the rights of the user who asks.",
        "", metavar="USER",
    )  # fmt: skip
    request_timeout_s: float = option(
        REQUEST_TIMEOUT_HELP, 5.0, click.FloatRange(0.5, 60), names=(REQUEST_TIMEOUT, "--timeout-s")
    )  # fmt: skip
    adoption: bool = option(
        "Instead of checks, show which step of the adoption is reached, the next one, and the way back."
    )
    before_install: bool = option("Run only the checks that must pass before an installation.")
    skipped: tuple[str, ...] = option(
        "Do not check this part. Repeatable.", type=click.Choice(GROUPS), names=("--skip",)
    )
    verbose: bool = option("Show the details of passed checks too.", names=("--verbose",))
    strict: bool = option("Exit with 1 on warnings too.")
    probes: tuple[str, ...] = option(
        "Check a probe endpoint that is reachable from here, for example http://127.0.0.1:9080. Repeatable.",
        names=("--probe",), metavar="URL",
    )  # fmt: skip
    namespace: str = option(
        "The namespace of the release on the host.", KARMADA_NAMESPACE, names=("-n", "--namespace"), metavar="NAME"
    )
    release: str = option("The name of the Helm release.", "berthmaster", metavar="NAME")
    karmada_namespace: str = option(
        "The namespace of Karmada's components on the host.", KARMADA_NAMESPACE, metavar="NAME"
    )
    trial_namespace: str = option(
        "The namespace on the target for the dry run of a policy. Nothing is stored.", "default", metavar="NAME"
    )
    scheduler_name: str = option("The scheduler name that the controllers serve.", SCHEDULER_NAME, metavar="NAME")
    other_schedulers: tuple[str, ...] = option(
        "Another scheduler name that is served. Repeatable.", names=("--other-scheduler",), metavar="NAME"
    )
    controllers: str = option("The controllers that should run, as in `berthmaster controllers`.", "*", metavar="LIST")
    feature_gates: str = option(
        "The controllers' feature gates, as a comma-separated list of NAME=true|false.", "", metavar="LIST"
    )
    enable_scheduler_estimator: bool = option("The controllers should ask Karmada's scheduler estimators.")
    moves: bool = option("The controllers should have a configuration of moves.", names=("--moves-config",))
    lease_namespace: str = option(
        "The namespace of the controllers' lease on the target.", KARMADA_NAMESPACE,
        names=("--lease-namespace", "--leader-elect-namespace"), metavar="NAME",
    )  # fmt: skip
    lease_name: str = option(
        "The name of the controllers' lease.", LEASE_NAME, names=("--lease-name", "--leader-elect-name"),
        metavar="NAME",
    )  # fmt: skip

    @property
    def clusters(self) -> tuple[_Access, _Access]:
        """The host and the target. They are equal if only one is named."""
        named = _Access(self.kubeconfig, self.context)
        if self.single:
            return _Access(self.host_kubeconfig or self.kubeconfig, self.host_context or self._own_context), named
        if self.host_kubeconfig is not None or self.host_context is not None:
            raise click.UsageError("--host-kubeconfig and --host-context cannot be combined with --target-*")
        return named, _Access(self.target_kubeconfig or self.kubeconfig, self.target_context)

    def client(self, named: _Access, user: str = "") -> "APIClient":
        """Return a client of an API server, in the name of a user if there is one. Raises ``InputError``."""
        from berthmaster.kube.http_client import connect  # noqa: PLC0415 - `--help` must not import the client

        access = self.access_to(named.kubeconfig, named.context)
        manner = access.manner._replace(user=user, groups=()) if user else access.manner
        return connect(access._replace(manner=manner))

    @property
    def _own_context(self) -> str | None:
        """The context of the host if none is named: that of the target, in the same file."""
        return self.context if self.host_kubeconfig is None else None


@click.command(
    context_settings={"auto_envvar_prefix": _ENVIRONMENT},
    epilog="The command changes nothing: it creates policies as dry runs only. "
    + environment_text(_ENVIRONMENT, "--kubeconfig")
    + "Exit codes: 0 no check failed; 1 a check failed, or there are warnings and --strict is set; 2 bad usage or "
    "input.",
)
@config_option
@options(
    _DoctorFlags,
    server="the target, the API server that has the policies",
    target="the target; an old name of --kubeconfig",
)
@watched()
def command(flags: _DoctorFlags) -> None:
    """Check an installation, report what is wrong and how to fix it."""
    groups = (_BEFORE_INSTALL if flags.before_install else frozenset(GROUPS)) - {*flags.skipped}
    groups = ADOPTION_GROUPS if flags.adoption else groups
    host, target = flags.clusters
    host_client = flags.client(host)
    target_client = host_client if host == target else flags.client(target)
    if not flags.single:
        complain(
            "--target-kubeconfig and --target-context are old names: name the target with --kubeconfig and --context, "
            "and the host with --host-kubeconfig and --host-context"
        )
    facts = Collector(
        target=target_client,
        asker=flags.client(target, flags.rights_of) if flags.rights_of else target_client,
        host=host_client,
        setup=_setup(flags),
        groups=groups,
        clock=SystemClock(),
        limit_s=flags.request_timeout_s,
        probes=flags.probes,
    ).collect()
    if flags.adoption and not isinstance(facts.target, Unobserved):
        _show_adoption(adoption(facts), flags.output)
        return
    found = sorted(findings(facts, groups), key=lambda each: (_ORDER.index(each.severity), GROUPS.index(each.group)))
    counts = {severity.value: sum(each.severity is severity for each in found) for severity in Severity}
    if flags.output == "table":
        _print_findings(found, verbose=flags.verbose)
        worst = ", ".join(f"{count} {severity}" for severity, count in counts.items() if count)
        print_line(f"{count_text(len(found), 'check')}: {worst}")
    else:
        listed = [ReportedFinding(each.group, each.check, each.severity, each.message, each.remedy) for each in found]
        print_answer(_REPORT, DoctorReport(counts, listed), flags.output)
    if counts[Severity.FAILED] or (flags.strict and counts[Severity.WARNING]):
        sys.exit(EXIT_CHECK_FAILED)


def _setup(flags: _DoctorFlags) -> Setup:
    host, target = flags.clusters
    running = gated(
        selected(comma_separated(flags.controllers), REGISTRY), FeatureGates.parse(flags.feature_gates, GATES)
    )
    return Setup(
        target=target.kubectl,
        host=host.kubectl,
        single=host == target,
        namespace=flags.namespace,
        release=flags.release,
        karmada_namespace=flags.karmada_namespace,
        scheduler_name=flags.scheduler_name,
        other_schedulers=flags.other_schedulers,
        lease=(flags.lease_namespace, flags.lease_name),
        controllers=tuple(each.name for each in running),
        trial_namespace=flags.trial_namespace,
        estimators=flags.enable_scheduler_estimator,
        moves=flags.moves,
    )


def _print_findings(found: Sequence[Finding], *, verbose: bool) -> None:
    """Print the report for people. Without ``verbose``, passed checks take a line a group."""
    for finding in found:
        if finding.severity is not Severity.OK or verbose:
            _print_line(finding.severity, f"{finding.check}: {finding.message}")
            _print_commands([finding.remedy] if finding.remedy else [])
    for group in () if verbose else GROUPS:
        passed = [each.check for each in found if each.severity is Severity.OK and each.group == group]
        if passed:
            names = dict.fromkeys(each.removeprefix(f"{group}/") for each in passed)
            _print_line(Severity.OK, f"{group}: {', '.join(names)}")


def _show_adoption(found: Adoption, output: str) -> None:
    if output != "table":
        print_answer(_ADOPTION, found, output)
        return
    rows = [(str(each.number), each.name, each.state.value, each.found) for each in found.steps]
    print_table(("STEP", "", "STATE", "FOUND"), rows)
    if found.next is not None:
        print_line(f"next: step {found.next.number}, {found.next.name} (docs/adopt.md)")
        _print_commands(found.next.do)
    if found.reached is not None:
        print_line(f"back from step {found.reached.number}, {found.reached.name}")
        _print_commands(found.reached.back)


def _print_commands(commands: Sequence[str]) -> None:
    for each in commands:
        print_line(f"{'':<{_WIDTH}} -> {each}")  # not wrapped, so that commands can be copied


def _print_line(severity: Severity, text: str) -> None:
    print_line(styled(f"{severity.value:<{_WIDTH}}", _STYLES[severity]), f" {text}")
