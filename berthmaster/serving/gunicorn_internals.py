"""The internals of gunicorn that this package uses. No other module imports them.

gunicorn documents its settings, hooks and custom applications. The names below are not documented, so a new version
may change them. ``tests/unit/serving/test_gunicorn_internals.py`` fails when a name, a signature or an attribute in
use has changed.

1. ``ThreadWorker``: ``FastWorker`` keeps its thread pool, method queue, poller and signal handling.
2. ``TConn``: the connection object that ``ThreadWorker.handle`` expects.
3. ``RequestParser`` and its ``unreader``: parse the requests that ``request_parser`` leaves to gunicorn. Bytes that
   were read before go back through the unreader.
4. ``LengthReader``, ``ChunkedReader`` and ``ParseException``: read a body piece by piece, as it arrives. ``Body.read``
   would wait until its buffer is full.
5. ``base_environ``: the part of the WSGI environment that all requests share.
6. ``ssl_wrap_socket``: start TLS with the ``ssl_context`` hook, as gunicorn's own workers do.
7. ``Arbiter``: fail readiness before a stop, and block signals around a fork.
"""

from gunicorn.arbiter import Arbiter
from gunicorn.http.body import ChunkedReader, LengthReader
from gunicorn.http.errors import ParseException
from gunicorn.http.parser import RequestParser
from gunicorn.http.wsgi import base_environ
from gunicorn.sock import ssl_wrap_socket
from gunicorn.workers.gthread import TConn, ThreadWorker

__all__ = [
    "Arbiter", "ChunkedReader", "LengthReader", "ParseException", "RequestParser", "TConn", "ThreadWorker",
    "base_environ", "ssl_wrap_socket",
]  # fmt: skip
