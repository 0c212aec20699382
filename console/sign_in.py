"""The pages that begin and end a session."""

import logging
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

from flask import Blueprint, Response, g, redirect, render_template, request, session, url_for

from berthmaster.runtime.clock import Clock
from berthmaster.runtime.logs import fields
from console.authentication import Authentication
from console.observed import ConsoleMetrics
from console.query import PageQuery
from console.rate_limits import RateLimits

_LOG: Final = logging.getLogger("berthmaster.console")
_ATTEMPTS_PER_S: Final = 0.2
_ATTEMPT_BURST: Final = 10
_MAX_TOKEN: Final = 4096
SIGN_IN: Final = "sign_in.form"


def sign_in_pages(authentication: Authentication, clock: Clock, metrics: ConsoleMetrics) -> Blueprint:
    """Return the pages ``/sign-in`` and ``/sign-out``."""
    pages = Blueprint("sign_in", __name__)
    attempts = RateLimits(clock, _ATTEMPTS_PER_S, _ATTEMPT_BURST)

    @pages.get("/sign-in")
    def form() -> Any:  # noqa: ANN401 - a response of Flask
        query = PageQuery(request.args)
        target = local_address(query.text("next"))
        return redirect(target) if g.visitor is not None else _page(target)

    @pages.post("/sign-in")
    def begin() -> Any:  # noqa: ANN401 - a response of Flask
        target = local_address(request.form.get("next", ""))
        if not attempts.take(request.remote_addr or ""):
            metrics.signed_in("limited")
            refused = _page(target, "Too many attempts. Wait a minute, then try again.", HTTPStatus.TOO_MANY_REQUESTS)
            refused.headers["Retry-After"] = "60"
            return refused
        token = request.form.get("token", "")[:_MAX_TOKEN]
        if not authentication.begin_session(token, session, clock.now()):
            metrics.signed_in("refused")
            _LOG.warning("a sign-in was refused", extra=fields(request_id=g.request_id, client=request.remote_addr))
            return _page(target, "This token is not valid.", HTTPStatus.FORBIDDEN)
        session.permanent = True
        metrics.signed_in("accepted")
        return redirect(target, HTTPStatus.SEE_OTHER)

    @pages.post("/sign-out")
    def end() -> Any:  # noqa: ANN401 - a response of Flask
        session.clear()
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
