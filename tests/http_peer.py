"""A server that records the bytes of requests and sends scripted responses."""

import socket
import ssl
import threading
from collections.abc import Sequence


def http_response(status: str, *headers: str, body: bytes = b"") -> bytes:
    """Return the bytes of a response. Without headers it has the length of its body."""
    lines = [f"HTTP/1.1 {status}", *(headers or [f"Content-Length: {len(body)}"])]
    return "\r\n".join([*lines, "", ""]).encode() + body


OK = http_response("200 OK", body=b"hi")
HANG_UP = b""
"""Close the connection instead of a response."""
_LIMIT_S = 10.0


class HttpPeer:
    """Sends the responses in order and repeats the last one. It acts as a proxy for CONNECT requests.

    Attributes:
        port: the port on loopback.
        requests: the heads and bodies so far.
        connections, ended: the number of connections so far, and of those that have ended.
        subjects: the common name of each client certificate; empty for none.
    """

    def __init__(self, responses: Sequence[bytes] = (OK,), tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[tuple[str, bytes]] = []
        self.connections = self.ended = 0
        self.subjects: list[str] = []
        self._responses = list(responses)
        self._tls = tls
        self._open: list[socket.socket] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def heads(self) -> list[list[str]]:
        return [head.split("\r\n") for head, _ in self.requests]

    def close(self) -> None:
        if self._listening.fileno() >= 0:
            self._listening.shutdown(socket.SHUT_RDWR)  # else the waiting thread accepts one more connection
        for each in (self._listening, *self._open):
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            client.settimeout(_LIMIT_S)
            self._open.append(client)
            self.connections += 1
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            self._respond(self._through_tls(client) if self._tls else client)
        except OSError:
            pass  # the client closed the connection or does not trust the server
        finally:
            client.close()
            self.ended += 1

    def _through_tls(self, client: socket.socket) -> socket.socket:
        assert self._tls is not None
        while client.recv(8, socket.MSG_PEEK).startswith(b"CONNECT"):
            self.requests.append(self._request(client))
            client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        wrapped = self._tls.wrap_socket(client, server_side=True)
        self._open.append(wrapped)
        certificate = wrapped.getpeercert() or {}
        self.subjects.append(dict(pair for (pair,) in certificate.get("subject", ())).get("commonName", ""))
        return wrapped

    def _respond(self, client: socket.socket) -> None:
        with client:
            while True:
                self.requests.append(self._request(client))
                response = self._responses.pop(0) if len(self._responses) > 1 else self._responses[0]
                if response == HANG_UP:
                    return
                client.sendall(response)

    @staticmethod
    def _request(client: socket.socket) -> tuple[str, bytes]:
        received = b""
        while b"\r\n\r\n" not in received:
            received += HttpPeer._more(client)
        head, _, body = received.partition(b"\r\n\r\n")
        lengths = [
            line.partition(b":")[2] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
        ]
        while len(body) < int(lengths[0] if lengths else 0):
            body += HttpPeer._more(client)
        return head.decode(), body

    @staticmethod
    def _more(client: socket.socket) -> bytes:
        piece = client.recv(65536)
        if not piece:
            raise ConnectionResetError
        return piece
