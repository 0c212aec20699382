"""The options of the sign-in with OpenID Connect. Their names and meanings are those of kube-apiserver."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from berthmaster.model.errors import InputError
from berthmaster_cli.options import FILE

if TYPE_CHECKING:
    from console.oidc_options import OidcOptions


def oidc_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command."""
    for each in reversed(
        (
            click.option(
                "--oidc-issuer-url", default="", metavar="URL",
                help="The provider at which visitors sign in with OpenID Connect. The provider must know the address "
                "PUBLIC-URL/sign-in/callback.",
            ),
            click.option("--oidc-client-id", default="", metavar="ID", help="The name of the console at the provider."),
            click.option(
                "--oidc-client-secret-file", type=FILE,
                help="A file with the secret of the console at the provider. Default: the provider requires none.",
            ),
            click.option(
                "--public-url", default="", metavar="URL",
                help="The address of the console as browsers know it, as https://HOST[:PORT].",
            ),
            click.option(
                "--oidc-scopes", default="openid email", show_default=True, metavar="TEXT",
                help="What the console asks the provider for. Many providers name groups only with the scope groups.",
            ),
            click.option(
                "--oidc-username-claim", default="email", show_default=True, metavar="CLAIM",
                help="The claim of the ID token that names the user, as the API server has it.",
            ),
            click.option(
                "--oidc-username-prefix", default="", metavar="TEXT",
                help="What the API server sets before the name of the user, such as a word and a colon.",
            ),
            click.option(
                "--oidc-groups-claim", default="groups", show_default=True, metavar="CLAIM",
                help="The claim of the ID token that lists the groups of the user.",
            ),
            click.option(
                "--oidc-groups-prefix", default="", metavar="TEXT",
                help="What the API server sets before the name of each group.",
            ),
            click.option(
                "--oidc-ca-file", type=FILE, help="The CA of the provider. Default: the CAs of the system."
            ),
        )
    ):  # fmt: skip
        command = each(command)
    return command


def oidc_from(given: Mapping[str, Any]) -> "OidcOptions | None":
    """Return the options of the provider; None if there is none.

    Raises:
        InputError: an option is missing or invalid.
    """
    if not given["oidc_issuer_url"]:
        named = [each for each in ("oidc_client_id", "oidc_client_secret_file", "public_url") if given[each]]
        if named:
            raise InputError(f"--{named[0].replace('_', '-')} needs --oidc-issuer-url")
        return None
    from console.oidc_options import OidcOptions  # noqa: PLC0415 - `--help` must not import the server

    names = ("username_claim", "username_prefix", "groups_claim", "groups_prefix")
    return OidcOptions(
        given["oidc_issuer_url"],
        given["oidc_client_id"],
        given["public_url"],
        given["oidc_client_secret_file"],
        given["oidc_ca_file"],
        given["oidc_scopes"],
        *(given[f"oidc_{each}"] for each in names),
    )
