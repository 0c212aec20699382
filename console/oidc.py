"""Sign-in with OpenID Connect: the authorization code flow with PKCE, as Authlib does it."""

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

from authlib.common.errors import AuthlibBaseError
from authlib.integrations.base_client.errors import MismatchingStateError
from authlib.integrations.flask_client import FlaskIntegration, FlaskOAuth2App
from flask import Response, session
from joserfc.errors import JoseError
from requests import RequestException

from berthmaster.model.errors import printable, shown
from berthmaster.serving.reloaded_files import read_regular_file
from console.oidc_options import OUTDATED, OidcOptions, SignInFailedError, user_of
from console.visitor import Visitor

_LOG: Final = logging.getLogger("berthmaster.console")
_NAME: Final = "oidc"
_STATE: Final = f"_state_{_NAME}_"
_PENDING: Final = 2
_TIMEOUT_S: Final = 5.0
_AT_ONCE: Final = 8
_METADATA: Final = "/.well-known/openid-configuration"
_ALGORITHMS: Final = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Signatures with a key of the provider. A token without a signature proves nothing."""


_NOT_VALID: Final = "The provider refused the sign-in, or its token is not valid. The log of the console says why."
_REASONS: Final = {
    "access_denied": "The provider denied the sign-in.",
    "login_required": "The provider has no session of yours. Begin the sign-in again.",
    "interaction_required": "The provider needs an answer of yours. Begin the sign-in again.",
    "consent_required": "The provider needs your consent. Begin the sign-in again.",
    "invalid_grant": "The provider knows this sign-in no longer. Begin it again.",
    "server_error": "The provider failed. Try again later.",
    "temporarily_unavailable": "The provider cannot answer now. Try again later.",
}
"""What visitors read for the errors of OAuth 2 and OpenID Connect. The address of the callback can carry any text."""


def _is_for(claims: Mapping[str, Any], client_id: str) -> bool:
    """Return whether an ID token is for a client (OpenID Connect Core, 3.1.3.7): its audience, and its party."""
    audience = claims.get("aud")
    named = [audience] if isinstance(audience, str) else audience if isinstance(audience, list) else []
    return client_id in named and claims.get("azp", client_id) == client_id


class OidcSignIn:
    """Leads visitors to the provider and reads what it says of them. Safe for several threads."""

    def __init__(self, options: OidcOptions) -> None:
        """Prepare the client, without a request."""
        self._options = options
        self._places = threading.BoundedSemaphore(_AT_ONCE)
        secret = options.client_secret_file
        self._client = FlaskOAuth2App(
            FlaskIntegration(_NAME),
            _NAME,
            client_id=options.client_id,
            server_metadata_url=options.issuer_url.rstrip("/") + _METADATA,
            client_kwargs={
                "scope": options.scopes,
                "code_challenge_method": "S256",
                "default_timeout": _TIMEOUT_S,
                "token_endpoint_auth_method": "none" if secret is None else "client_secret_basic",
                "verify": True if options.ca_file is None else str(options.ca_file),
            },
        )

    @property
    def host(self) -> str:
        return urlsplit(self._options.issuer_url).netloc

    def begin(self) -> Response:
        """Lead the visitor to the provider. The session keeps state, nonce and verifier.

        Raises:
            SignInFailedError: the provider cannot be asked.
        """
        # The cookie has little room: of the sign-ins that were begun and not finished, the last ones count.
        pending = [each for each in session if each.startswith(_STATE)]
        for key in sorted(pending, key=lambda each: session[each]["exp"])[: 1 - _PENDING]:
            session.pop(key)
        with self._asking():
            self._metadata()
            return self._client.authorize_redirect(self._options.callback_url)  # type: ignore[no-any-return]

    def began(self, state: str) -> bool:
        """Return whether this visitor began the sign-in with a state."""
        return bool(state) and f"{_STATE}{state}" in session

    def finish(self) -> Visitor:
        """Return the user that the provider sent back.

        Raises:
            SignInFailedError: the provider refused, cannot be asked, or its token is not valid.
        """
        with self._asking():
            file = self._options.client_secret_file
            self._client.client_secret = None if file is None else read_regular_file(file).decode().strip()
            issuer = {"iss": {"essential": True, "values": [self._options.issuer_url]}}
            self._metadata()["id_token_signing_alg_values_supported"] = _ALGORITHMS
            claims = self._client.authorize_access_token(claims_options=issuer).get("userinfo")
        if claims is None:
            raise SignInFailedError("The provider sent no ID token.")
        if not _is_for(claims, self._options.client_id):
            raise SignInFailedError("The ID token is for another client of the provider.")
        return user_of(claims, self._options)

    def sign_out_url(self) -> str:
        """Return where a visitor ends the session at the provider; empty if the provider has no such page."""
        try:
            with self._asking():
                if "end_session_endpoint" not in self._metadata():
                    return ""
                after = self._options.public_url.rstrip("/") + "/sign-in"
                leave = self._client.create_logout_url(after, client_id=self._options.client_id)
                return str(leave["url"])
        except SignInFailedError:
            return ""

    def _metadata(self) -> dict[str, Any]:
        """Return the metadata of the provider, which must be that of the issuer (OpenID Connect Discovery, 4.3)."""
        metadata: dict[str, Any] = self._client.load_server_metadata()
        if metadata.get("issuer") != self._options.issuer_url:
            _LOG.error(
                "the metadata of the provider is of the issuer %s; correct --oidc-issuer-url",
                shown(metadata.get("issuer")),
            )
            raise SignInFailedError(f"{self.host} is another provider than the console expects.")
        return metadata

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Hold a place while the provider is asked, and turn its errors into reasons for the visitor."""
        if not self._places.acquire(blocking=False):
            reason = "Too many visitors sign in at one time. Wait a few seconds, then try again."
            raise SignInFailedError(reason, HTTPStatus.SERVICE_UNAVAILABLE)
        try:
            yield
        except MismatchingStateError:
            raise SignInFailedError(OUTDATED) from None
        except (AuthlibBaseError, JoseError) as error:
            _LOG.warning("a sign-in with OpenID Connect failed: %s", printable(str(error), 500))
            raise SignInFailedError(_REASONS.get(getattr(error, "error", "") or "", _NOT_VALID)) from None
        except (RequestException, OSError, ValueError, KeyError, RuntimeError) as error:
            _LOG.warning("the OpenID Connect provider cannot be asked: %s", printable(str(error), 500))
            reason = f"{self.host} cannot be asked, or answered something unexpected. The log of the console says why."
            raise SignInFailedError(reason, HTTPStatus.SERVICE_UNAVAILABLE) from None
        finally:
            self._places.release()
