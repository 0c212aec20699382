"""The undocumented parts of gunicorn that the package uses. A failure here means: read the new version's changes."""

import ast
import inspect
from pathlib import Path

import pytest
from gunicorn.config import Config
from gunicorn.glogging import Logger
from gunicorn.http.body import Body
from gunicorn.http.message import Request
from gunicorn.http.unreader import Unreader
from gunicorn.workers.base import Worker
from gunicorn.workers.gthread import PollableMethodQueue

import berthmaster.serving
from berthmaster.serving import gunicorn_internals as used

SIGNATURES = {
    used.ThreadWorker.accept: "(self, listener)",
    used.ThreadWorker.check_config: "(cfg, log)",
    used.ThreadWorker.enqueue_req: "(self, conn)",
    used.ThreadWorker.get_thread_pool: "(self)",
    used.ThreadWorker.finish_request: "(self, conn, fs)",
    used.ThreadWorker.handle: "(self, conn)",
    used.ThreadWorker.handle_error: "(self, req, client, addr, exc)",
    used.ThreadWorker.handle_request: "(self, req, conn)",
    used.ThreadWorker.is_parent_alive: "(self)",
    used.ThreadWorker.notify: "(self)",
    used.ThreadWorker.run: "(self)",
    used.ThreadWorker.set_accept_enabled: "(self, enabled)",
    PollableMethodQueue.close: "(self)",
    PollableMethodQueue.defer: "(self, callback, *args)",
    PollableMethodQueue.fileno: "(self)",
    PollableMethodQueue.run_callbacks: "(self, _fileobj, max_callbacks=50)",
    used.TConn.__init__: "(self, cfg, sock, client, server)",
    used.TConn.close: "(self, graceful=False)",
    used.RequestParser.__init__: "(self, cfg, source, source_addr)",
    Request.force_close: "(self)",
    Unreader.read: "(self, size=None, read_ahead=None)",
    Unreader.unread: "(self, data)",
    used.LengthReader.__init__: "(self, unreader, length)",
    used.ChunkedReader.__init__: "(self, req, unreader)",
    used.base_environ: "(cfg)",
    used.ssl_wrap_socket: "(sock, conf)",
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
        (
            used.ThreadWorker.__init__,
            {"max_keepalived", "method_queue", "nr_conns", "poller", "tpool", "worker_connections"},
        ),
        (Worker.__init__, {"age", "alive", "app", "cfg", "log", "ppid", "sockets"}),
        (used.TConn.__init__, {"cfg", "client", "initialized", "parser", "server", "sock"}),
        (used.TConn.init, {"initialized"}),
        (used.ThreadWorker.handle, {"setblocking", "init", "parser", "handle_request"}),
        (used.LengthReader.__init__, {"length", "unreader"}),
        (used.ChunkedReader.__init__, {"parser"}),
        (used.RequestParser.__init__, {"unreader"}),
        (Body.__init__, {"failed", "reader"}),
        (Unreader.__init__, {"buf"}),
        (used.Arbiter.__init__, {"SIG_QUEUE"}),
        (used.Arbiter.start, {"LISTENERS", "cfg"}),
        (used.Arbiter.stop, {"WORKERS"}),
    ],
    ids=lambda value: value.__qualname__ if inspect.isfunction(value) else "",
)
def test_a_function_uses_the_expected_attributes(function, names):
    assert names <= set(function.__code__.co_names)


def test_a_failed_body_closes_the_connection():
    parser = used.RequestParser(Config(), iter([b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"]), ("x", 1))
    next(parser).body.failed = True
    assert parser.finish_body() is False


def test_the_handshake_is_a_step_of_its_own():
    assert Config().do_handshake_on_connect is False


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
