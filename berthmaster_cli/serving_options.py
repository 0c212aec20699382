"""The options that all services share, with one meaning each."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from berthmaster.serving.tls import MINIMUM_VERSIONS, TLSFiles
from berthmaster_cli.flags import Flags, option
from berthmaster_cli.options import ADDRESS, LogLevelFlags, certificate_pair

if TYPE_CHECKING:
    from berthmaster.native_api.connection import ExtenderAccess
    from berthmaster.serving.server import ServerOptions


class ServingFlags(LogLevelFlags):
    """The options of a service. Each command adds the defaults and bounds in which services differ."""

    bind: tuple[str, int] = option("The address for requests.", type=ADDRESS)
    probe_bind: tuple[str, int] = option("The address for /livez, /readyz and /metrics, in plain text.", type=ADDRESS)
    cert_file: Path | None = option("The serving certificate in PEM, leaf certificate first.")
    key_file: Path | None = option("The private key of the certificate in PEM.")
    client_ca_file: Path | None = option("Require client certificates that one of these CAs signed.")
    tls_min_version: str = option(
        "The oldest TLS version that clients may use.", type=click.Choice(list(MINIMUM_VERSIONS))
    )
    workers: int = option("Worker processes.{copies}", type=click.IntRange(1, 64))
    threads: int = option(
        "Threads in each process. They answer large and unusual requests; one more thread answers the others.",
        type=click.IntRange(1, 512),
    )
    max_body_bytes: int = option("The maximum size of a request body, in bytes.")
    request_memory_mib: int = option(
        "The memory for requests in each process, in MiB. Large requests wait for memory until their timeout.",
        type=click.IntRange(8, 65536),
    )
    max_connections: int = option(
        "The maximum number of connections of each process. Above it, idle connections are closed.",
        1000, click.IntRange(16, 65536),
    )  # fmt: skip
    request_timeout_s: float = option("The timeout of a request, in seconds.{timeout}")
    keepalive_s: int = option(
        "The time after which idle connections are closed, in seconds.", 120, click.IntRange(1, 3600)
    )
    max_connection_age_s: float = option(
        "The age at which a connection closes after a response, in seconds, so that clients find new replicas. It is "
        "spread by a fifth. 0: no limit.",
        0.0, click.FloatRange(0, 86_400),
    )  # fmt: skip
    drain_s: float = option(
        "On a stop, the time that /readyz fails before the port closes, in seconds.", 3.0, click.FloatRange(0, 300)
    )
    grace_s: int = option(
        "On a stop, the time limit for running requests after the port has closed, in seconds.",
        20, click.IntRange(1, 300),
    )  # fmt: skip


def server_options_from(name: str, flags: ServingFlags) -> "ServerOptions":
    """Make the server's options from its flags."""
    from berthmaster.serving.server import ServerOptions  # noqa: PLC0415 - `--help` must not import the server

    return ServerOptions(
        name=name,
        host=flags.bind[0],
        port=flags.bind[1],
        probe_host=flags.probe_bind[0],
        probe_port=flags.probe_bind[1],
        tls=_tls_files(flags),
        workers=flags.workers,
        threads=flags.threads,
        connections=flags.max_connections,
        request_memory_bytes=flags.request_memory_mib * 2**20,
        request_timeout_s=flags.request_timeout_s,
        keepalive_s=flags.keepalive_s,
        drain_s=flags.drain_s,
        grace_s=flags.grace_s,
        connection_age_s=flags.max_connection_age_s,
    )


def _tls_files(flags: ServingFlags) -> TLSFiles | None:
    pair, client_ca = certificate_pair(flags.cert_file, flags.key_file), flags.client_ca_file
    if pair is None:
        if client_ca is not None:
            raise click.UsageError("--client-ca-file needs --cert-file and --key-file")
        return None
    return TLSFiles(*pair, client_ca, flags.tls_min_version)


class ExtenderAccessFlags(Flags):
    """How to ask the extender. A prefix precedes the names."""

    ca_file: Path | None = option("The CAs of the extender's certificate. Default: those of the system.")
    token_file: Path | None = option("A file whose first line is the bearer token for the extender.")
    client_cert_file: Path | None = option("The client certificate for the extender, in PEM.")
    client_key_file: Path | None = option("The private key of that certificate, in PEM.")


def extender_access_from(url: str, flags: ExtenderAccessFlags, prefix: str, connections: int) -> "ExtenderAccess":
    """Return the access to an extender."""
    from berthmaster.native_api.connection import ExtenderAccess  # noqa: PLC0415 - `--help` must not import the client

    certificate, key = certificate_pair(flags.client_cert_file, flags.client_key_file, f"{prefix}-client-") or (
        None,
        None,
    )
    return ExtenderAccess(url, flags.ca_file, flags.token_file, certificate, key, connections)
