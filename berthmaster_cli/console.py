"""``berthmaster console``: serve pages that show the fleet, its workloads, and why they are where they are."""

from typing import Any, Final

import click

from berthmaster.runtime import logs
from berthmaster_cli.options import FILE, config_option, environment_text
from berthmaster_cli.serving_options import ServingDefaults, server_options_from, serving_options

_ENVIRONMENT: Final = "BERTHMASTER_CONSOLE"
_MIB: Final = 2**20


@click.command(
    context_settings={"auto_envvar_prefix": _ENVIRONMENT},
    epilog=environment_text(_ENVIRONMENT, "--extender-url") + "Signals: TERM drains and stops.",
)
@config_option
@click.option(
    "--extender-url", default="http://127.0.0.1:9443", show_default=True, metavar="URL",
    help="The extender that answers the questions of the pages, as https://HOST:PORT or http://HOST:PORT.",
)  # fmt: skip
@click.option(
    "--extender-ca-file", type=FILE, help="The CAs of the extender's certificate. Default: those of the system."
)
@click.option("--extender-token-file", type=FILE, help="A file whose first line is the bearer token for the extender.")
@click.option("--extender-client-cert-file", type=FILE, help="The client certificate for the extender, in PEM.")
@click.option("--extender-client-key-file", type=FILE, help="The private key of that certificate, in PEM.")
@click.option(
    "--extender-timeout-s", type=click.FloatRange(0.1, 300), default=10.0, show_default=True,
    help="The timeout for each part of an answer of the extender, in seconds.",
)  # fmt: skip
@click.option("--title", default="", metavar="TEXT", help="The name of this installation, in the title of each page.")
@serving_options(
    ServingDefaults(
        bind="127.0.0.1:9444",
        probe_bind="127.0.0.1:9084",
        tls_required=False,
        tls_min_version="1.2",
        threads=64,
        body_bytes=(_MIB, 16 * _MIB),
        request_memory_mib=0,
        timeout_s=(30.0, 300.0),
        fast_worker=False,
    )
)
def command(**given: Any) -> None:  # noqa: ANN401 - click's values, each checked by its type
    """Serve pages that show the fleet, its workloads, and why they are where they are. The pages change nothing."""
    logs.configure(given["log_level"])
    from berthmaster.native_api.access import ExtenderAccess  # noqa: PLC0415 - `--help` must not import the server
    from console.context import PageOptions  # noqa: PLC0415 - the same
    from console.serving import ConsoleOptions, serve  # noqa: PLC0415 - the same

    certificate, key = given["extender_client_cert_file"], given["extender_client_key_file"]
    if (certificate is None) != (key is None):
        raise click.UsageError("--extender-client-cert-file and --extender-client-key-file go together")
    serve(
        ConsoleOptions(
            server=server_options_from("berthmaster-console", given),
            extender=ExtenderAccess(
                given["extender_url"],
                given["extender_ca_file"],
                given["extender_token_file"],
                certificate,
                key,
                connections=16,
            ),
            extender_timeout_s=given["extender_timeout_s"],
            pages=PageOptions(given["title"]),
        )
    )
