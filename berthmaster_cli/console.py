"""``berthmaster console``: serve pages that show the fleet, its workloads, and why they are where they are."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from berthmaster.model.errors import InputError
from berthmaster.runtime import logs
from berthmaster_cli import serving_options
from berthmaster_cli.flags import Flags, group, option, options
from berthmaster_cli.option_variables import environment_text
from berthmaster_cli.options import KubeconfigFlags, config_option

if TYPE_CHECKING:
    from console.oidc_options import OidcOptions

_ENVIRONMENT: Final = "BERTHMASTER_CONSOLE"
_MIB: Final = 2**20
_SPARE_THREADS: Final = 4
_STREAMS: Final = 60


class OidcFlags(Flags):
    """The provider at which visitors sign in."""

    oidc_issuer_url: str = option(
        "The provider at which visitors sign in with OpenID Connect. The provider must know the address "
        "PUBLIC-URL/sign-in/callback.",
        "", metavar="URL",
    )  # fmt: skip
    oidc_client_id: str = option("The name of the console at the provider.", "", metavar="ID")
    oidc_client_secret_file: Path | None = option(
        "A file with the secret of the console at the provider. Default: the provider requires none."
    )
    public_url: str = option(
        "The address of the console as browsers know it, as https://HOST[:PORT].", "", metavar="URL"
    )
    oidc_scopes: str = option(
        "What the console asks the provider for. Many providers name groups only with the scope groups.",
        "openid email", metavar="TEXT",
    )  # fmt: skip
    oidc_username_claim: str = option(
        "The claim of the ID token that names the user, as the API server has it.", "email", metavar="CLAIM"
    )
    oidc_username_prefix: str = option(
        "What the API server sets before the name of the user, such as a word and a colon.", "", metavar="TEXT"
    )
    oidc_groups_claim: str = option(
        "The claim of the ID token that lists the groups of the user.", "groups", metavar="CLAIM"
    )
    oidc_groups_prefix: str = option("What the API server sets before the name of each group.", "", metavar="TEXT")
    oidc_ca_file: Path | None = option("The CA of the provider. Default: the CAs of the system.")


def _oidc_from(flags: OidcFlags) -> "OidcOptions | None":
    if not flags.oidc_issuer_url:
        needing = ("oidc_client_id", "oidc_client_secret_file", "public_url")
        name = next((each for each in needing if getattr(flags, each)), None)
        if name is not None:
            raise InputError(f"--{name.replace('_', '-')} needs --oidc-issuer-url")
        return None
    from console.oidc_options import OidcOptions  # noqa: PLC0415 - `--help` must not import the server

    return OidcOptions(
        flags.oidc_issuer_url,
        flags.oidc_client_id,
        flags.public_url,
        flags.oidc_client_secret_file,
        flags.oidc_ca_file,
        flags.oidc_scopes,
        flags.oidc_username_claim,
        flags.oidc_username_prefix,
        flags.oidc_groups_claim,
        flags.oidc_groups_prefix,
    )


class _ConsoleFlags(OidcFlags, KubeconfigFlags, serving_options.ServingFlags):
    extender_url: str = option(
        "The extender that answers the questions of the pages, as https://HOST:PORT or http://HOST:PORT.",
        "http://127.0.0.1:9443", metavar="URL",
    )  # fmt: skip
    extender: serving_options.ExtenderAccessFlags = group()
    extender_timeout_s: float = option(
        "The timeout for each part of an answer of the extender to a question that simulates, in seconds.",
        25.0, click.FloatRange(0.1, 300),
    )  # fmt: skip
    page_deadline_s: float = option(
        "How long a page waits for the extender, in seconds. It then shows the last known answers, and says so.",
        5.0, click.FloatRange(0.1, 60),
    )  # fmt: skip
    token_file: Path | None = option(
        'A file with the bearer tokens of visitors, one TOKEN[,NAME[,UID[,"GROUP,GROUP"]]] per line. Visitors sign in '
        "with a form, or send the token in the Authorization header."
    )
    session_secret_file: Path | None = option(
        "A file with the secret that signs the cookies of sessions, of at least 32 bytes. All replicas need the same. "
        "Default: a random one, so that sessions end with the process.",
    )  # fmt: skip
    revoked_sessions_folder: Path | None = option(
        "A folder that remembers for 8 hours which sessions have ended by a sign-out. Replicas that share it know all "
        "of them. Default: a temporary folder of the process.",
        type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
    )  # fmt: skip
    trusted_user_header: str = option(
        "The header in which a proxy names the user, for example X-Forwarded-User. It counts only if the proxy proves "
        "itself.",
        "", metavar="NAME",
    )  # fmt: skip
    trusted_groups_header: str = option(
        "The header in which the proxy lists the groups of the user, separated by commas.", "", metavar="NAME"
    )
    trusted_address_header: str = option(
        "The header in which the proxy names the address of the client, for example X-Forwarded-For; the last address "
        "counts. Attempts to sign in are limited by address.",
        "", metavar="NAME",
    )  # fmt: skip
    trusted_proxy_names: tuple[str, ...] = option(
        "The common name of the client certificate that proves the proxy; needs --client-ca-file. Repeatable.",
        names=("--trusted-proxy-name",), metavar="NAME",
    )  # fmt: skip
    trusted_proxy_secret_file: Path | None = option(
        "A file with the secret that the proxy sends in the header X-Berthmaster-Proxy-Secret. Several lines are "
        "several secrets.",
    )  # fmt: skip
    authorize: str = option(
        "What visitors may see. none: everything. subject-access-review: the namespaces in which the API server lets "
        "them list resourcebindings.",
        "none", click.Choice(["none", "subject-access-review"]),
    )  # fmt: skip
    max_streams: int = option(
        "The most open pages with live updates in each process. Each one occupies a thread.",
        None, click.IntRange(1, 252), show_default=f"{_STREAMS}, or as many as half of --threads allows",
    )  # fmt: skip
    links: tuple[str, ...] = option(
        "A link to another site, on each page of its subject: cluster, workload or policy. Places are {cluster}, and "
        "of workloads and policies {namespace}, {kind} and {name}. A link of a workload with {cluster} is one for each "
        "of its clusters. Repeatable.",
        names=("--link",), metavar="SUBJECT:TITLE=URL",
    )  # fmt: skip
    other_consoles: tuple[str, ...] = option(
        "The console of another control plane, for the switch at the top. Repeatable.",
        names=("--other-console",), metavar="TITLE=URL",
    )  # fmt: skip
    command_context: str = option(
        "The context of the control plane in the kubeconfigs of visitors, for the commands that pages show. Default: "
        "their current context.",
        "", metavar="NAME",
    )  # fmt: skip
    member_context: str = option(
        "The context of a member cluster in the kubeconfigs of visitors, with {cluster} for its name.",
        "{cluster}", metavar="TEMPLATE",
    )  # fmt: skip
    title: str = option("The name of this installation, in the title of each page.", "", metavar="TEXT")


@click.command(
    context_settings={"auto_envvar_prefix": _ENVIRONMENT},
    epilog=environment_text(_ENVIRONMENT, "--extender-url") + "Signals: TERM drains and stops.",
)
@config_option
@options(
    _ConsoleFlags,
    {
        "bind": {"default": "127.0.0.1:9444"},
        "probe_bind": {"default": "127.0.0.1:9084"},
        "tls_min_version": {"default": "1.2"},
        "workers": {"default": 2},
        "threads": {"default": 128},
        "max_body_bytes": {"default": _MIB, "type": click.IntRange(1024, 16 * _MIB)},
        "request_memory_mib": {"default": 64},
        "request_timeout_s": {"default": 30.0, "type": click.FloatRange(0.1, 300.0)},
    },
    server="that API server",
    timeout="",
    copies="",
)
def command(flags: _ConsoleFlags) -> None:
    """Serve pages that show the fleet, its workloads, and why they are where they are. The pages change nothing."""
    logs.configure(flags.log_level)
    from console.authentication import SignInOptions  # noqa: PLC0415 - `--help` must not import the server
    from console.commands import CommandContexts  # noqa: PLC0415 - the same
    from console.context import AppOptions  # noqa: PLC0415 - the same
    from console.links import other_console, outside_link  # noqa: PLC0415 - the same
    from console.serving import ConsoleOptions, ReviewOptions, serve  # noqa: PLC0415 - the same

    most_streams = max(1, flags.threads // 2 - _SPARE_THREADS)
    streams = flags.max_streams if flags.max_streams is not None else min(_STREAMS, most_streams)
    if streams > most_streams:
        raise click.UsageError(
            f"--max-streams {streams} is too many for {flags.threads} threads, half of which are for "
            f"streams: at most {most_streams} are possible; lower it, or raise --threads"
        )
    serve(
        ConsoleOptions(
            server=serving_options.server_options_from("berthmaster-console", flags),
            extender=serving_options.extender_access_from(
                flags.extender_url, flags.extender, "extender", connections=16
            ),
            extender_timeout_s=flags.extender_timeout_s,
            page_deadline_s=flags.page_deadline_s,
            app=AppOptions(
                SignInOptions(
                    flags.token_file,
                    flags.client_ca_file is not None,
                    flags.trusted_user_header,
                    flags.trusted_groups_header,
                    frozenset(flags.trusted_proxy_names),
                    flags.trusted_proxy_secret_file,
                    _oidc_from(flags),
                    flags.trusted_address_header,
                ),
                flags.title,
                contexts=CommandContexts(flags.command_context, flags.member_context),
                links=tuple(map(outside_link, flags.links)),
                consoles=tuple(map(other_console, flags.other_consoles)),
                form_bytes=flags.max_body_bytes,
                streams=streams,
            ),
            reviews=None if flags.authorize == "none" else ReviewOptions(flags.kubeconfig, flags.context),
            session_secret_file=flags.session_secret_file,
            revoked_sessions_folder=flags.revoked_sessions_folder,
        )
    )
