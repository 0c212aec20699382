"""``berthmaster console``: serve pages that show the fleet, its workloads, and why they are where they are."""

from pathlib import Path
from typing import Any, Final

import click

from berthmaster.runtime import logs
from berthmaster_cli.environment import environment_text
from berthmaster_cli.extender_options import extender_access_from, extender_options
from berthmaster_cli.oidc_options import oidc_from, oidc_options
from berthmaster_cli.options import FILE, config_option, kubeconfig_options
from berthmaster_cli.serving_options import ServingDefaults, server_options_from, serving_options

_ENVIRONMENT: Final = "BERTHMASTER_CONSOLE"
_MIB: Final = 2**20
_SPARE_THREADS: Final = 4
_STREAMS: Final = 60
"""The threads of streams that refuse further ones."""


@click.command(
    context_settings={"auto_envvar_prefix": _ENVIRONMENT},
    epilog=environment_text(_ENVIRONMENT, "--extender-url") + "Signals: TERM drains and stops.",
)
@config_option
@click.option(
    "--extender-url", default="http://127.0.0.1:9443", show_default=True, metavar="URL",
    help="The extender that answers the questions of the pages, as https://HOST:PORT or http://HOST:PORT.",
)  # fmt: skip
@extender_options("extender")
@click.option(
    "--extender-timeout-s",
    type=click.FloatRange(0.1, 300),
    default=25.0,
    show_default=True,
    help="The timeout for each part of an answer of the extender to a question that simulates, in seconds.",
)
@click.option(
    "--page-deadline-s",
    type=click.FloatRange(0.1, 60),
    default=5.0,
    show_default=True,
    help="How long a page waits for the extender, in seconds. It then shows the last known answers, and says so.",
)
@click.option(
    "--token-file",
    type=FILE,
    help='A file with the bearer tokens of visitors, one TOKEN[,NAME[,UID[,"GROUP,GROUP"]]] per line. Visitors sign in '
    "with a form, or send the token in the Authorization header.",
)
@oidc_options
@click.option(
    "--session-secret-file",
    type=FILE,
    help="A file with the secret that signs the cookies of sessions, of at least 32 bytes. All replicas need the same. "
    "Default: a random one, so that sessions end with the process.",
)
@click.option(
    "--revoked-sessions-folder",
    type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
    help="A folder that remembers for 8 hours which sessions have ended by a sign-out. Replicas that share it know all "
    "of them. Default: a temporary folder of the process.",
)
@click.option(
    "--trusted-user-header",
    default="",
    metavar="NAME",
    help="The header in which a proxy names the user, for example X-Forwarded-User. It counts only if the proxy proves "
    "itself.",
)
@click.option(
    "--trusted-groups-header",
    default="",
    metavar="NAME",
    help="The header in which the proxy lists the groups of the user, separated by commas.",
)
@click.option(
    "--trusted-proxy-name",
    "trusted_proxy_names",
    multiple=True,
    metavar="NAME",
    help="The common name of the client certificate that proves the proxy; needs --client-ca-file. Repeatable.",
)
@click.option(
    "--trusted-proxy-secret-file",
    type=FILE,
    help="A file with the secret that the proxy sends in the header X-Berthmaster-Proxy-Secret. Several lines are "
    "several secrets.",
)
@click.option(
    "--authorize",
    type=click.Choice(["none", "subject-access-review"]),
    default="none",
    show_default=True,
    help="What visitors may see. none: everything. subject-access-review: the namespaces in which the API server lets "
    "them list resourcebindings.",
)
@kubeconfig_options("that API server")
@click.option(
    "--max-streams",
    type=click.IntRange(1, 252),
    default=None,
    show_default=f"{_STREAMS}, or as many as half of --threads allows",
    help="The most open pages with live updates in each process. Each one occupies a thread.",
)
@click.option("--title", default="", metavar="TEXT", help="The name of this installation, in the title of each page.")
@serving_options(
    ServingDefaults(
        bind="127.0.0.1:9444",
        probe_bind="127.0.0.1:9084",
        tls_required=False,
        tls_min_version="1.2",
        threads=128,
        body_bytes=(_MIB, 16 * _MIB),
        request_memory_mib=64,
        timeout_s=(30.0, 300.0),
    )
)  # fmt: skip
def command(**given: Any) -> None:  # noqa: ANN401 - click's values, each checked by its type
    """Serve pages that show the fleet, its workloads, and why they are where they are. The pages change nothing."""
    logs.configure(given["log_level"])
    from console.authentication import SignInOptions  # noqa: PLC0415 - `--help` must not import the server
    from console.context import PageOptions  # noqa: PLC0415 - the same
    from console.serving import ConsoleOptions, ReviewOptions, serve  # noqa: PLC0415 - the same

    most_streams = max(1, given["threads"] // 2 - _SPARE_THREADS)
    streams = given["max_streams"] if given["max_streams"] is not None else min(_STREAMS, most_streams)
    if streams > most_streams:
        raise click.UsageError(
            f"--max-streams {streams} is too many for {given['threads']} threads, half of which are for "
            f"streams: at most {most_streams} are possible; lower it, or raise --threads"
        )
    serve(
        ConsoleOptions(
            server=server_options_from("berthmaster-console", given),
            extender=extender_access_from(given, "extender", connections=16),
            extender_timeout_s=given["extender_timeout_s"],
            page_deadline_s=given["page_deadline_s"],
            sign_in=SignInOptions(
                given["token_file"],
                given["client_ca_file"] is not None,
                given["trusted_user_header"],
                given["trusted_groups_header"],
                frozenset(given["trusted_proxy_names"]),
                given["trusted_proxy_secret_file"],
                oidc_from(given),
            ),
            reviews=None if given["authorize"] == "none" else ReviewOptions(given["kubeconfig"], given["context"]),
            session_secret_file=given["session_secret_file"],
            revoked_sessions_folder=given["revoked_sessions_folder"],
            form_bytes=given["max_body_bytes"],
            streams=streams,
            pages=PageOptions(given["title"]),
        )
    )
