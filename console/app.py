"""The console's WSGI application: what every request passes, and the pages."""

import hashlib
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from flask import Flask, Response, g, redirect, render_template, request, session, url_for
from werkzeug.exceptions import (
    BadRequest,
    Forbidden,
    HTTPException,
    ServiceUnavailable,
    TooManyRequests,
    Unauthorized,
)

from berthmaster.model.errors import InputError
from berthmaster.model.meta import CLUSTER_SCOPED, moment_of
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.logs import fields
from berthmaster.serving.bodies import has_gone
from berthmaster.serving.request_id import request_id_of
from berthmaster.serving.request_parser import ServerRefusal
from berthmaster.serving.responses import RefusalForm
from berthmaster.version import __version__
from berthmaster.views.plan_sections import heading
from berthmaster.views.texts import count_text
from console import markup, metrics, security
from console.authentication import SESSION_LIFETIME, Authentication, SignInOptions
from console.commands import CommandWriter
from console.context import AppOptions, ConsoleServices
from console.links import LinkWriter
from console.live import EVENTS, EventStreams, StateWatcher
from console.pages import record_words, search, workload_words
from console.pages.plan_model import binding_place
from console.pages.policies import policy_address
from console.pages.registry import PAGES
from console.rate_limits import RateLimits
from console.sign_in import SIGN_IN, sign_in_pages
from console.sign_in_attempts import SignInAttempts
from console.source import ExtenderSource, SourceError, VisibleSource
from console.visitor import Visitor

if TYPE_CHECKING:
    from console.oidc import OidcSignIn

_LOG: Final = logging.getLogger("berthmaster.console")
_PUBLIC: Final = ("static", "sign_in.form", "sign_in.begin", "sign_in.lead", "sign_in.callback")
_FOREVER_S: Final = 31_536_000
_EVENTS: Final = "events"
_WITHOUT_EXTENDER: Final = (_EVENTS, "home", "help.show_help", "sign_in.end", None)
_ERRORS: Final[Mapping[int, tuple[str, str]]] = {
    400: ("The address or the form has an error", ""),
    401: (
        "You are not signed in",
        "Sign in first, or send a valid token or a client certificate, or come through the proxy that names users.",
    ),
    403: ("Not allowed", ""),
    404: ("Not found", "There is no such page."),
    405: ("Not possible", "This address does not take such a request."),
    409: ("The extender cannot answer this question", ""),
    413: ("The form is too large", "The form is too large."),
    414: (
        "The address is too long",
        "The address is too long. A question that is too long for an address can be asked with the form.",
    ),
    429: ("Too many requests", ""),
    431: ("", "The browser sent too much with the request. Remove the cookies of this site, then try again."),
    500: ("The console failed", ""),
    502: ("The extender cannot be asked", ""),
    503: ("The extender cannot answer now", ""),
}
"""What the page of an error says instead of the phrase of HTTP: its title, and its reason if there is no other."""


@dataclass(eq=False, slots=True)
class ConsoleParts:
    """What the application consists of besides its pages.

    Attributes:
        secret: signs the cookies of sessions.
        namespaces_of: the namespaces that a visitor may see, of one namespace or of all (empty); None for all.
        may_list_events: whether a visitor may list the events of a namespace.
    """

    source: ExtenderSource
    watcher: StateWatcher
    authentication: Authentication
    clock: Clock
    secret: bytes
    namespaces_of: Callable[[Visitor, str], frozenset[str] | None] = lambda _visitor, _namespace: None
    may_list_events: Callable[[Visitor, str], bool] = lambda _visitor, _namespace: True


def cookie_name(*, tls: bool) -> str:
    """Return the name of the cookie of sessions. With TLS, no other host of the domain can set a cookie of its name."""
    return "__Host-berthmaster" if tls else "berthmaster"


def create_app(options: AppOptions, parts: ConsoleParts) -> Flask:
    app = Flask("console")
    app.config.update(
        SECRET_KEY=parts.secret,
        MAX_CONTENT_LENGTH=options.form_bytes,
        MAX_FORM_MEMORY_SIZE=options.form_bytes,
        MAX_FORM_PARTS=200,
        PERMANENT_SESSION_LIFETIME=SESSION_LIFETIME,
        SESSION_COOKIE_NAME=cookie_name(tls=options.tls),
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SECURE=options.tls,
        SESSION_COOKIE_PATH="/",
        # Not Strict: a link in a chat or in an event must open its page for a visitor who has signed in.
        SESSION_COOKIE_SAMESITE="Lax",
        SESSION_REFRESH_EACH_REQUEST=False,
        SEND_FILE_MAX_AGE_DEFAULT=_FOREVER_S,
    )
    app.jinja_options = {"finalize": markup.visible, "trim_blocks": True, "lstrip_blocks": True}
    app.jinja_env.filters.update(
        name=markup.name,
        number=markup.number,
        duration=markup.duration,
        age=lambda then: markup.age(then, parts.clock.now()),
        place=binding_place,
        count=count_text,
        heading=heading,
        policy_place=policy_address,
        sentence=workload_words.sentence,
        assignment=workload_words.assignment_words,
        moment_of=moment_of,
        trigger=record_words.recorded_trigger_words,
        change=record_words.change_words,
        record_badge=record_words.record_badge,
    )
    app.jinja_env.globals.update(
        form_field=security.form_field, address_with=_address_with, static=_static_address,
        writer=CommandWriter(options.contexts), outside=LinkWriter(options.links),
    )  # fmt: skip
    attempts = SignInAttempts(parts.clock)
    _RequestHooks(app, options, parts, attempts)
    app.register_blueprint(sign_in_pages(parts.authentication, attempts, parts.clock, _provider(options.sign_in)))
    for page in PAGES:
        app.register_blueprint(page.blueprint)
    app.register_blueprint(search.BLUEPRINT)
    return app


class _RequestHooks:
    """What every request passes before and after its page."""

    def __init__(self, app: Flask, options: AppOptions, parts: ConsoleParts, attempts: SignInAttempts) -> None:
        self._options = options
        self._parts = parts
        self._limits = RateLimits(parts.clock, options.requests_per_s, options.request_burst)
        self._attempts = attempts
        self._waiting = threading.Semaphore(options.waiting_requests)
        self._streams = EventStreams(parts.watcher, parts.clock, options.streams)
        if "vendor/idiomorph.min.js" not in _file_digests():
            _LOG.warning("pages have no live updates: the script idiomorph is not installed (make console-assets)")
        app.add_url_rule("/", "home", lambda: redirect(url_for(PAGES[0].endpoint)))
        app.add_url_rule(EVENTS, _EVENTS, self._events)
        app.before_request(self._begin)
        app.after_request(self._finish)
        app.teardown_request(self._ended)
        app.context_processor(self._layout)
        app.register_error_handler(Exception, self._failed)

    def _begin(self) -> Response | None:
        """Find out who the visitor is, and refuse what a page need not see."""
        parts = self._parts
        g.begun_s = parts.clock.monotonic_s()
        g.request_id = request_id_of(request.environ)
        g.visitor = None
        g.services = None
        g.mark = parts.watcher.seen.mark
        if not self._options.sign_in.required and not security.is_local_host(request.host):
            raise BadRequest("Without a sign-in, the console answers only to names of this machine, such as localhost.")
        g.address = parts.authentication.address(request.environ)
        g.visitor = visitor = self._visitor()
        if request.endpoint == "static":
            return None
        if not self._limits.take(_key_of(visitor)):
            raise TooManyRequests("You sent too many requests. Wait a few seconds, then try again.", retry_after=5)
        # The page What if shows the form again, and changes nothing.
        if request.method == "POST" and request.endpoint != "what_if.ask" and not security.has_form_token():
            raise Forbidden("The form is out of date. Load the page again, and send the form once more.")
        if request.endpoint in _PUBLIC:
            return None
        if visitor is None:
            return self._ask_to_sign_in()
        if request.endpoint in _WITHOUT_EXTENDER:
            return None
        self._take_place()
        g.visitor = visitor = replace(visitor, namespaces=parts.namespaces_of(visitor, self._namespace_of_page()))
        events = partial(parts.may_list_events, visitor)
        source = VisibleSource(parts.source, visitor, partial(has_gone, request.environ), events)
        g.services = ConsoleServices(source, parts.clock, self._options.page_rows, parts.watcher.seen.known_version)
        return None

    def _visitor(self) -> Visitor | None:
        """Return who sent the request; None if the visitor must sign in."""
        authentication = self._parts.authentication
        # Each secret is judged by itself: a valid one must not hide guesses of another kind.
        for each in authentication.credentials(request.environ):
            credential = f"{each.kind} {each.secret}"
            if not self._attempts.begin(g.address, credential):
                raise TooManyRequests("Too many attempts to sign in. Wait a minute, then try again.", retry_after=60)
            self._attempts.end(g.address, credential, accepted=each.accepted)
        return authentication.visitor(request.environ, session, self._parts.clock.now())

    def _namespace_of_page(self) -> str:
        """Return the namespace that the page is about; empty for a page about all."""
        named = (request.view_args or {}).get("namespace", "") if request.endpoint == "workloads.one" else ""
        return "" if named == CLUSTER_SCOPED else str(named)

    def _take_place(self) -> None:
        """Count a request that may wait for the extender. Threads stay free for files, the page Help and the form."""
        if not self._waiting.acquire(blocking=False):
            reason = "Too many pages wait for the extender. Wait a few seconds, then try again."
            raise ServiceUnavailable(reason, retry_after=5)
        g.has_place = True

    def _ended(self, _error: BaseException | None) -> None:
        if g.pop("has_place", False):
            self._waiting.release()

    def _ask_to_sign_in(self) -> Response:
        """Lead a person to the form, if there is one."""
        wants_page = request.method == "GET" and request.accept_mimetypes.accept_html and request.endpoint != _EVENTS
        if not self._options.sign_in.by_page or not wants_page:
            raise Unauthorized
        here = request.full_path if request.query_string else request.path
        address = url_for(SIGN_IN) if here == "/" else url_for(SIGN_IN, next=here)
        return redirect(address)  # type: ignore[return-value]  # Flask's type is that of werkzeug

    def _finish(self, response: Response) -> Response:
        parts, endpoint = self._parts, request.endpoint or ""
        response.headers["X-Request-Id"] = g.request_id
        if response.status_code == HTTPStatus.UNAUTHORIZED and self._options.sign_in.token_file is not None:
            response.headers["WWW-Authenticate"] = 'Bearer realm="berthmaster"'
        elapsed_s = parts.clock.monotonic_s() - g.begun_s
        metrics.REQUESTS.labels(endpoint, response.status_code).inc()
        metrics.REQUEST_SECONDS.labels(endpoint).observe(elapsed_s)
        level = logging.INFO if response.status_code >= 400 else logging.DEBUG
        log_fields = fields(
            path=request.path[:256],
            status=response.status_code,
            user=g.visitor.name if g.visitor else "",
            request_id=g.request_id,
            elapsed_ms=round(elapsed_s * 1e3, 1),
        )
        _LOG.log(level, "request answered", extra=log_fields)
        # The address of a static file carries a digest of its content.
        if endpoint == "static" and response.status_code == HTTPStatus.OK:
            response.cache_control.immutable = True
        return security.add_headers(response, tls=self._options.tls)

    def _layout(self) -> dict[str, Any]:
        visitor: Visitor | None = g.visitor
        services: ConsoleServices | None = g.services
        now = self._parts.clock.now()
        as_of = None if services is None else services.source.as_of
        return {
            "files": _file_digests(),
            "now": now,
            "as_of": as_of or now,
            "old": as_of is not None,
            "mark": "" if as_of is not None else g.mark,
            "pages": PAGES if visitor is not None else (),
            "here": request.blueprint,
            "address": request.full_path if request.query_string else request.path,
            "title_suffix": self._options.title,
            "consoles": self._options.consoles if visitor is not None else (),
            "version": __version__,
            "visitor": visitor,
            "notice": self._parts.watcher.seen.notice if visitor is not None else "",
        }

    def _events(self) -> Response:
        stream = self._streams.open(_key_of(g.visitor))
        if stream is None:
            refused = Response("too many open pages\n", 503, content_type="text/plain; charset=utf-8")
            refused.headers["Retry-After"] = "30"
            return refused
        return Response(stream, content_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    def _failed(self, error: Exception) -> Any:  # noqa: ANN401 - a response of Flask
        """Answer a request whose view raised an error. The crash handler of the application."""
        match error:
            case SourceError():
                metrics.SOURCE_FAILURES.labels(error.status).inc()
                return _error_page(_status_of(error), str(error))
            case InputError():
                return _error_page(HTTPStatus.BAD_REQUEST, str(error))
            case HTTPException() if error.code is not None and error.code >= 400:
                own = type(error).description
                reason = _ERRORS.get(error.code, ("", ""))[1] if error.description == own else error.description
                response = _error_page(HTTPStatus(error.code), reason or "")
                response.headers.extend(each for each in error.get_headers() if each[0] in {"Allow", "Retry-After"})
                return response
            case HTTPException():
                return error
        _LOG.error("request failed", exc_info=error, extra=fields(request_id=g.request_id, path=request.path[:256]))
        reason = f"The log of the console has the details (request {g.request_id})."
        return _error_page(HTTPStatus.INTERNAL_SERVER_ERROR, reason)


def _error_page(status: HTTPStatus, reason: str) -> Response:
    title = _ERRORS.get(status.value, ("", ""))[0] or status.phrase
    page = render_template("error.html", status=status.value, title=title, reason=reason)
    return Response(page, status.value, content_type="text/html; charset=utf-8")


def _provider(options: SignInOptions) -> "OidcSignIn | None":
    if options.oidc is None:
        return None
    from console.oidc import OidcSignIn  # noqa: PLC0415 - Authlib is slow to import

    return OidcSignIn(options.oidc)


def refusals_of(app: Flask, *, tls: bool) -> RefusalForm:
    """Return the form of what the server refuses before a request reaches the application: the page of an error."""

    @lru_cache(maxsize=32)
    def page(refusal: ServerRefusal) -> tuple[Mapping[str, str], bytes]:
        status = HTTPStatus(refusal.status)
        with app.test_request_context("/"):
            g.visitor = g.services = None
            g.mark = ""
            response = _error_page(status, _ERRORS.get(status.value, ("", ""))[1] or refusal.problem)
            body = response.get_data()
            return dict(security.add_headers(response, tls=tls).headers), body

    return page


@lru_cache(maxsize=1)
def _file_digests() -> Mapping[str, str]:
    """Return the static files that exist, with digests. Scripts of other projects are absent from a new checkout."""
    folder = Path(__file__).parent / "static"
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {name: hashlib.sha256(path.read_bytes()).hexdigest()[:12] for name, path in found.items()}


def _static_address(name: str) -> str:
    return url_for("static", filename=name, v=_file_digests()[name])


def _key_of(visitor: Visitor | None) -> str:
    return f"user {visitor.name}" if visitor is not None and visitor.name else f"address {g.address}"


def _address_with(**changes: object) -> str:
    """Return the address of this page with changed parameters. A parameter that becomes None is left out."""
    values: dict[str, list[object]] = {name: list(each) for name, each in request.args.lists()}
    values.update({name: [value] for name, value in changes.items()})
    query = [(name, value) for name, each in values.items() for value in each if value is not None]
    return f"{request.path}?{urlencode(query)}" if query else request.path


def _status_of(error: SourceError) -> HTTPStatus:
    if error.status in {HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT}:
        return HTTPStatus(error.status)
    if error.status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}:
        return HTTPStatus.SERVICE_UNAVAILABLE
    return HTTPStatus.BAD_GATEWAY
