"""The undocumented parts of gunicorn that the package uses. A failure here means: read the new version's changes."""

import ast
import inspect
from pathlib import Path

import pytest
from gunicorn.config import Config
from gunicorn.glogging import Logger
from gunicorn.http.body import Body
from gunicorn.http.parser import RequestParser
from gunicorn.http.unreader import Unreader
from gunicorn.workers.base import Worker

import berthmaster.serving
from berthmaster.serving import gunicorn_internals as used

SIGNATURES = {
    Worker.handle_exit: "(self, sig, frame)",
    Worker.notify: "(self)",
    Worker.run: "(self)",
    Unreader.read: "(self, size=None, read_ahead=None)",
    Unreader.unread: "(self, data)",
    used.LengthReader.__init__: "(self, unreader, length)",
    used.ChunkedReader.__init__: "(self, req, unreader)",
    used.Arbiter.__init__: "(self, app)",
    used.Arbiter.spawn_worker: "(self)",
    used.Arbiter.start: "(self)",
    used.Arbiter.stop: "(self, graceful=True)",
    Logger.access: "(self, resp, req, environ, request_time)",
    Logger.reopen_files: "(self)",
    Logger.setup: "(self, cfg)",
}


@pytest.mark.parametrize("function", SIGNATURES, ids=lambda function: function.__qualname__)
def test_a_function_has_the_expected_signature(function):
    assert str(inspect.signature(function)) == SIGNATURES[function]


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (Worker.__init__, {"age", "alive", "app", "cfg", "log", "ppid", "sockets"}),
        (Worker.init_process, {"PIPE"}),
        (Worker.load_wsgi, {"wsgi"}),
        (used.LengthReader.__init__, {"length", "unreader"}),
        (used.ChunkedReader.__init__, {"parser"}),
        (Body.__init__, {"failed", "reader"}),
        (used.Arbiter.__init__, {"SIG_QUEUE"}),
        (used.Arbiter.start, {"LISTENERS", "cfg"}),
        (used.Arbiter.stop, {"WORKERS"}),
    ],
    ids=lambda value: value.__qualname__ if inspect.isfunction(value) else "",
)
def test_a_function_uses_the_expected_attributes(function, names):
    assert names <= set(function.__code__.co_names)


def test_a_failed_body_closes_the_connection():
    parser = RequestParser(Config(), iter([b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"]), ("x", 1))
    next(parser).body.failed = True
    assert parser.finish_body() is False


def test_no_other_module_uses_undocumented_parts():
    documented = {"gunicorn", "gunicorn.app.base", "gunicorn.glogging"}
    folder = Path(berthmaster.serving.__file__).parent
    found = {
        (file.name, node.module)
        for file in folder.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gunicorn")
    }
    assert {name for name, module in found if module not in documented} == {"gunicorn_internals.py"}
