"""The options of the sign-in with OpenID Connect. Their names and meanings are those of kube-apiserver."""

from pathlib import Path
from typing import TYPE_CHECKING

from berthmaster.model.errors import InputError
from berthmaster_cli.flags import Flags, option

if TYPE_CHECKING:
    from console.oidc_options import OidcOptions


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


def oidc_from(flags: OidcFlags) -> "OidcOptions | None":
    """Return the options of the provider; None if there is none.

    Raises:
        InputError: an option is missing or invalid.
    """
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
