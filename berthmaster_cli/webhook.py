"""``berthmaster webhook``: serve the admission webhook."""

from pathlib import Path
from typing import Any, Final

import click

from berthmaster.runtime import logs
from berthmaster.serving.tls import MINIMUM_VERSIONS, TLSFiles
from berthmaster_cli.options import Address, config_option, lifetime_options, server_options
from berthmaster_cli.rule_options import rule_levels, rule_options, scopes
from webhook.admission.settings import Mode, Settings

_FILE: Final = click.Path(dir_okay=False, path_type=Path)
_API_SERVER_TIMEOUT_S: Final = 30


@click.command(
    context_settings={"auto_envvar_prefix": "BERTHMASTER_WEBHOOK"},
    epilog="Every option is also read from the environment, --cert-file from BERTHMASTER_WEBHOOK_CERT_FILE and so on; "
    "lists there are separated by spaces. Signals: TERM drains and stops.",
)
@config_option
@click.option(
    "--mode", type=click.Choice([each.value for each in Mode]), default=Mode.COMPANION.value, show_default=True,
    help="companion: beside karmada-webhook. standalone: in its place.",
)  # fmt: skip
@click.option("--bind", type=Address(), default="0.0.0.0:8443", show_default=True, help="Where reviews are served.")
@click.option(
    "--probe-bind", type=Address(), default="0.0.0.0:8080", show_default=True,
    help="Where /livez, /readyz and /metrics are served, in plain text.",
)  # fmt: skip
@click.option("--cert-file", type=_FILE, required=True, help="The serving certificate, PEM, the leaf first.")
@click.option("--key-file", type=_FILE, required=True, help="Its private key, PEM.")
@click.option("--client-ca-file", type=_FILE, help="Clients must show a certificate that one of these CAs signed.")
@click.option(
    "--tls-min-version", type=click.Choice(list(MINIMUM_VERSIONS)), default="1.3", show_default=True,
    help="The oldest TLS version that is spoken.",
)  # fmt: skip
@click.option(
    "--threads", type=click.IntRange(1, 512), default=16, show_default=True,
    help="Threads in each process, for requests that are large or out of the ordinary.",
)  # fmt: skip
@click.option(
    "--max-body-bytes", type=click.IntRange(1024, 64 * 2**20), default=7 * 2**20, show_default=True,
    help="The largest review that is read.",
)  # fmt: skip
@click.option(
    "--request-timeout-s", type=click.FloatRange(0.1, _API_SERVER_TIMEOUT_S), default=2.5, show_default=True,
    help="How long a request may take; keep it below timeoutSeconds of the webhook configuration.",
)  # fmt: skip
@lifetime_options
@click.option(
    "--peer-checks/--no-peer-checks", default=False, show_default=True,
    help="In companion mode, run karmada-webhook's checks too, so that one answer names everything.",
)  # fmt: skip
@click.option(
    "--drop-handler", "drop_handlers", multiple=True, metavar="USERNAME",
    help="A user who may clear the record of a priority drop: the controller that handles it. Repeatable.",
)  # fmt: skip
@rule_options
def command(**given: Any) -> None:  # noqa: ANN401 - click's values, each checked by its type
    """Serve the admission webhook over HTTPS."""
    settings = Settings(
        mode=Mode(given["mode"]),
        peer_checks=given["peer_checks"],
        levels=rule_levels(given["rules"]),
        scopes=scopes(given["cluster_scoped_kinds"], given["namespaced_kinds"]),
        drop_handlers=frozenset(given["drop_handlers"]),
    )
    files = TLSFiles(given["cert_file"], given["key_file"], given["client_ca_file"], given["tls_min_version"])
    logs.configure(given["log_level"])
    from webhook.serving import ServingOptions, serve  # noqa: PLC0415 - `--help` must not wait for the server

    server = server_options("berthmaster-webhook", given, files)
    serve(ServingOptions(server, given["max_body_bytes"], settings))
