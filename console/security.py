"""The headers of each answer, the check of the Host header, and the tokens of forms that post."""

import hmac
import ipaddress
import secrets
from typing import Final

from flask import Response, request, session
from markupsafe import Markup, escape

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_HSTS: Final = "max-age=31536000"
FORM_TOKEN: Final = "form_token"  # noqa: S105 - the name of a field
_TOKEN_BYTES: Final = 24


def add_headers(response: Response, *, tls: bool) -> Response:
    """Add the security headers to a response. Pages are not stored by caches; static files set their own rule."""
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.setdefault("Cache-Control", "no-store")
    if tls:
        response.headers.setdefault("Strict-Transport-Security", _HSTS)
    return response


def is_local_host(host: str) -> bool:
    """Return whether a Host header names this machine.

    A console without sign-in serves loopback only. A page of another site could still reach it, if its own name
    resolves to 127.0.0.1. The Host header then has that name.
    """
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    name = name.strip("[]").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def form_token() -> str:
    """Return the token of this visitor's forms. The session keeps it."""
    if FORM_TOKEN not in session:
        session[FORM_TOKEN] = secrets.token_urlsafe(_TOKEN_BYTES)
    return str(session[FORM_TOKEN])


def form_field() -> Markup:
    """Return the hidden field that each form with ``method="post"`` contains."""
    return Markup(f'<input type="hidden" name="{FORM_TOKEN}" value="{escape(form_token())}">')  # noqa: S704 - escaped


def has_form_token() -> bool:
    """Return whether the posted form has the token of the session."""
    expected, given = session.get(FORM_TOKEN, ""), request.form.get(FORM_TOKEN, "")
    return bool(expected) and hmac.compare_digest(str(expected).encode(), given.encode())
