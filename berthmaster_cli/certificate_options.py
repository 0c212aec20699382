"""The options of ``certs`` and ``register``, and the objects that these commands make from them."""

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from ipaddress import ip_address
from typing import Any, Final, NamedTuple

import click

from berthmaster.kube.events import EventRecorder
from berthmaster.runtime import logs
from berthmaster.runtime.clock import SystemClock
from berthmaster_cli.flags import option, options
from berthmaster_cli.options import (
    ClusterFlags,
    LogLevelFlags,
    cluster_clients,
)
from certs.bundle import MUTATING, SCHEDULER_PLUGIN, VALIDATING
from certs.options import CertificateOptions, Origin, ServingCertificate, TargetConfiguration
from certs.rotator import CertificateEvents, CertificateMetrics, CertificateReconciler
from certs.secrets import Clusters

_DNS_NAME: Final = re.compile(
    r"(?=.{1,253}$)(\*\.)?([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*"
)
_OBJECT_NAME: Final = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_MAX_NAMES: Final = 100
_LIFETIME_DAYS: Final = click.FloatRange(0.0001, 36_500)
_REPORTER: Final = "berthmaster.io/certs"


class ServingSecret(click.ParamType[ServingCertificate]):
    """``SECRET=NAME[,NAME...]``."""

    name = "SECRET=NAME[,NAME...]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> ServingCertificate:  # noqa: ANN401
        if isinstance(value, ServingCertificate):
            return value
        secret, equals, listed = str(value).partition("=")
        names = tuple(name.strip() for name in listed.split(",")) if equals else ()
        if not _OBJECT_NAME.fullmatch(secret):
            example = "shop-tls=shop.default.svc,10.0.0.1"
            self.fail(f"{secret!r} is not the name of a Secret; write for example {example}", param, ctx)
        if len(names) > _MAX_NAMES:
            self.fail(f"{secret} has {len(names)} names; accepted are at most {_MAX_NAMES}", param, ctx)
        for name in names:
            if not (_is_address(name) or _DNS_NAME.fullmatch(name)):
                self.fail(f"{name!r} is neither a lower-case DNS name nor an IP address", param, ctx)
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
        type=ServingSecret(), required=True,
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


certificate_options: Final = options(
    CertificateFlags,
    server="the host, which has the Secrets and runs the servers",
    target="the API server that calls the webhooks",
)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def options_from(flags: CertificateFlags) -> CertificateOptions:
    """Return the options from the flags."""
    names = {MUTATING: flags.mutating, VALIDATING: flags.validating, SCHEDULER_PLUGIN: flags.scheduler_plugin}
    targets = dict.fromkeys(TargetConfiguration(kind, name) for kind, listed in names.items() for name in listed)
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
    )


class CertificateContext(NamedTuple):
    """The objects that the commands work with."""

    clusters: Clusters
    options: CertificateOptions
    metrics: CertificateMetrics
    reconciler: CertificateReconciler


@contextmanager
def certificate_context(flags: CertificateFlags) -> Iterator[CertificateContext]:
    """Configure logs, connect to the clusters, and write events until the context ends."""
    options = options_from(flags)
    logs.configure(flags.log_level)
    clusters = Clusters(*cluster_clients(flags))
    clock, metrics = SystemClock(), CertificateMetrics()
    recorders = {each: EventRecorder(each, clock, _REPORTER, socket.gethostname()) for each in clusters}
    events = CertificateEvents(recorders[clusters.host], recorders[clusters.target], metrics.count)
    for recorder in recorders.values():
        recorder.start()
    try:
        yield CertificateContext(clusters, options, metrics, CertificateReconciler(clusters, options, clock, events))
    finally:
        for recorder in recorders.values():
            recorder.stop()
