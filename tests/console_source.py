"""A source for tests of the console's pages: it answers what the test gives it, and records the questions."""

from collections.abc import Callable, Mapping
from typing import Any

from fake_clock import FakeClock
from flask.testing import FlaskClient

from console.app import AppOptions, create_app
from console.source import SourceError


class GivenSource:
    """A source that answers with given values.

    Give each answer by the name of its method: ``GivenSource(fleet=FleetView(...))``. An exception is raised. A
    function is called with the arguments of the question. A question without an answer raises ``SourceError``.
    ``asked`` lists the questions: the name of the method, and its arguments.
    """

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[str, Any] = answers
        self.asked: list[tuple[str, tuple[Any, ...], Mapping[str, Any]]] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)

        def answer(*arguments: Any, **named: Any) -> Any:
            self.asked.append((name, arguments, named))
            if name not in self.answers:
                raise SourceError(f"this test gives no answer to {name}")
            given = self.answers[name]
            if isinstance(given, Exception):
                raise given
            return given(*arguments, **named) if callable(given) else given

        return answer


def console_client(source: GivenSource, **options: Any) -> FlaskClient:
    """Return a client of a console without sign-in, with Flask's test client: ``client.get("/fleet")``.

    Args:
        source: the answers.
        options: attributes of ``AppOptions``.
    """
    clock = FakeClock()
    app = create_app(AppOptions(**{"secret": b"a secret for tests only", **options}), source, clock)
    app.testing = False  # errors become pages, as in production
    return app.test_client()
