"""``berthmaster certs``: make, keep, replace and look at serving certificates and the bundles that clients trust."""

import signal
import threading
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import click

from berthmaster.model.errors import InputError, ServiceError
from berthmaster.serving.probes import Probes, ProbeServer
from berthmaster_cli.certificate_options import certificate_options, parts
from berthmaster_cli.console import output_option, print_data, print_table, stdout
from berthmaster_cli.options import Address, config_option
from certs.inspection import CertificateItem, CertificateVerdict, inspect
from certs.leaf import timestamp_text
from certs.reconcile import CertificateReport
from certs.rotator import CertificateRotator

_ENVIRONMENT: Final = {"auto_envvar_prefix": "BERTHMASTER_CERTS"}
_EPILOG: Final = (
    "Every option is also read from the environment, --authority-secret from BERTHMASTER_CERTS_AUTHORITY_SECRET and so "
    "on; lists there are separated by spaces."
)
_COLOURS: Final = {CertificateVerdict.OK: "green", CertificateVerdict.DUE: "yellow", CertificateVerdict.BAD: "bold red"}


@click.group()
def command() -> None:
    """Make, keep and replace serving certificates, and the bundles that clients trust."""


def _subcommand(name: str) -> Callable[[Callable[..., Any]], click.Command]:
    return lambda function: command.command(name, context_settings=_ENVIRONMENT, epilog=_EPILOG)(
        config_option(certificate_options(function))
    )


@_subcommand("bootstrap")
def bootstrap(**given: Any) -> None:  # noqa: ANN401 - click's values, each checked by its type
    """Make what is missing, renew what is due, put bundles right; fine to repeat."""
    with parts(given) as made:
        _tell(made.reconciler.reconcile())


@_subcommand("rotate")
@click.option(
    "--ca", is_flag=True, help="Begin to replace the authority, with overlap; `run` or repeats go on with it."
)
def rotate(*, ca: bool, **given: Any) -> None:  # noqa: ANN401 - the same
    """Renew every leaf now, or begin to replace the authority."""
    if given["authority"] == "provided":
        raise click.UsageError("provided certificates are renewed by who provides them")
    with parts(given) as made:
        _tell(made.reconciler.reconcile(renew_leaves=not ca, rotate_authority=ca))


@_subcommand("inspect")
@output_option
def inspect_(*, output: str, **given: Any) -> None:  # noqa: ANN401 - the same
    """Show what there is, how long it lives, and what is due and why.

    Exits with 1 if clients are refused, or will be because nobody does what was due long ago.
    """
    with parts(given) as made:
        report = made.reconciler.observe()
        items = inspect(report.snapshot, made.options, report.now)
    if output == "table":
        columns = ("KIND", "NAME", "STATE", "EXPIRES", "IN", "RENEWED", "AUTHORITIES:right", "REASON", "MESSAGE")
        print_table(stdout(), columns, [_row(item, report.now) for item in items])
    else:
        print_data({"now": report.now, "items": items}, output)
    if any(item.verdict is CertificateVerdict.BAD for item in items):
        raise SystemExit(1)


@_subcommand("run")
@click.option(
    "--probe-bind", type=Address(), default="0.0.0.0:9080", show_default=True,
    help="Where /livez, /readyz and /metrics are served, in plain text.",
)  # fmt: skip
@click.option(
    "--interval-s",
    type=click.FloatRange(0.1, 3600),
    default=60.0,
    show_default=True,
    help="How often all is looked at.",
)
def run(*, probe_bind: tuple[str, int], interval_s: float, **given: Any) -> None:  # noqa: ANN401 - the same
    """Keep all of it right until told to stop; any number of replicas may."""
    with parts(given) as made:
        rotator = CertificateRotator(made.reconciler, made.options, made.metrics, interval_s)
        try:
            server = ProbeServer(*probe_bind, Probes(rotator.health, made.metrics.exposition))
        except (OSError, OverflowError) as error:
            raise InputError(f"--probe-bind {probe_bind[0]}:{probe_bind[1]}: {error}") from None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: rotator.stop())
        threading.Thread(target=server.serve_forever, name="probes", daemon=True).start()
        rotator.run()
        server.shutdown()
        server.server_close()


def _tell(report: CertificateReport) -> None:
    """What was done, on stdout; problems are an error.

    Raises:
        ServiceError: something could not be done.
    """
    for about, finding in report.done:
        click.echo(f"{about.kind}/{about.name}: {finding}")
    if not report.done and not report.problems:
        click.echo("nothing to do")
    if report.problems:
        raise ServiceError("; ".join(report.problems))


def _row(item: CertificateItem, now: datetime) -> tuple[str, ...]:
    colour = _COLOURS[item.verdict]
    return (
        item.kind,
        item.name,
        f"[{colour}]{item.verdict}[/]",
        timestamp_text(item.expires) if item.expires else "",
        _span(item.expires, now),
        timestamp_text(item.renewed) if item.renewed else "",
        str(item.authorities) if item.authorities is not None else "",
        item.reason,
        item.message,
    )


def _span(moment: datetime | None, now: datetime) -> str:
    """How far away a moment is: in days, near ones in hours, minutes or seconds."""
    if moment is None:
        return ""
    left_s = (moment - now).total_seconds()
    for unit_s, unit in ((86_400, "d"), (3600, "h"), (60, "m")):
        if abs(left_s) >= 2 * unit_s:
            return f"{left_s / unit_s:.0f}{unit}"
    return f"{left_s:.0f}s"
