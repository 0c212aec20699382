"""``berthmaster register``: webhooks made known to an API server, and unknown again, without a gap."""

import re
import time
from pathlib import Path
from typing import Any, Final

import click

from berthmaster.kube.lease import remove_lease
from berthmaster.manifests.document import Document, ManifestLimits
from berthmaster.manifests.files import read_documents
from berthmaster.model.errors import ServiceError
from berthmaster.runtime.clock import SystemClock
from berthmaster_cli.certificate_options import certificate_options, parts
from berthmaster_cli.options import config_option
from certs.reconcile import CertificateReconciler
from certs.registration import Registrar, RegistrationResult, endpoints, wait_until_reachable

_ENVIRONMENT: Final = {"auto_envvar_prefix": "BERTHMASTER_REGISTER"}
_EPILOG: Final = (
    "Every option is also read from the environment, --timeout-s from BERTHMASTER_REGISTER_TIMEOUT_S and so on."
)
_LIMITS: Final = ManifestLimits(file_bytes=4 * 2**20, documents=1000)
_POLL_S: Final = 1.0
_HOLDER_PATIENCE_S: Final = 60.0
"""How long controllers that were told to stop may go on."""
_LEASE: Final = re.compile(r"([a-z0-9][-a-z0-9]{0,62})/([a-z0-9][-a-z0-9.]{0,252})")
_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


class LeaseKey(click.ParamType[tuple[str, str]]):
    """``NAMESPACE/NAME``."""

    name = "NAMESPACE/NAME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:  # noqa: ANN401
        """Take it apart."""
        found = _LEASE.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} names no Lease, as in karmada-system/berthmaster-controllers", param, ctx)
        return found[1], found[2]


@click.group()
def command() -> None:
    """Make webhooks known to an API server, and unknown again, without a gap."""


def _file_options(function: Any) -> Any:  # noqa: ANN401 - a decorator of click's
    named = click.option(
        "--registered-by", default="berthmaster", show_default=True, metavar="NAME",
        help="Whose objects they are: a label on them. Another one's are left alone.",
    )  # fmt: skip
    files = click.option(
        "-f", "--filename", "files", multiple=True, required=True, type=click.Path(path_type=Path), metavar="PATH",
        help="Webhook configurations and what goes with them: a file, a folder or - for stdin. Repeatable.",
    )  # fmt: skip
    return files(named(function))


@command.command("apply", context_settings=_ENVIRONMENT, epilog=_EPILOG)
@config_option
@_file_options
@click.option(
    "--timeout-s", type=click.FloatRange(0, 3600), default=300.0, show_default=True,
    help="How long to wait until every webhook answers.",
)  # fmt: skip
@certificate_options
def apply(*, files: tuple[Path, ...], registered_by: str, timeout_s: float, **given: Any) -> None:  # noqa: ANN401
    """Make sure of the certificates, wait until the webhooks answer with them, then let the API server call them."""
    documents = _documents(files, registered_by)
    called = list(endpoints(documents))
    with parts(given) as made:
        _make_sure(made.reconciler, timeout_s)
        wait_until_reachable(called, made.reconciler.bundle, SystemClock(), timeout_s)
        for result in Registrar(made.clusters.target, SystemClock(), registered_by).apply(
            documents, made.reconciler.bundle
        ):
            _tell(result)


@command.command("remove", context_settings=_ENVIRONMENT, epilog=_EPILOG)
@config_option
@_file_options
@click.option("--certificates", is_flag=True, help="Delete the Secrets that hold our certificates, too.")
@click.option(
    "--lease", type=LeaseKey(),
    help="Delete the controllers' Lease in the target, too, once nobody holds it; one that is in use stays.",
)  # fmt: skip
@certificate_options
def remove(
    *,
    files: tuple[Path, ...],
    registered_by: str,
    certificates: bool,
    lease: tuple[str, str] | None,
    **given: Any,  # noqa: ANN401
) -> None:
    """Delete what `apply` has made, webhooks first; what is gone already is fine."""
    documents = _documents(files, registered_by)
    with parts(given) as made:
        for result in Registrar(made.clusters.target, SystemClock(), registered_by).remove(documents):
            _tell(result)
        for name in made.reconciler.delete_secrets() if certificates else ():
            click.echo(f"Secret/{name}: removed")
        if lease:
            outcome = remove_lease(made.clusters.target, lease, SystemClock(), _HOLDER_PATIENCE_S)
            click.echo(f"Lease/{lease[1]}: {outcome}")


def _make_sure(reconciler: CertificateReconciler, timeout_s: float) -> None:
    """Keep the certificates until all are there: somebody else may be about to provide them.

    Raises:
        ServiceError: they are not there in time.
    """
    deadline_s = time.monotonic() + timeout_s
    while problems := reconciler.reconcile().problems:
        if time.monotonic() >= deadline_s:
            raise ServiceError("; ".join(problems))
        time.sleep(_POLL_S)


def _documents(files: tuple[Path, ...], registered_by: str) -> list[Document]:
    if not _LABEL_VALUE.fullmatch(registered_by):
        raise click.UsageError(f"--registered-by {registered_by!r} is no value of a label")
    return list(read_documents(files, limits=_LIMITS))


def _tell(result: RegistrationResult) -> None:
    click.echo(f"{result.kind}/{result.name}: {result.outcome}")
