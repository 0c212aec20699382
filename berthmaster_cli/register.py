"""``berthmaster register``: register webhooks at an API server, and remove them, without failed calls."""

import re
import time
from pathlib import Path
from typing import Final

import click

from berthmaster.kube.lease import Lease, LeaseOptions
from berthmaster.manifests.files import Document, ManifestLimits, read_documents
from berthmaster.model.errors import InputError, ServiceError
from berthmaster.runtime.clock import SystemClock
from berthmaster_cli.certs import CertificateFlags, certificate_context, certificate_options
from berthmaster_cli.flags import Flags, Parsed, declared, environment_text, option
from berthmaster_cli.options import config_option
from berthmaster_cli.output import echo
from certs.registration import Registrar, RegistrationResult, endpoints, wait_until_reachable
from certs.rotator import CertificateReconciler

_SETTINGS: Final = {"auto_envvar_prefix": "BERTHMASTER_REGISTER"}
_EPILOG: Final = environment_text("BERTHMASTER_REGISTER", "--registered-by")
_LIMITS: Final = ManifestLimits(file_bytes=4 * 2**20, documents=1000)
_POLL_S: Final = 1.0
_HOLDER_PATIENCE_S: Final = 60.0
"""How long controllers that received a stop signal may hold the lease."""
_LEASE: Final = re.compile(r"([a-z0-9][-a-z0-9]{0,62})/([a-z0-9][-a-z0-9.]{0,252})")
_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def _lease_key(text: str) -> tuple[str, str]:
    found = _LEASE.fullmatch(text)
    if found is None:
        raise InputError(f"{text!r} is not a Lease; write for example karmada-system/berthmaster-controllers")
    return found[1], found[2]


@click.group()
def command() -> None:
    """Register webhooks at an API server, and remove them, without failed calls."""


class FileFlags(Flags):
    """The objects to register."""

    files: tuple[Path, ...] = option(
        "Webhook configurations and related objects: a file, a folder, or - for standard input. Repeatable.",
        type=click.Path(path_type=Path), names=("-f", "--filename"), required=True, metavar="PATH",
    )  # fmt: skip
    registered_by: str = option(
        "The owner, as a label on the objects. Objects of other owners are not changed.", "berthmaster", metavar="NAME"
    )


@command.command("apply", context_settings=_SETTINGS, epilog=_EPILOG)
@config_option
@declared(FileFlags)
@click.option(
    "--timeout-s", type=click.FloatRange(0, 3600), default=300.0, show_default=True,
    help="The time limit until every webhook responds, in seconds.",
)  # fmt: skip
@certificate_options
def apply(flags: CertificateFlags, *, files: tuple[Path, ...], registered_by: str, timeout_s: float) -> None:
    """Register webhooks.

    Issues certificates, waits until the webhooks respond with them, then registers the webhooks.
    """
    documents = _documents(files, registered_by)
    called = list(endpoints(documents))
    with certificate_context(flags) as context:
        _reconcile(context.reconciler, timeout_s)
        wait_until_reachable(called, context.reconciler.bundle, SystemClock(), timeout_s)
        for result in Registrar(context.clusters.target, SystemClock(), registered_by).apply(
            documents, context.reconciler.bundle
        ):
            _print_result(result)


@command.command("remove", context_settings=_SETTINGS, epilog=_EPILOG)
@config_option
@declared(FileFlags)
@click.option(
    "--certificates", is_flag=True, help="Also delete the Secrets with the certificates that Berthmaster issued."
)
@click.option(
    "--lease", type=Parsed("NAMESPACE/NAME", _lease_key),
    help="Also delete this Lease of the controllers on the target, once no process holds it.",
)  # fmt: skip
@certificate_options
def remove(
    flags: CertificateFlags,
    *,
    files: tuple[Path, ...],
    registered_by: str,
    certificates: bool,
    lease: tuple[str, str] | None,
) -> None:
    """Remove registered webhooks.

    Deletes the objects that `apply` created, webhooks first. Missing objects are no error.
    """
    documents = _documents(files, registered_by)
    with certificate_context(flags) as context:
        for result in Registrar(context.clusters.target, SystemClock(), registered_by).remove(documents):
            _print_result(result)
        for name in context.reconciler.delete_secrets() if certificates else ():
            echo(f"Secret/{name}: removed")
        if lease:
            found = Lease(context.clusters.target, LeaseOptions(*lease, identity=""), SystemClock())
            echo(f"Lease/{lease[1]}: {found.remove(_HOLDER_PATIENCE_S)}")


def _reconcile(reconciler: CertificateReconciler, timeout_s: float) -> None:
    """Reconcile the certificates until all exist, because another component may provide them."""
    deadline_s = time.monotonic() + timeout_s
    while problems := reconciler.reconcile().problems:
        if time.monotonic() >= deadline_s:
            raise ServiceError("; ".join(problems))
        time.sleep(_POLL_S)


def _documents(files: tuple[Path, ...], registered_by: str) -> list[Document]:
    if not _LABEL_VALUE.fullmatch(registered_by):
        raise click.UsageError(f"--registered-by {registered_by!r} is not a label value")
    return list(read_documents(files, limits=_LIMITS))


def _print_result(result: RegistrationResult) -> None:
    echo(f"{result.kind}/{result.name}: {result.outcome}")
