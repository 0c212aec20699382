"""The options that all services share, with one meaning each."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from berthmaster.serving.tls import MINIMUM_VERSIONS, TLSFiles
from berthmaster_cli.options import FILE, Address, Decorator, certificate_pair, log_level_option, option_group

if TYPE_CHECKING:
    from berthmaster.serving.server import ServerOptions

_WORKER_CLASSES: Final = ("fast", "gthread")


class ServingDefaults(NamedTuple):
    """The defaults and bounds in which services differ.

    Attributes:
        bind: the address for requests.
        probe_bind: the address for probes and metrics.
        tls_required: whether the service needs a certificate.
        tls_min_version: a key of ``MINIMUM_VERSIONS``.
        threads: threads in each worker process.
        body_bytes: the default and the maximum of ``--max-body-bytes``.
        request_memory_mib: the default of ``--request-memory-mib``.
        timeout_s: the default and the maximum of ``--request-timeout-s``.
        timeout_help: help text that follows the common one.
    """

    bind: str
    probe_bind: str
    tls_required: bool
    tls_min_version: str
    threads: int
    body_bytes: tuple[int, int]
    request_memory_mib: int
    timeout_s: tuple[float, float]
    timeout_help: str = ""


def serving_options(defaults: ServingDefaults) -> Decorator:
    """Return a decorator that adds the options of a service to a command."""
    body_bytes, max_body_bytes = defaults.body_bytes
    timeout_s, max_timeout_s = defaults.timeout_s
    return option_group(
        click.option(
            "--bind", type=Address(), default=defaults.bind, show_default=True, help="The address for requests.",
        ),
        click.option(
            "--probe-bind", type=Address(), default=defaults.probe_bind, show_default=True,
            help="The address for /livez, /readyz and /metrics, in plain text.",
        ),
        click.option(
            "--cert-file", type=FILE, required=defaults.tls_required,
            help="The serving certificate in PEM, leaf certificate first.",
        ),
        click.option(
            "--key-file", type=FILE, required=defaults.tls_required, help="The private key of the certificate in PEM.",
        ),
        click.option(
            "--client-ca-file", type=FILE, help="Require client certificates that one of these CAs signed.",
        ),
        click.option(
            "--tls-min-version", type=click.Choice(list(MINIMUM_VERSIONS)), default=defaults.tls_min_version,
            show_default=True, help="The oldest TLS version that clients may use.",
        ),
        click.option(
            "--worker-class", type=click.Choice(_WORKER_CLASSES), default="fast", show_default=True,
            help="fast: one thread per process answers small requests itself, with a deadline for each request. "
            "gthread: gunicorn's own threaded worker.",
        ),
        click.option("--workers", type=click.IntRange(1, 64), default=2, show_default=True, help="Worker processes."),
        click.option(
            "--threads", type=click.IntRange(1, 512), default=defaults.threads, show_default=True,
            help="Threads in each process. The fast worker uses them for large or unusual requests only.",
        ),
        click.option(
            "--max-body-bytes", type=click.IntRange(1024, max_body_bytes), default=body_bytes, show_default=True,
            help="The maximum size of a request body, in bytes.",
        ),
        click.option(
            "--request-memory-mib", type=click.IntRange(8, 65536), default=defaults.request_memory_mib,
            show_default=True,
            help="The memory for requests in each process, in MiB. Large requests wait for memory until their timeout. "
            "Only the worker class fast has this limit.",
        ),
        click.option(
            "--max-connections", type=click.IntRange(16, 65536), default=1000, show_default=True,
            help="The maximum number of connections of each process. Above it, idle connections are closed.",
        ),
        click.option(
            "--request-timeout-s", type=click.FloatRange(0.1, max_timeout_s), default=timeout_s, show_default=True,
            help=f"The timeout of a request, in seconds.{defaults.timeout_help}",
        ),
        click.option(
            "--keepalive-s", type=click.IntRange(1, 3600), default=120, show_default=True,
            help="The time after which idle connections are closed, in seconds.",
        ),
        click.option(
            "--drain-s", type=click.FloatRange(0, 300), default=3.0, show_default=True,
            help="On a stop, the time that /readyz fails before the port closes, in seconds.",
        ),
        click.option(
            "--grace-s", type=click.IntRange(1, 300), default=20, show_default=True,
            help="On a stop, the time limit for running requests after the port has closed, in seconds.",
        ),
        log_level_option,
    )  # fmt: skip


def server_options_from(name: str, given: Mapping[str, Any]) -> "ServerOptions":
    """Make the server's options from the values of ``serving_options``.

    Raises:
        click.UsageError: only some of the TLS files are given.
    """
    from berthmaster.serving.server import ServerOptions  # noqa: PLC0415 - `--help` must not import the server

    return ServerOptions(
        name=name,
        host=given["bind"][0],
        port=given["bind"][1],
        probe_host=given["probe_bind"][0],
        probe_port=given["probe_bind"][1],
        tls=_tls_files(given),
        worker_class=given["worker_class"],
        workers=given["workers"],
        threads=given["threads"],
        connections=given["max_connections"],
        request_memory_bytes=given["request_memory_mib"] * 2**20,
        request_timeout_s=given["request_timeout_s"],
        keepalive_s=given["keepalive_s"],
        drain_s=given["drain_s"],
        grace_s=given["grace_s"],
    )


def _tls_files(given: Mapping[str, Any]) -> TLSFiles | None:
    pair, client_ca = certificate_pair(given, "cert-file", "key-file"), given["client_ca_file"]
    if pair is None:
        if client_ca is not None:
            raise click.UsageError("--client-ca-file needs --cert-file and --key-file")
        return None
    return TLSFiles(*pair, client_ca, given["tls_min_version"])
