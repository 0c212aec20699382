"""The options of everything that has to do with certificates: where they are kept, for whom, and how long they live."""

import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import reduce
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from berthmaster.kube.events import EventRecorder
from berthmaster.kube.http_client import load_client
from berthmaster.runtime import logs
from berthmaster.runtime.clock import SystemClock
from certs.injection import MUTATING, SCHEDULER_PLUGIN, VALIDATING
from certs.options import CertificateOptions, Origin, ServingCertificate, TargetConfiguration
from certs.reconcile import CertificateEvents, CertificateReconciler
from certs.rotator import CertificateMetrics
from certs.snapshot import Clusters

_FILE: Final = click.Path(dir_okay=False, path_type=Path)
_DNS_NAME: Final = re.compile(
    r"(?=.{1,253}$)(\*\.)?([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*"
)
_OBJECT_NAME: Final = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_MAX_NAMES: Final = 100
_SHORTEST_LIFE_DAYS: Final = 1 / 8640
_LONGEST_LIFE_DAYS: Final = 36_500
_REPORTER: Final = "berthmaster.io/certs"


class ServingSecret(click.ParamType[ServingCertificate]):
    """``SECRET=NAME[,NAME...]``."""

    name = "SECRET=NAME[,NAME...]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> ServingCertificate:  # noqa: ANN401
        """Take it apart."""
        if isinstance(value, ServingCertificate):
            return value
        secret, equals, listed = str(value).partition("=")
        names = tuple(name.strip() for name in listed.split(",")) if equals else ()
        if not _OBJECT_NAME.fullmatch(secret):
            self.fail(f"{secret!r} is no name of a Secret, as in shop-tls=shop.default.svc,10.0.0.1", param, ctx)
        if len(names) > _MAX_NAMES:
            self.fail(f"{len(names)} names for {secret}: accepted are at most {_MAX_NAMES}", param, ctx)
        for name in names:
            if not (_is_address(name) or _DNS_NAME.fullmatch(name)):
                self.fail(f"{name!r} is neither a DNS name in lower case nor an IP address", param, ctx)
        return ServingCertificate(secret, names)


def certificate_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Where certificates are, and how they are kept."""
    options = (
        click.option(
            "--kubeconfig", type=_FILE,
            help="Access to the host, where Secrets are and servers run; without it, that of a pod in its cluster.",
        ),
        click.option("--context", help="Which context of the kubeconfig."),
        click.option(
            "--target-kubeconfig", type=_FILE,
            help="Access to the API server that calls the webhooks; without it, the host.",
        ),
        click.option("--target-context", help="Which context of that kubeconfig."),
        click.option("--namespace", required=True, help="Where the Secrets are."),
        click.option(
            "--authority-secret", default="berthmaster-ca", show_default=True, metavar="NAME",
            help="The Secret of the authority: its key, certificate and bundle. No server mounts it.",
        ),
        click.option(
            "--serving", "serving", multiple=True, required=True, type=ServingSecret(),
            help="A Secret for a server to mount, and the DNS names and IP addresses it is known by. Repeatable.",
        ),
        click.option(
            "--authority", type=click.Choice([each.value for each in Origin]), default=Origin.OWN.value,
            show_default=True,
            help="own: kept here. provided: somebody else, as cert-manager, stores the serving Secrets; only their "
            "ca.crt is read.",
        ),
        click.option("--mutating", multiple=True, metavar="NAME", help="A MutatingWebhookConfiguration. Repeatable."),
        click.option(
            "--validating", multiple=True, metavar="NAME", help="A ValidatingWebhookConfiguration. Repeatable."
        ),
        click.option(
            "--scheduler-plugin", multiple=True, metavar="NAME",
            help="A SchedulerPluginWebhookConfiguration of KubeAdmiral. Repeatable.",
        ),
        click.option(
            "--leaf-lifetime-days", type=click.FloatRange(_SHORTEST_LIFE_DAYS, _LONGEST_LIFE_DAYS), default=90.0,
            show_default=True, help="How long serving certificates live; renewed at two thirds of it.",
        ),
        click.option(
            "--authority-lifetime-days", type=click.FloatRange(_SHORTEST_LIFE_DAYS, _LONGEST_LIFE_DAYS),
            default=1095.0, show_default=True, help="How long authorities live; replaced from two thirds of it on.",
        ),
        click.option(
            "--overlap-s", type=click.FloatRange(0, 86_400), default=600.0, show_default=True,
            help="How long a Secret may take to reach all who mount it: the wait before a new authority issues, and "
            "before the old one is trusted no more.",
        ),
        click.option(
            "--log-level", type=click.Choice(logs.LEVELS), default="info", show_default=True, help="What is logged."
        ),
    )  # fmt: skip
    return reduce(lambda decorated, option: option(decorated), reversed(options), command)


def options_of(given: dict[str, Any]) -> CertificateOptions:
    """What the options say.

    Raises:
        InputError: the times do not go together.
    """
    kinds = ((MUTATING, "mutating"), (VALIDATING, "validating"), (SCHEDULER_PLUGIN, "scheduler_plugin"))
    targets = dict.fromkeys(TargetConfiguration(kind, name) for kind, option in kinds for name in given[option])
    secrets = [each.secret for each in given["serving"]]
    if len({*secrets, given["authority_secret"]}) <= len(secrets):
        raise click.UsageError("--serving and --authority-secret must each name another Secret")
    origin = Origin(given["authority"])
    for each in given["serving"]:
        if origin is Origin.OWN and not each.names:
            raise click.UsageError(f"--serving {each.secret}: for whom? as in {each.secret}=web.system.svc,10.0.0.1")
    return CertificateOptions(
        namespace=given["namespace"],
        authority_secret=given["authority_secret"],
        serving=tuple(given["serving"]),
        targets=tuple(targets),
        origin=origin,
        leaf_lifetime=timedelta(days=given["leaf_lifetime_days"]),
        authority_lifetime=timedelta(days=given["authority_lifetime_days"]),
        overlap=timedelta(seconds=given["overlap_s"]),
    )


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


class Parts(NamedTuple):
    """Everything that is needed.

    Attributes:
        clusters: the connections.
        options: what is kept.
        metrics: what is counted.
        reconciler: keeps the certificates.
    """

    clusters: Clusters
    options: CertificateOptions
    metrics: CertificateMetrics
    reconciler: CertificateReconciler


@contextmanager
def parts(given: dict[str, Any]) -> Iterator[Parts]:
    """The parts for what options name; logs go to standard error from here on. Events are written until the end.

    Raises:
        InputError: there is no access to a cluster, or options do not go together.
    """
    options = options_of(given)
    logs.configure(given["log_level"])
    clusters = _clusters(given)
    clock, metrics = SystemClock(), CertificateMetrics()
    recorders = {each: EventRecorder(each, clock, _REPORTER, socket.gethostname()) for each in clusters}
    events = CertificateEvents(recorders[clusters.host], recorders[clusters.target], metrics.count)
    for recorder in recorders.values():
        recorder.start()
    try:
        yield Parts(clusters, options, metrics, CertificateReconciler(clusters, options, clock, events))
    finally:
        for recorder in recorders.values():
            recorder.stop()


def _clusters(given: dict[str, Any]) -> Clusters:
    """Host and target: the same one where no other is named."""
    host = load_client(given["kubeconfig"], given["context"])
    if given["target_kubeconfig"] is None and given["target_context"] is None:
        return Clusters(host, host)
    return Clusters(host, load_client(given["target_kubeconfig"] or given["kubeconfig"], given["target_context"]))
