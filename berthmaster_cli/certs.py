"""``berthmaster certs``: issue, renew and inspect serving certificates and CA bundles."""

import signal
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import click
from rich.text import Text

from berthmaster.model.errors import ServiceError
from berthmaster.serving.probes import Probes, serving_probes
from berthmaster.views.texts import numbers
from berthmaster_cli.certificate_options import CertificateFlags, certificate_context, certificate_options
from berthmaster_cli.flags import declared, environment_text
from berthmaster_cli.options import Address, config_option
from berthmaster_cli.output import OutputFlags, echo, print_data, print_table, stdout, styled
from certs.inspection import CertificateItem, CertificateVerdict, inspect
from certs.leaf import timestamp_text
from certs.rotator import CertificateReport, CertificateRotator

_ENVIRONMENT: Final = "BERTHMASTER_CERTS"
_EPILOG: Final = environment_text(_ENVIRONMENT, "--authority-secret")
_COLOURS: Final = {CertificateVerdict.OK: "green", CertificateVerdict.DUE: "yellow", CertificateVerdict.BAD: "bold red"}


@click.group()
def command() -> None:
    """Issue, renew and inspect serving certificates and CA bundles."""


def _subcommand(name: str, exit_codes: str = "") -> Callable[[Callable[..., Any]], click.Command]:
    settings = {"auto_envvar_prefix": _ENVIRONMENT}
    return lambda function: command.command(name, context_settings=settings, epilog=_EPILOG + exit_codes)(
        config_option(certificate_options(function))
    )


@_subcommand("bootstrap")
def bootstrap(flags: CertificateFlags) -> None:
    """Issue and renew certificates once.

    Issues missing certificates, renews due ones and updates bundles. It is safe to repeat.
    """
    with certificate_context(flags) as context:
        _print_report(context.reconciler.reconcile())


@_subcommand("rotate")
@click.option(
    "--ca",
    is_flag=True,
    help="Start to replace the authority, with overlap. `certs run` or repeated calls complete it.",
)
def rotate(flags: CertificateFlags, *, ca: bool) -> None:
    """Renew every certificate, or the authority.

    Renews every serving certificate now. With --ca it starts to replace the authority instead.
    """
    if flags.authority == "provided":
        raise click.UsageError("with --authority provided, the component that provides the certificates renews them")
    with certificate_context(flags) as context:
        _print_report(context.reconciler.reconcile(renew_leaves=not ca, rotate_authority=ca))


@_subcommand(
    "inspect",
    "Exit codes: 0 success; 1 clients reject a certificate, or soon will because a renewal is overdue; 2 bad usage or "
    "input.",
)
@declared(OutputFlags)
def inspect_(flags: CertificateFlags, *, output: str) -> None:
    """Show certificates and bundles.

    Shows when they expire, what is due and why.
    """
    with certificate_context(flags) as context:
        report = context.reconciler.observe()
        items = inspect(report.snapshot, context.options, report.now)
    if output == "table":
        columns = ("KIND", "NAME", "STATE", "EXPIRES", "IN", "RENEWED", numbers("AUTHORITIES"), "REASON", "MESSAGE")
        print_table(stdout(), columns, [_row(item, report.now) for item in items])
    else:
        print_data({"now": report.now, "items": items}, output)
    if any(item.verdict is CertificateVerdict.BAD for item in items):
        raise SystemExit(1)


@_subcommand("run")
@click.option(
    "--probe-bind", type=Address(), default="0.0.0.0:9080", show_default=True,
    help="The address for /livez, /readyz and /metrics, in plain text.",
)  # fmt: skip
@click.option(
    "--interval-s", type=click.FloatRange(0.1, 3600), default=60.0, show_default=True,
    help="The interval of checks, in seconds.",
)  # fmt: skip
def run(flags: CertificateFlags, *, probe_bind: tuple[str, int], interval_s: float) -> None:
    """Issue and renew certificates continuously.

    Also updates bundles. Runs until a signal stops it. Several replicas can run.
    """
    with certificate_context(flags) as context:
        rotator = CertificateRotator(context.reconciler, context.options, context.metrics, interval_s)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: rotator.stop())
        with serving_probes(*probe_bind, Probes(rotator.health, context.metrics.exposition)):
            rotator.run()


def _print_report(report: CertificateReport) -> None:
    for about, finding in report.done:
        echo(f"{about.kind}/{about.name}: {finding}")
    if not report.done and not report.problems:
        echo("nothing to do")
    if report.problems:
        raise ServiceError("; ".join(report.problems))


def _row(item: CertificateItem, now: datetime) -> tuple[str | Text, ...]:
    return (
        item.kind,
        item.name,
        styled(item.verdict, _COLOURS[item.verdict]),
        timestamp_text(item.expires) if item.expires else "",
        _span(item.expires, now),
        timestamp_text(item.renewed) if item.renewed else "",
        str(item.authorities) if item.authorities is not None else "",
        item.reason,
        item.message,
    )


def _span(moment: datetime | None, now: datetime) -> str:
    """Format the time until a moment, in days, hours, minutes or seconds."""
    if moment is None:
        return ""
    left_s = (moment - now).total_seconds()
    for unit_s, unit in ((86_400, "d"), (3600, "h"), (60, "m")):
        if abs(left_s) >= 2 * unit_s:
            return f"{left_s / unit_s:.0f}{unit}"
    return f"{left_s:.0f}s"
