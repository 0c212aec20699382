"""The pages that begin and end a session."""

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from flask import Blueprint, Response, current_app, g, redirect, render_template, request, session, url_for
from flask.sessions import SecureCookieSessionInterface

from berthmaster.model.errors import shown
from berthmaster.runtime.clock import Clock
from console.authentication import Authentication
from console.oidc_options import CALLBACK, OUTDATED, SignInFailedError
from console.query import PageQuery
from console.sign_in_attempts import SignInAttempts

if TYPE_CHECKING:  # Authlib is slow to import
    from console.oidc import OidcSignIn

_MAX_TOKEN: Final = 4096
_MAX_COOKIE: Final = 3800
"""Browsers drop a cookie of more than 4,096 bytes, with its name and attributes."""
_TARGET: Final = "next"
SIGN_IN: Final = "sign_in.form"


def sign_in_pages(
    authentication: Authentication, attempts: SignInAttempts, clock: Clock, oidc: "OidcSignIn | None" = None
) -> Blueprint:
    """Return the pages ``/sign-in`` and ``/sign-out``, and those of OpenID Connect if there is a provider."""
    blueprint, pages = Blueprint("sign_in", __name__), _SignInPages(authentication, attempts, clock, oidc)
    blueprint.add_url_rule("/sign-in", "form", pages.form, methods=["GET"])
    blueprint.add_url_rule("/sign-in", "begin", pages.begin, methods=["POST"])
    blueprint.add_url_rule("/sign-out", "end", pages.end, methods=["POST"])
    if oidc is not None:
        blueprint.add_url_rule("/sign-in/provider", "lead", lambda: pages.lead(oidc), methods=["GET"])
        blueprint.add_url_rule(CALLBACK, "callback", lambda: pages.callback(oidc), methods=["GET"])
    return blueprint


class _SignInPages:
    def __init__(
        self, authentication: Authentication, attempts: SignInAttempts, clock: Clock, oidc: "OidcSignIn | None"
    ) -> None:
        self._authentication, self._attempts, self._clock, self._oidc = authentication, attempts, clock, oidc

    def form(self) -> Any:  # noqa: ANN401 - a response of Flask
        query = PageQuery(request.args)
        target = local_address(query.text("next"))
        if g.visitor is not None:
            return redirect(target)
        leave = self._oidc.sign_out_url() if self._oidc is not None and query.text("ended") else ""
        return self._page(target, leave=leave)

    def begin(self) -> Any:  # noqa: ANN401 - a response of Flask
        target = local_address(request.form.get("next", ""))
        token = request.form.get("token", "")[:_MAX_TOKEN].strip()
        if not self._attempts.begin(g.address, f"token {token}"):
            return self._too_many(target)
        accepted = self._authentication.begin_session(token, session, self._clock.now())
        self._attempts.end(g.address, f"token {token}", accepted=accepted)
        if not accepted:
            return self._page(target, "This token is not valid.", HTTPStatus.FORBIDDEN)
        session.permanent = True
        return redirect(target, HTTPStatus.SEE_OTHER)

    def lead(self, oidc: "OidcSignIn") -> Any:  # noqa: ANN401 - a response of Flask
        target = local_address(request.args.get("next", ""))
        try:
            led = oidc.begin()
        except SignInFailedError as error:
            return self._page(target, str(error), error.status)
        session[_TARGET] = target
        return led

    def callback(self, oidc: "OidcSignIn") -> Any:  # noqa: ANN401 - a response of Flask
        """Begin a session for the visitor whom the provider sent back."""
        state = request.args.get("state", "")[:_MAX_TOKEN]
        if not oidc.began(state):
            # Anyone can open this address. Without the state of a sign-in in the cookie, it is no attempt.
            return self._page("/", OUTDATED, HTTPStatus.FORBIDDEN)
        target = local_address(str(session.pop(_TARGET, "")))
        if not self._attempts.return_from_provider(state):
            return self._too_many(target)
        accepted = False
        try:
            user = oidc.finish()
            self._authentication.begin_oidc_session(user, session, self._clock.now())
            session.permanent = accepted = _fits()
            if not accepted:
                session.clear()
                count, name = len(user.groups), shown(user.name)
                reason = f"{name} has {count:,} groups, which are too long for a cookie. Let the provider send fewer."
                return self._page(target, reason, HTTPStatus.FORBIDDEN)
        except SignInFailedError as error:
            return self._page(target, str(error), error.status)
        finally:
            self._attempts.report(g.address, accepted=accepted)
        return redirect(target, HTTPStatus.SEE_OTHER)

    def end(self) -> Any:  # noqa: ANN401 - a response of Flask
        ended = 1 if g.visitor is not None and g.visitor.signed_in_by == "OpenID Connect" else None
        self._authentication.end_session(session)
        return redirect(url_for(SIGN_IN, ended=ended), HTTPStatus.SEE_OTHER)

    def _too_many(self, target: str) -> Response:
        refused = self._page(target, "Too many attempts. Wait a minute, then try again.", HTTPStatus.TOO_MANY_REQUESTS)
        refused.headers["Retry-After"] = "60"
        return refused

    def _page(self, target: str, problem: str = "", status: HTTPStatus = HTTPStatus.OK, leave: str = "") -> Response:
        page = render_template(
            "sign_in.html", target=target, problem=problem, leave=leave,
            by_token=self._authentication.options.token_file is not None,
            provider="" if self._oidc is None else self._oidc.host,
        )  # fmt: skip
        return Response(page, status.value, content_type="text/html; charset=utf-8")


def _fits() -> bool:
    """Return whether a browser keeps the cookie of the session."""
    serializer = SecureCookieSessionInterface().get_signing_serializer(current_app)
    return serializer is not None and len(serializer.dumps(dict(session))) <= _MAX_COOKIE


def local_address(text: str) -> str:
    """Return an address of the console, or ``/`` if the text is none: a link must not lead a visitor elsewhere."""
    parts = urlsplit(text) if text.startswith("/") and not text.startswith("//") else None
    unusual = "\\" in text or not text.isprintable()
    return text if parts is not None and not unusual and not parts.scheme and not parts.netloc else "/"
