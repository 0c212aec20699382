"""Who a visitor is: by the header of a trusted proxy, a bearer token, a session, or a client certificate."""

import hashlib
import hmac
import ipaddress
import secrets
import ssl
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from berthmaster.model.comma_lists import comma_separated
from berthmaster.model.errors import InputError
from berthmaster.serving.tokens import TokenFile, TokenUser, bearer_token
from console.oidc_options import OidcOptions
from console.revoked_sessions import RevokedSessions
from console.visitor import MAX_GROUPS, Visitor

SESSION_LIFETIME: Final = timedelta(hours=8)
_SECRET_FIELD: Final = "HTTP_X_BERTHMASTER_PROXY_SECRET"  # noqa: S105 - a header field in a WSGI environment
_ID_BYTES: Final = 16
_MAX_NAME: Final = 512


@dataclass(frozen=True, slots=True)
class SignInOptions:
    """How visitors sign in. With none of the ways, the console requires no sign-in.

    Attributes:
        token_file: bearer tokens: in the ``Authorization`` header, or in the form that begins a session.
        client_certificates: whether TLS requires client certificates. Their subject names the user, unless there are
            tokens or a trusted header: then a certificate may be that of a proxy, which stands for many users.
        groups_header: the header in which it lists the groups, separated by commas.
        proxy_names: the common names of the client certificates that prove a proxy.
        proxy_secret_file: the secrets that prove a proxy, in the format of a token file.
        address_header: the header in which it names the address of the client, such as X-Forwarded-For. The last
            address counts, which is the one that the proxy itself saw.
    """

    token_file: Path | None = None
    client_certificates: bool = False
    user_header: str = ""
    groups_header: str = ""
    proxy_names: frozenset[str] = frozenset()
    proxy_secret_file: Path | None = None
    oidc: OidcOptions | None = None
    address_header: str = ""

    def __post_init__(self) -> None:
        """Check that a trusted header comes with a proof.

        Raises:
            InputError: any client could send the header, or a proof is useless.
        """
        proves = bool(self.proxy_names) or self.proxy_secret_file is not None
        if (self.user_header or self.address_header) and not proves:
            option = "--trusted-user-header" if self.user_header else "--trusted-address-header"
            raise InputError(
                f"{option} needs --trusted-proxy-name or --trusted-proxy-secret-file: without a proof, "
                "each client could send the header"
            )
        if proves and not (self.user_header or self.address_header):
            raise InputError(
                "--trusted-proxy-name and --trusted-proxy-secret-file need --trusted-user-header or "
                "--trusted-address-header"
            )
        if self.proxy_names and not self.client_certificates:
            raise InputError("--trusted-proxy-name needs --client-ca-file: the name is that of a client certificate")

    @property
    def required(self) -> bool:
        """Whether visitors must sign in."""
        return self.by_page or self.client_certificates or bool(self.user_header)

    @property
    def by_page(self) -> bool:
        """Whether visitors can sign in on a page, which begins a session."""
        return self.token_file is not None or self.oidc is not None

    @property
    def files(self) -> list[Path]:
        return [each for each in (self.token_file, self.proxy_secret_file) if each is not None]


class Credential(NamedTuple):
    """A secret that a request carries in a header, and whether it is a valid one of its kind."""

    kind: Literal["proxy", "token"]
    secret: str
    accepted: bool


class Authentication:
    """Finds out who visitors are. Safe for several threads."""

    def __init__(
        self,
        options: SignInOptions,
        secret: bytes,
        on_failure: Callable[[Exception], None] = lambda _error: None,
        *,
        revoked: RevokedSessions | None = None,
    ) -> None:
        """Read the files for the first time. Raises ``InputError`` if a file cannot be used."""
        self.options = options
        self._secret = secret
        self._revoked = revoked
        self._tokens = None if options.token_file is None else TokenFile(options.token_file, on_failure)
        proofs = options.proxy_secret_file
        self._proofs = None if proofs is None else TokenFile(proofs, on_failure)

    def visitor(self, environ: Mapping[str, Any], session: Mapping[str, Any], now: datetime) -> Visitor | None:
        """Return who sent a request, or None if the visitor must sign in."""
        if not self.options.required:
            return Visitor()
        subject = _subject(environ) if self.options.client_certificates else None
        if self.options.user_header and self._from_proxy(environ, subject):
            return self._named_by_proxy(environ)
        if self._tokens is not None:
            user = self._tokens.user_of(bearer_token(environ.get("HTTP_AUTHORIZATION", "")))
            if user is not None:
                return Visitor(user.name, "token", user.groups)
        if self.options.by_page:
            return self._of_session(session, now)
        if self.options.user_header or subject is None:
            return None
        return Visitor(subject[0], "certificate", subject[1])

    def begin_session(self, token: str, session: MutableMapping[str, Any], now: datetime) -> bool:
        """Begin a session for the user of a token. Return False if the token is not valid.

        The session ends with its time, or when the token leaves the file.
        """
        user = None if self._tokens is None else self._tokens.user_of(token.strip())
        if user is None:
            return False
        _begin(session, {"token": self._key_of(user)}, now)
        return True

    def begin_oidc_session(self, user: Visitor, session: MutableMapping[str, Any], now: datetime) -> None:
        """Begin a session for a user of the provider. It has the groups of this moment until it ends."""
        issuer = "" if self.options.oidc is None else self.options.oidc.issuer_url
        _begin(session, {"issuer": issuer, "user": user.name, "groups": list(user.groups)}, now)

    def end_session(self, session: MutableMapping[str, Any]) -> None:
        """End a session. Copies of its cookie are of no use."""
        name = session.get("id")
        if self._revoked is not None and isinstance(name, str):
            self._revoked.add(name)
        session.clear()

    def credentials(self, environ: Mapping[str, Any]) -> Iterator["Credential"]:
        """Yield the secrets that a request carries in its headers. Cookies are signed."""
        secret, token = environ.get(_SECRET_FIELD, ""), bearer_token(environ.get("HTTP_AUTHORIZATION", ""))
        if self._proofs is not None and secret:
            yield Credential("proxy", secret, accepted=self._proofs.user_of(secret) is not None)
        if self._tokens is not None and token:
            yield Credential("token", token, accepted=self._tokens.user_of(token) is not None)

    def address(self, environ: Mapping[str, Any]) -> str:
        """Return the address of the client; that which a proxy names if it proves itself."""
        address = str(environ.get("REMOTE_ADDR") or "")
        if not self.options.address_header:
            return address
        subject = _subject(environ) if self.options.client_certificates else None
        if not self._from_proxy(environ, subject):
            return address
        named = str(environ.get(_field(self.options.address_header), "")).rpartition(",")[2].strip()
        try:
            return str(ipaddress.ip_address(named))
        except ValueError:
            return address

    def _of_session(self, session: Mapping[str, Any], now: datetime) -> Visitor | None:
        name, until = session.get("id"), session.get("until")
        if not (isinstance(name, str) and isinstance(until, int)):
            return None
        if now.timestamp() >= until or (self._revoked is not None and name in self._revoked):
            return None
        oidc = self.options.oidc
        if oidc is not None and session.get("issuer") == oidc.issuer_url:
            return Visitor(session["user"], "OpenID Connect", tuple(session["groups"]))
        key = session.get("token")
        if self._tokens is None or not isinstance(key, str):
            return None
        matching = (user for user in self._tokens.users.values() if hmac.compare_digest(self._key_of(user), key))
        user = next(matching, None)
        return None if user is None else Visitor(user.name, "session", user.groups)

    def _key_of(self, user: TokenUser) -> str:
        """Return what stands for a token in a cookie. The cookie is signed, not encrypted."""
        return hmac.new(self._secret, b"session:" + user.digest, hashlib.sha256).hexdigest()

    def _from_proxy(self, environ: Mapping[str, Any], subject: tuple[str, tuple[str, ...]] | None) -> bool:
        if subject is not None and subject[0] in self.options.proxy_names:
            return True
        return self._proofs is not None and self._proofs.user_of(environ.get(_SECRET_FIELD, "")) is not None

    def _named_by_proxy(self, environ: Mapping[str, Any]) -> Visitor | None:
        name = environ.get(_field(self.options.user_header), "").strip()
        # Several header fields of one name arrive with a comma between their values: one of them may be the client's.
        if not name or "," in name or len(name) > _MAX_NAME:
            return None
        listed = environ.get(_field(self.options.groups_header), "") if self.options.groups_header else ""
        return Visitor(name, "proxy", tuple(comma_separated(listed)[:MAX_GROUPS]))


def _begin(session: MutableMapping[str, Any], content: Mapping[str, Any], now: datetime) -> None:
    session.clear()
    session.update(content)
    session["id"] = secrets.token_urlsafe(_ID_BYTES)
    session["until"] = int((now + SESSION_LIFETIME).timestamp())


def _field(header: str) -> str:
    return f"HTTP_{header.upper().replace('-', '_')}"


def _subject(environ: Mapping[str, Any]) -> tuple[str, tuple[str, ...]] | None:
    """Return the common name and the organizations of the client's certificate: user and groups, as in Kubernetes."""
    client = environ.get("gunicorn.socket")
    if not isinstance(client, ssl.SSLSocket):
        return None
    certificate: Mapping[str, Any] = client.getpeercert() or {}
    pairs = [pair for part in certificate.get("subject", ()) for pair in part]
    name = next((value for key, value in pairs if key == "commonName"), "")
    return (name, tuple(value for key, value in pairs if key == "organizationName")) if name else None
