"""``berthmaster register``: register webhooks at an API server, and remove them, without failed calls."""

import re
import time
from pathlib import Path
from typing import Final

import click

from berthmaster.kube.lease import Lease, LeaseOptions
from berthmaster.manifests.document import Document
from berthmaster.manifests.files import read_documents
from berthmaster.manifests.limits import ManifestLimits
from berthmaster.model.errors import InputError, ServiceError
from berthmaster.runtime.clock import SystemClock
from berthmaster_cli.certs import (
    CONFIGURATION_KINDS,
    CertificateContext,
    CertificateFlags,
    certificate_context,
    certificate_options,
)
from berthmaster_cli.flags import Parsed, option
from berthmaster_cli.option_variables import environment_text
from berthmaster_cli.options import config_option
from berthmaster_cli.output import echo
from certs.reconciler import CertificateReconciler
from certs.registration import Registrar, endpoints, wait_until_reachable

_SETTINGS: Final = {"auto_envvar_prefix": "BERTHMASTER_REGISTER"}
_EPILOG: Final = environment_text("BERTHMASTER_REGISTER", "--registered-by")
_LIMITS: Final = ManifestLimits(file_bytes=4 * 2**20, documents=1000)
_POLL_S: Final = 1.0
_HOLDER_PATIENCE_S: Final = 60.0
"""How long controllers that received a stop signal may hold the lease."""
_LEASE: Final = re.compile(r"([a-z0-9][-a-z0-9]{0,62})/([a-z0-9][-a-z0-9.]{0,252})")


def _lease_key(text: str) -> tuple[str, str]:
    found = _LEASE.fullmatch(text)
    if found is None:
        raise InputError(f"{text!r} is not a Lease; write for example karmada-system/berthmaster-controllers")
    return found[1], found[2]


@click.group()
def command() -> None:
    """Register webhooks at an API server, and remove them, without failed calls."""


class FileFlags(CertificateFlags):
    """The objects to register, and their certificates."""

    files: tuple[Path, ...] = option(
        "Webhook configurations and related objects: a file, a folder, or - for standard input. Repeatable.",
        type=click.Path(path_type=Path), names=("-f", "--filename"), required=True, metavar="PATH",
    )  # fmt: skip

    def documents(self) -> list[Document]:
        return list(read_documents(self.files, limits=_LIMITS))


class _RegisterApplyFlags(FileFlags):
    timeout_s: float = option(
        "The time limit until every webhook responds, in seconds.", 300.0, click.FloatRange(0, 3600)
    )


@command.command("apply", context_settings=_SETTINGS, epilog=_EPILOG)
@config_option
@certificate_options(_RegisterApplyFlags)
def apply(flags: _RegisterApplyFlags) -> None:
    """Register webhooks.

    Issues certificates, waits until the webhooks respond with them, then registers the webhooks.
    """
    documents = flags.documents()
    called = list(endpoints(documents, CONFIGURATION_KINDS))
    with certificate_context(flags) as context:
        registrar = _registrar(context, flags)
        registrar.check(documents)
        _reconcile(context.reconciler, flags.timeout_s)
        wait_until_reachable(called, context.reconciler.bundle, SystemClock(), flags.timeout_s)
        for result in registrar.apply(documents, context.reconciler.bundle):
            echo(f"{result.kind}/{result.name}: {result.outcome}")


class _RegisterRemoveFlags(FileFlags):
    certificates: bool = option("Also delete the Secrets with the certificates that Berthmaster issued.")
    lease: tuple[str, str] | None = option(
        "Also delete this Lease of the controllers on the target, once no process holds it.",
        type=Parsed("NAMESPACE/NAME", _lease_key),
    )


@command.command("remove", context_settings=_SETTINGS, epilog=_EPILOG)
@config_option
@certificate_options(_RegisterRemoveFlags)
def remove(flags: _RegisterRemoveFlags) -> None:
    """Remove registered webhooks.

    Deletes the objects that `apply` created, webhooks first. Missing objects are no error.
    """
    documents = flags.documents()
    with certificate_context(flags) as context:
        for result in _registrar(context, flags).remove(documents):
            echo(f"{result.kind}/{result.name}: {result.outcome}")
        for name in context.reconciler.delete_secrets() if flags.certificates else ():
            echo(f"Secret/{name}: removed")
        if flags.lease:
            found = Lease(context.clusters.target, LeaseOptions(*flags.lease, identity=""), SystemClock())
            echo(f"Lease/{flags.lease[1]}: {found.remove(_HOLDER_PATIENCE_S)}")


def _registrar(context: CertificateContext, flags: CertificateFlags) -> Registrar:
    return Registrar(context.clusters.target, SystemClock(), flags.registered_by, CONFIGURATION_KINDS)


def _reconcile(reconciler: CertificateReconciler, timeout_s: float) -> None:
    """Reconcile the certificates until all exist, because another component may provide them."""
    deadline_s = time.monotonic() + timeout_s
    while problems := reconciler.reconcile().problems:
        if time.monotonic() >= deadline_s:
            raise ServiceError("; ".join(problems))
        time.sleep(_POLL_S)
