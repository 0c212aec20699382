"""The pages that begin and end a session."""

from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

from flask import Blueprint, Response, g, redirect, render_template, request, session, url_for

from berthmaster.runtime.clock import Clock
from console.attempts import SignInAttempts
from console.authentication import Authentication
from console.query import PageQuery

_MAX_TOKEN: Final = 4096
SIGN_IN: Final = "sign_in.form"


def sign_in_pages(authentication: Authentication, attempts: SignInAttempts, clock: Clock) -> Blueprint:
    """Return the pages ``/sign-in`` and ``/sign-out``."""
    pages = Blueprint("sign_in", __name__)

    @pages.get("/sign-in")
    def form() -> Any:  # noqa: ANN401 - a response of Flask
        query = PageQuery(request.args)
        target = local_address(query.text("next"))
        return redirect(target) if g.visitor is not None else _page(target)

    @pages.post("/sign-in")
    def begin() -> Any:  # noqa: ANN401 - a response of Flask
        target = local_address(request.form.get("next", ""))
        address, token = request.remote_addr or "", request.form.get("token", "")[:_MAX_TOKEN].strip()
        if not attempts.begin(address, token):
            refused = _page(target, "Too many attempts. Wait a minute, then try again.", HTTPStatus.TOO_MANY_REQUESTS)
            refused.headers["Retry-After"] = "60"
            return refused
        accepted = authentication.begin_session(token, session, clock.now())
        attempts.end(address, token, accepted=accepted)
        if not accepted:
            return _page(target, "This token is not valid.", HTTPStatus.FORBIDDEN)
        session.permanent = True
        return redirect(target, HTTPStatus.SEE_OTHER)

    @pages.post("/sign-out")
    def end() -> Any:  # noqa: ANN401 - a response of Flask
        authentication.end_session(session)
        return redirect(url_for(SIGN_IN), HTTPStatus.SEE_OTHER)

    return pages


def local_address(text: str) -> str:
    """Return an address of the console, or ``/`` if the text is none: a link must not lead a visitor elsewhere."""
    parts = urlsplit(text) if text.startswith("/") and not text.startswith("//") else None
    unusual = "\\" in text or not text.isprintable()
    return text if parts is not None and not unusual and not parts.scheme and not parts.netloc else "/"


def _page(target: str, problem: str = "", status: HTTPStatus = HTTPStatus.OK) -> Response:
    page = render_template("sign_in.html", target=target, problem=problem)
    return Response(page, status.value, content_type="text/html; charset=utf-8")
