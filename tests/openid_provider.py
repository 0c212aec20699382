"""A provider of OpenID Connect that signs what a test wants, and tokens that prove nothing."""

import hashlib
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from console.oidc_options import OidcOptions

Claims = dict[str, Any]

KEY: Final = RSAKey.generate_key(2048, parameters={"kid": "one"})
OTHER_KEY: Final = RSAKey.generate_key(2048, parameters={"kid": "one"})
SECRET: Final = "the-secret-of-the-console-at-the-provider"  # noqa: S105 - for these tests only
LONG: Final = [hashlib.sha256(bytes([n])).hexdigest() for n in range(200)]


def signed(claims: Claims, key: Any = KEY, algorithm: str = "RS256") -> Claims:
    """Return the part of an answer that has an ID token with these claims."""
    return {"id_token": jwt.encode({"alg": algorithm, "kid": "one"}, claims, key, algorithms=[algorithm])}


def part(content: Claims) -> str:
    return urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


class OpenIdProvider:
    """A provider on loopback.

    Attributes:
        url: its address, which is also the name of the issuer.
        sends: the answer of its token endpoint, from the claims of a valid token.
        nonce: of the sign-in that comes next.
        asked: the requests for a token.
        secret_file: a file with the secret of the console.
    """

    def __init__(self, server: HTTPServer, folder: Path) -> None:
        self.url = server.url_for("").rstrip("/")
        self.sends: Callable[[Claims], Claims] = signed
        self.nonce = ""
        self.asked: list[Request] = []
        self.secret_file = folder / "secret"
        self.secret_file.write_text(f"{SECRET}\n")
        metadata = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/auth",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            # A provider that offers weak algorithms does not make them count.
            "id_token_signing_alg_values_supported": ["RS256", "HS256", "none"],
        }
        server.expect_request("/.well-known/openid-configuration").respond_with_json(metadata)
        server.expect_request("/keys").respond_with_json({"keys": [KEY.as_dict(private=False)]})
        server.expect_request("/token").respond_with_handler(self._token)

    def options(self, **changes: Any) -> OidcOptions:
        given: Any = {"issuer_url": self.url, "client_id": "console", "public_url": "http://localhost"}
        return OidcOptions(**given, client_secret_file=self.secret_file, **changes)

    def _token(self, request: Request) -> Response:
        self.asked.append(request)
        now = int(time.time())
        claims = {
            "iss": self.url, "aud": "console", "sub": "1", "iat": now, "exp": now + 60, "nonce": self.nonce,
            "email": "ada@example.org", "groups": ["platform", "system:masters"],
        }  # fmt: skip
        return Response(
            json.dumps({"access_token": "a", "token_type": "Bearer", **self.sends(claims)}), mimetype="application/json"
        )


UNPROVEN: Final[dict[str, Callable[[Claims], Claims]]] = {
    "the key of another provider": lambda claims: signed(claims, OTHER_KEY),
    "the secret as key": lambda claims: signed(claims, OctKey.import_key(SECRET), "HS256"),
    "no signature": lambda claims: {"id_token": f"{part({'alg': 'none'})}.{part(claims)}."},
    "another issuer": lambda claims: signed({**claims, "iss": "https://other.example.org"}),
    "another client": lambda claims: signed({**claims, "aud": "another"}),
    "other clients": lambda claims: signed({**claims, "aud": ["another", "one more"]}),
    "other clients, and this one as the party": lambda claims: signed(
        {**claims, "aud": ["another", "one more"], "azp": "console"}
    ),
    "another party": lambda claims: signed({**claims, "aud": ["console", "another"], "azp": "another"}),
    "an audience of another type": lambda claims: signed({**claims, "aud": {"console": 1}}),
    "another nonce": lambda claims: signed({**claims, "nonce": "of another sign-in"}),
    "no nonce": lambda claims: signed({k: v for k, v in claims.items() if k != "nonce"}),
    "an expired token": lambda claims: signed({**claims, "exp": 1}),
    "an address that is not verified": lambda claims: signed({**claims, "email_verified": False}),
    "a reserved name": lambda claims: signed({**claims, "email": "system:admin"}),
    "no ID token": lambda _claims: {},
    "more groups than a cookie holds": lambda claims: signed({**claims, "groups": LONG}),
}
"""Answers of a provider, or of someone in its place, that prove no user, by what is wrong with them."""
