"""A provider of OpenID Connect: its options, and whom the claims of its tokens name. Pure.

The names of users and groups follow the rules of Kubernetes' API server, so a SubjectAccessReview means the same user.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from berthmaster.model.errors import InputError, shown
from berthmaster.serving.protection import is_loopback
from console.visitor import MAX_GROUPS, Visitor

_RESERVED: Final = "system:"
CALLBACK: Final = "/sign-in/callback"
OUTDATED: Final = "This sign-in is out of date. Begin it again."


@dataclass(frozen=True, slots=True)
class OidcOptions:
    """The provider, and what its tokens say.

    Attributes:
        issuer_url: the issuer. Its metadata says where users sign in.
        public_url: the address of the console as browsers know it, without a path.
        client_secret_file: the secret of the client; None for a public client. It is read for each sign-in.
        username_prefix, groups_prefix: what stands before them, as the API server has it.
    """

    issuer_url: str
    client_id: str
    public_url: str
    client_secret_file: Path | None = None
    ca_file: Path | None = None
    scopes: str = "openid email"
    username_claim: str = "email"
    username_prefix: str = ""
    groups_claim: str = "groups"
    groups_prefix: str = ""

    def __post_init__(self) -> None:
        """Check what a wrong value would break without a message.

        Raises:
            InputError: an option is missing or invalid.
        """
        for option, url in (("--oidc-issuer-url", self.issuer_url), ("--public-url", self.public_url)):
            _require_safe(option, url)
        if urlsplit(self.public_url).path.strip("/"):
            raise InputError(f"--public-url: {shown(self.public_url)} has a path; give https://HOST[:PORT] only")
        if not self.client_id:
            raise InputError("--oidc-issuer-url needs --oidc-client-id: the name of the console at the provider")
        if "openid" not in self.scopes.split():
            raise InputError(f"--oidc-scopes: {shown(self.scopes)} lacks openid; without it there is no ID token")

    @property
    def callback_url(self) -> str:
        """The address to which the provider sends visitors back."""
        return self.public_url.rstrip("/") + CALLBACK


class SignInFailedError(Exception):
    """A visitor could not sign in. The message is for the visitor."""

    def __init__(self, reason: str, status: HTTPStatus = HTTPStatus.FORBIDDEN) -> None:
        super().__init__(reason)
        self.status = status


def user_of(claims: Mapping[str, Any], options: OidcOptions) -> Visitor:
    """Return the user that the claims of an ID token name, with the prefixes of the options.

    Names that begin with ``system:`` belong to Kubernetes. The API server refuses such users of a provider; the
    console also leaves out such groups.

    Raises:
        SignInFailedError: the claims name no user, or one that does not count.
    """
    named = claims.get(options.username_claim)
    if not isinstance(named, str) or not named:
        raise SignInFailedError(f"The ID token has no claim {options.username_claim!r} with a name.")
    if options.username_claim == "email" and claims.get("email_verified", True) is not True:
        raise SignInFailedError("The provider has not verified this email address.")
    name = options.username_prefix + named
    if name.startswith(_RESERVED) or not name.isprintable():
        raise SignInFailedError(f"The name {shown(name)} is reserved, or has characters that no name has.")
    listed = claims.get(options.groups_claim, [])
    found = [listed] if isinstance(listed, str) else listed if isinstance(listed, list) else []
    groups = [options.groups_prefix + each for each in found if isinstance(each, str) and each]
    groups = [each for each in groups if not each.startswith(_RESERVED)]
    if len(groups) > MAX_GROUPS:
        raise SignInFailedError(f"The ID token has {len(groups):,} groups; at most {MAX_GROUPS} are possible.")
    return Visitor(name, "OpenID Connect", tuple(groups))


def _require_safe(option: str, url: str) -> None:
    parts = urlsplit(url)
    safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    if not safe or not parts.hostname or parts.query or parts.fragment:
        raise InputError(f"{option}: {shown(url)} is no address with https; http is possible on this machine only")
