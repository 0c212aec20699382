"""``berthmaster certs``: issue, renew and inspect serving certificates and CA bundles."""

import re
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from ipaddress import ip_address
from typing import Any, Final, NamedTuple

import click
import msgspec
from rich.text import Text

from berthmaster.kube.events import EventRecorder
from berthmaster.model.errors import InputError, ServiceError
from berthmaster.model.meta import timestamp_text
from berthmaster.runtime import logs
from berthmaster.runtime.clock import SystemClock
from berthmaster.serving.probe_server import serving_probes
from berthmaster.serving.probes import Probes
from berthmaster.views.texts import numbers
from berthmaster_cli.answers import AnswerKind
from berthmaster_cli.flags import Parsed, option, options
from berthmaster_cli.option_variables import environment_text
from berthmaster_cli.options import ADDRESS, ClusterFlags, LogLevelFlags, cluster_clients, config_option
from berthmaster_cli.output import OutputFlags, echo, print_answer, print_table, styled
from berthmaster_cli.watching import WatchFlags, watched
from certs import rotator
from certs.bundle_fields import MUTATING, VALIDATING
from certs.kubeadmiral import SCHEDULER_PLUGIN
from certs.options import CertificateOptions, Origin, ServingCertificate, TargetConfiguration
from certs.ownership import DEFAULT_OWNER, LABEL_VALUE
from certs.reconciler import CertificateEvents, CertificateReconciler, CertificateReport
from certs.snapshot import Clusters
from certs.steps import CertificateItem, CertificateVerdict

_DNS_NAME: Final = re.compile(
    r"(?=.{1,253}$)(\*\.)?([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*"
)
_OBJECT_NAME: Final = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_MAX_NAMES: Final = 100
_LIFETIME_DAYS: Final = click.FloatRange(0.0001, 36_500)
_REPORTER: Final = "berthmaster.io/certs"
CONFIGURATION_KINDS: Final = (MUTATING, VALIDATING, SCHEDULER_PLUGIN)
"""The kinds that hold bundles."""
certificate_options: Final = partial(
    options,
    server="the host, which has the Secrets and runs the servers",
    target="the API server that calls the webhooks",
)
"""The options of a class that is based on ``CertificateFlags``."""
_ENVIRONMENT: Final = "BERTHMASTER_CERTS"
_EPILOG: Final = environment_text(_ENVIRONMENT, "--authority-secret")
_COLOURS: Final = {CertificateVerdict.OK: "green", CertificateVerdict.DUE: "yellow", CertificateVerdict.BAD: "bold red"}


def _serving_secret(text: str) -> ServingCertificate:
    secret, equals, listed = text.partition("=")
    names = tuple(name.strip() for name in listed.split(",")) if equals else ()
    if not _OBJECT_NAME.fullmatch(secret):
        example = "shop-tls=shop.default.svc,10.0.0.1"
        raise InputError(f"{secret!r} is not the name of a Secret; write for example {example}")
    if len(names) > _MAX_NAMES:
        raise InputError(f"{secret} has {len(names)} names; accepted are at most {_MAX_NAMES}")
    for name in names:
        try:
            if not _DNS_NAME.fullmatch(name):
                ip_address(name)
        except ValueError:
            raise InputError(f"{name!r} is neither a lower-case DNS name nor an IP address") from None
    return ServingCertificate(secret, names)


class CertificateFlags(ClusterFlags, LogLevelFlags):
    """The options of ``certs`` and ``register``."""

    namespace: str = option("The namespace of the Secrets.", required=True, metavar="NAME")
    authority_secret: str = option(
        "The Secret with key, certificate and bundle of the authority. No server mounts it.",
        "berthmaster-ca", metavar="NAME",
    )  # fmt: skip
    serving: tuple[ServingCertificate, ...] = option(
        "A Secret that a server mounts, and the DNS names and IP addresses in its certificate. Repeatable.",
        type=Parsed("SECRET=NAME[,NAME...]", _serving_secret), required=True,
    )  # fmt: skip
    authority: str = option(
        "own: Berthmaster issues certificates. provided: another component, for example cert-manager, writes the "
        "serving Secrets, and Berthmaster reads their ca.crt.",
        Origin.OWN.value, click.Choice([each.value for each in Origin]),
    )  # fmt: skip
    mutating: tuple[str, ...] = option(
        "A MutatingWebhookConfiguration that gets the bundle. Repeatable.", metavar="NAME"
    )
    validating: tuple[str, ...] = option(
        "A ValidatingWebhookConfiguration that gets the bundle. Repeatable.", metavar="NAME"
    )
    scheduler_plugin: tuple[str, ...] = option(
        "A SchedulerPluginWebhookConfiguration of KubeAdmiral that gets the bundle. Repeatable.", metavar="NAME"
    )
    registered_by: str = option(
        "This installation, as a label on the objects that it registers. Objects of others are not changed.",
        DEFAULT_OWNER, metavar="NAME",
    )  # fmt: skip
    leaf_lifetime_days: float = option(
        "The lifetime of serving certificates, in days. They are renewed after two thirds of it.", 90.0, _LIFETIME_DAYS
    )
    authority_lifetime_days: float = option(
        "The lifetime of authorities, in days. They are replaced after two thirds of it.", 1095.0, _LIFETIME_DAYS
    )
    overlap_s: float = option(
        "The time that a changed Secret may need to reach every pod that mounts it, in seconds. A new authority "
        "issues nothing before this time has passed, and an old one stays in the bundle until then.",
        600.0, click.FloatRange(0, 86_400),
    )  # fmt: skip


def _options_from(flags: CertificateFlags) -> CertificateOptions:
    """Return the options from the flags."""
    names = zip(CONFIGURATION_KINDS, (flags.mutating, flags.validating, flags.scheduler_plugin), strict=True)
    targets = dict.fromkeys(TargetConfiguration(kind, name) for kind, listed in names for name in listed)
    if not LABEL_VALUE.fullmatch(flags.registered_by):
        raise click.UsageError(f"--registered-by {flags.registered_by!r} is not a label value")
    secrets = [each.secret for each in flags.serving]
    if len({*secrets, flags.authority_secret}) <= len(secrets):
        raise click.UsageError("--serving and --authority-secret must name different Secrets")
    origin = Origin(flags.authority)
    for each in flags.serving:
        if origin is Origin.OWN and not each.names:
            example = f"{each.secret}=web.system.svc,10.0.0.1"
            raise click.UsageError(f"--serving {each.secret}: names are missing; write for example {example}")
    return CertificateOptions(
        namespace=flags.namespace,
        authority_secret=flags.authority_secret,
        serving=tuple(flags.serving),
        targets=tuple(targets),
        origin=origin,
        leaf_lifetime=timedelta(days=flags.leaf_lifetime_days),
        authority_lifetime=timedelta(days=flags.authority_lifetime_days),
        overlap=timedelta(seconds=flags.overlap_s),
        registered_by=flags.registered_by,
    )


class CertificateContext(NamedTuple):
    """The objects that the commands work with."""

    clusters: Clusters
    options: CertificateOptions
    metrics: rotator.CertificateMetrics
    reconciler: CertificateReconciler


@contextmanager
def certificate_context(flags: CertificateFlags) -> Iterator[CertificateContext]:
    """Configure logs, connect to the clusters, and write events until the context ends."""
    options = _options_from(flags)
    logs.configure(flags.log_level)
    clusters = Clusters(*cluster_clients(flags))
    clock, metrics = SystemClock(), rotator.CertificateMetrics()
    recorders = {each: EventRecorder(each, clock, _REPORTER, socket.gethostname()) for each in clusters}
    events = CertificateEvents(recorders[clusters.host], recorders[clusters.target], metrics.count)
    for recorder in recorders.values():
        recorder.start()
    try:
        yield CertificateContext(clusters, options, metrics, CertificateReconciler(clusters, options, clock, events))
    finally:
        for recorder in recorders.values():
            recorder.stop()


@click.group()
def command() -> None:
    """Issue, renew and inspect serving certificates and CA bundles."""


def _subcommand(
    name: str, kind: type[CertificateFlags] = CertificateFlags, exit_codes: str = ""
) -> Callable[[Callable[..., Any]], click.Command]:
    settings = {"auto_envvar_prefix": _ENVIRONMENT}
    return lambda function: command.command(name, context_settings=settings, epilog=_EPILOG + exit_codes)(
        config_option(certificate_options(kind)(function))
    )


@_subcommand("bootstrap")
def bootstrap(flags: CertificateFlags) -> None:
    """Issue and renew certificates once.

    Issues missing certificates, renews due ones and updates bundles. It is safe to repeat.
    """
    with certificate_context(flags) as context:
        _print_report(context.reconciler.reconcile())


class _CertsRotateFlags(CertificateFlags):
    ca: bool = option("Start to replace the authority, with overlap. `certs run` or repeated calls complete it.")


@_subcommand("rotate", _CertsRotateFlags)
def rotate(flags: _CertsRotateFlags) -> None:
    """Renew every certificate, or the authority.

    Renews every serving certificate now. With --ca it starts to replace the authority instead.
    """
    if flags.authority == "provided":
        raise click.UsageError("with --authority provided, the component that provides the certificates renews them")
    with certificate_context(flags) as context:
        _print_report(context.reconciler.reconcile(renew_leaves=not flags.ca, rotate_authority=flags.ca))


class CertificateInventory(msgspec.Struct, frozen=True):
    """All certificates and bundles, and when they were read."""

    now: datetime
    items: list[CertificateItem]


_ANSWER: Final = AnswerKind("CertificateInventory", CertificateInventory, frozenset({"now"}))


class _CertsInspectFlags(OutputFlags, CertificateFlags, WatchFlags):
    """The options of ``berthmaster certs inspect``."""


@_subcommand(
    "inspect",
    _CertsInspectFlags,
    "Exit codes: 0 success; 1 clients reject a certificate, or soon will because a renewal is overdue; 2 bad usage or "
    "input.",
)
@watched()
def inspect_(flags: _CertsInspectFlags) -> None:
    """Show certificates and bundles.

    Shows when they expire, what is due and why.
    """
    with certificate_context(flags) as context:
        found = context.reconciler.observe().certificates
        items = found.items()
    if flags.output == "table":
        columns = ("KIND", "NAME", "STATE", "EXPIRES", "IN", "RENEWED", numbers("AUTHORITIES"), "REASON", "MESSAGE")
        print_table(columns, [_row(item, found.now) for item in items])
    else:
        print_answer(_ANSWER, CertificateInventory(found.now, items), flags.output)
    if any(item.verdict is CertificateVerdict.BAD for item in items):
        raise SystemExit(1)


class _CertsRunFlags(CertificateFlags):
    probe_bind: tuple[str, int] = option(
        "The address for /livez, /readyz and /metrics, in plain text.", "0.0.0.0:9080", ADDRESS
    )
    interval_s: float = option("The interval of checks, in seconds.", 60.0, click.FloatRange(0.1, 3600))


@_subcommand("run", _CertsRunFlags)
def run(flags: _CertsRunFlags) -> None:
    """Issue and renew certificates continuously.

    Also updates bundles. Runs until a signal stops it. Several replicas can run.
    """
    with certificate_context(flags) as context:
        running = rotator.CertificateRotator(context.reconciler, context.options, context.metrics, flags.interval_s)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: running.stop())
        with serving_probes(*flags.probe_bind, Probes(running.health, context.metrics.exposition)):
            running.run()


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
