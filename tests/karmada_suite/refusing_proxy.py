"""An API server that is busy: a proxy in front of it that refuses each so many requests of its clients."""

import http.client
import itertools
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from e2e.control_plane import HOST

_LINE: Final = ("connection", "transfer-encoding", "content-length", "host", "keep-alive")
"""Headers of one connection, which are not passed on."""
_STATUS: Final = {
    409: ("Conflict", "the object has been modified; please apply your changes to the latest version"),
    429: ("TooManyRequests", "too many requests, please try again later"),
}
_CHUNK_BYTES: Final = 65536


class RefusingProxy:
    """A context whose value is a kubeconfig: who uses it is the user of the one behind, and is refused at times.

    Writes are refused with 429 and 409 in turn, other requests with 429.
    """

    def __init__(self, kubeconfig: Path, port: int, every: int) -> None:
        """Begin to listen.

        Args:
            kubeconfig: the API server, and a client certificate.
            port: where to listen on loopback.
            every: each so many requests are refused.
        """
        content = json.loads(kubeconfig.read_text())
        cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
        trust = ssl.create_default_context(cafile=cluster["certificate-authority"])
        trust.load_cert_chain(user["client-certificate"], user["client-key"])
        self._server = _Server(port, cluster["server"].removeprefix("https://"), trust, every)
        self._kubeconfig = kubeconfig.with_suffix(".refusing.kubeconfig")
        content["clusters"][0]["cluster"] = {"server": f"http://{HOST}:{port}"}
        content["users"][0]["user"] = {}
        self._kubeconfig.write_text(json.dumps(content))

    def __enter__(self) -> Path:
        threading.Thread(target=self._server.serve_forever, name="refusing-proxy", daemon=True).start()
        return self._kubeconfig

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, target: str, trust: ssl.SSLContext, every: int) -> None:
        super().__init__((HOST, port), _Connection)
        self.target, self.trust, self._every = target, trust, every
        self._count = itertools.count(1)

    def refusal(self, *, write: bool) -> int | None:
        """Count a request, and return the status that refuses it; None if it is passed on."""
        turn, rest = divmod(next(self._count), self._every)
        if rest:
            return None
        return 409 if write and turn % 2 else 429

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that went away."""


class _Connection(BaseHTTPRequestHandler):
    """One connection of a client, and one to the API server."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        self._behind = http.client.HTTPSConnection(self.server.target, context=self.server.trust)

    def finish(self) -> None:
        self._behind.close()
        super().finish()

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status = self.server.refusal(write=self.command != "GET")
        if status is not None:
            self._refuse(status)
            return
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _LINE}
        self._behind.request(self.command, self.path, body or None, headers)
        answer = self._behind.getresponse()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _LINE:
                self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while piece := answer.read1(_CHUNK_BYTES):
            self._write(piece)
        answer.close()  # the end of its body does not
        self._write(b"")

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - the names of the standard library

    def _write(self, piece: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        self.wfile.flush()

    def _refuse(self, status: int) -> None:
        reason, message = _STATUS[status]
        content = json.dumps(
            {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message,
             "code": status}
        ).encode()  # fmt: skip
        self.send_response_only(status)
        if status == http.client.TOO_MANY_REQUESTS:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the standard library
        """Log nothing."""
