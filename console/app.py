"""The console's WSGI application: what every request passes, and the pages."""

import logging
import uuid
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode

from flask import Flask, Response, g, redirect, render_template, request, url_for
from werkzeug.exceptions import HTTPException

from berthmaster.model.errors import InputError
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.logs import fields
from berthmaster.version import __version__
from console import markup, security
from console.context import ConsoleServices, PageOptions, Visitor
from console.pages.registry import PAGES
from console.source import Source, SourceError
from console.static_files import StaticFiles

_LOG: Final = logging.getLogger("berthmaster.console")
_MAX_FORM_BYTES: Final = 2**20
_SESSION_HOURS: Final = 8


@dataclass(frozen=True, slots=True)
class AppOptions:
    """The options of the application.

    Attributes:
        secret: signs the cookies of sessions.
        tls: whether clients connect with TLS.
        pages: the options that pages use.
    """

    secret: bytes
    tls: bool = False
    pages: PageOptions = field(default_factory=PageOptions)


def create_app(options: AppOptions, source: Source, clock: Clock) -> Flask:
    """Create the application."""
    app = Flask("console", static_folder=None)
    app.config.update(
        SECRET_KEY=options.secret,
        MAX_CONTENT_LENGTH=_MAX_FORM_BYTES,
        MAX_FORM_MEMORY_SIZE=_MAX_FORM_BYTES,
        MAX_FORM_PARTS=200,
        PERMANENT_SESSION_LIFETIME=_SESSION_HOURS * 3600,
        SESSION_COOKIE_NAME="berthmaster",
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SECURE=options.tls,
        SESSION_COOKIE_SAMESITE="Lax",
        SESSION_REFRESH_EACH_REQUEST=False,
    )
    _RequestHooks(app, options, source, clock)
    for page in PAGES:
        app.register_blueprint(page.blueprint)
    return app


class _RequestHooks:
    """What every request passes before and after its page."""

    def __init__(self, app: Flask, options: AppOptions, source: Source, clock: Clock) -> None:
        self._options = options
        self._source = source
        self._clock = clock
        self._files = StaticFiles()
        app.add_url_rule("/static/<path:filename>", "static", self._files.response)
        app.add_url_rule("/", "home", self._home)
        app.before_request(self._begin)
        app.after_request(self._finish)
        app.context_processor(self._layout)
        app.register_error_handler(Exception, self._failed)
        app.jinja_options = {"finalize": markup.visible, "trim_blocks": True, "lstrip_blocks": True}
        app.jinja_env.filters.update(
            name=markup.name, duration=markup.duration, age=lambda then: markup.age(then, clock.now())
        )
        app.jinja_env.globals.update(form_field=security.form_field, address_with=_address_with)

    def _begin(self) -> Response | None:
        g.begun_s = self._clock.monotonic_s()
        g.request_id = uuid.uuid4().hex
        g.visitor = Visitor()
        g.services = ConsoleServices(self._source, self._clock, self._options.pages, _LOG)
        return None

    def _finish(self, response: Response) -> Response:
        response.headers["X-Request-Id"] = g.request_id
        return security.add_headers(response, tls=self._options.tls)

    def _layout(self) -> dict[str, Any]:
        """Return what the base template uses."""
        here = request.blueprint
        return {
            "files": self._files,
            "now": self._clock.now(),
            "pages": PAGES,
            "here": here,
            "address": request.full_path if request.query_string else request.path,
            "title_suffix": self._options.pages.title,
            "version": __version__,
            "visitor": g.visitor,
        }

    def _home(self) -> Any:  # noqa: ANN401 - a response of Flask
        return redirect(url_for(PAGES[0].endpoint))

    def _failed(self, error: Exception) -> Any:  # noqa: ANN401 - a response of Flask
        """Answer a request whose view raised an error. The crash handler of the application."""
        match error:
            case SourceError():
                return self._error_page(_status_of(error), str(error))
            case InputError():
                return self._error_page(HTTPStatus.BAD_REQUEST, str(error))
            case HTTPException() if error.code is not None and error.code >= 400:
                response = self._error_page(HTTPStatus(error.code), error.description or "")
                response.headers.extend(each for each in error.get_headers() if each[0] in {"Allow", "Retry-After"})
                return response
            case HTTPException():
                return error
        _LOG.error("request failed", exc_info=error, extra=fields(request_id=g.request_id, path=request.path[:256]))
        return self._error_page(HTTPStatus.INTERNAL_SERVER_ERROR, "The log of the console has the details.")

    def _error_page(self, status: HTTPStatus, reason: str) -> Response:
        page = render_template("error.html", status=status.value, phrase=status.phrase, reason=reason)
        return Response(page, status.value, content_type="text/html; charset=utf-8")


def _address_with(**changes: object) -> str:
    """Return the address of this page with changed parameters. A parameter that becomes None is left out."""
    values: dict[str, list[object]] = {name: list(each) for name, each in request.args.lists()}
    values.update({name: [value] for name, value in changes.items()})
    query = [(name, value) for name, each in values.items() for value in each if value is not None]
    return f"{request.path}?{urlencode(query)}" if query else request.path


def _status_of(error: SourceError) -> HTTPStatus:
    """Return the status of a page whose question the extender did not answer."""
    if error.status in {HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT}:
        return HTTPStatus(error.status)
    if error.status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}:
        return HTTPStatus.SERVICE_UNAVAILABLE
    return HTTPStatus.BAD_GATEWAY
