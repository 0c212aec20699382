"""A source for tests of the console's pages: it answers what the test gives it, and records the questions."""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from fake_clock import FakeClock
from flask import Flask
from flask.testing import FlaskClient
from msgspec import UNSET, UnsetType

from berthmaster.model.decode import decode_json, encode_json
from berthmaster.native_api.connection import RequestRefusedError
from berthmaster.native_api.wire import InvalidField, Problem, Progress
from console.app import ConsoleParts, create_app
from console.authentication import Authentication, SignInOptions
from console.context import AppOptions
from console.live import StateWatcher
from console.revoked_sessions import RevokedSessions
from console.source import SourceError, for_visitors


class GivenSource:
    """A source that answers with given values.

    Give each answer by the name of its method: ``GivenSource(fleet=FleetView(...))``. An exception is raised. A
    function is called with the arguments of the question. A question without an answer raises ``SourceError``.
    ``asked`` lists the questions: the name of the method, and its arguments.
    """

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[str, Any] = answers
        self.asked: list[tuple[str, tuple[Any, ...], Mapping[str, Any]]] = []
        self.as_of: datetime | None = None

    def for_page(self) -> "GivenSource":
        """Return this source: the time of a page is that of the test."""
        return self

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)

        return partial(self._answer, name)

    def _answer(self, name: str, *arguments: Any, **named: Any) -> Any:
        self.asked.append((name, arguments, named))
        if name not in self.answers:
            raise SourceError(f"this test gives no answer to {name}", unanswered=True)
        given = self.answers[name]
        if isinstance(given, Exception):
            raise given
        return given(*arguments, **named) if callable(given) else given

    def _asked(self, question: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        return self._answer(question.__name__, *arguments, **named)

    kept = remembered = fresh = recorded = simulated = _asked


def refused_question(detail: str, status: int, path: str = "", progress: Progress | UnsetType = UNSET) -> SourceError:
    """Return the error that the source raises if the extender refuses a question, or the field of a path."""
    errors = [InvalidField(path, detail)] if path else []
    sent = encode_json(Problem("", status, detail, "0af1", errors, progress=progress))
    return for_visitors(RequestRefusedError(decode_json(Problem, sent), status))


def console_app(source: GivenSource, *, namespaces: frozenset[str] | None = None, **options: Any) -> Flask:
    """Create a console that asks a given source.

    Args:
        source: the answers.
        namespaces: the namespaces that each visitor may see; None for all.
        options: attributes of ``AppOptions``; ``revoked`` is the folder of sessions that ended.
    """
    clock = FakeClock()
    secret = b"a secret for tests only"
    folder = options.pop("revoked", None)
    revoked = None if folder is None else RevokedSessions(folder, 3600)
    sign_in = options.get("sign_in", SignInOptions())
    parts = ConsoleParts(
        source,
        StateWatcher(source.version, clock),
        Authentication(sign_in, secret, revoked=revoked),
        clock,
        secret,
        lambda _visitor, _namespace: namespaces,
    )
    app = create_app(AppOptions(**options), parts)
    app.extensions["console"] = parts
    return app


def console_client(source: GivenSource, **options: Any) -> FlaskClient:
    """Return a client of a console, with Flask's test client: ``client.get("/fleet")``; arguments as ``console_app``.

    Errors become pages, as in production.
    """
    return console_app(source, **options).test_client()
