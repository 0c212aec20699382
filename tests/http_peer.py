"""A server at the level of bytes: what a client says over which connection, and answers as told."""

import socket
import ssl
import threading
from collections.abc import Sequence

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
HANG_UP = b""
"""Not an answer: the connection is closed instead."""
_LIMIT_S = 10.0


class HttpPeer:
    """Answers requests in the order in which they come, the last answer for ever; to CONNECT it is a proxy.

    Attributes:
        port: where it listens on loopback.
        asked: heads and bodies so far.
        connections: how many there were.
        shown: the subject that each client's certificate showed; empty for none.
    """

    def __init__(self, answers: Sequence[bytes] = (OK,), tls: ssl.SSLContext | None = None) -> None:
        self.asked: list[tuple[str, bytes]] = []
        self.connections = 0
        self.shown: list[str] = []
        self._answers = list(answers)
        self._tls = tls
        self._open: list[socket.socket] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def heads(self) -> list[list[str]]:
        """The lines of each head."""
        return [head.split("\r\n") for head, _ in self.asked]

    def close(self) -> None:
        if self._listening.fileno() >= 0:
            self._listening.shutdown(socket.SHUT_RDWR)  # or whoever waits there would take one more
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
            self._talk(self._through_tls(client) if self._tls else client)
        except OSError:
            pass  # it went away, or does not trust us
        finally:
            client.close()

    def _through_tls(self, client: socket.socket) -> socket.socket:
        assert self._tls is not None
        while client.recv(8, socket.MSG_PEEK).startswith(b"CONNECT"):
            self.asked.append(self._request(client))
            client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        wrapped = self._tls.wrap_socket(client, server_side=True)
        self._open.append(wrapped)
        certificate = wrapped.getpeercert() or {}
        self.shown.append(dict(pair for (pair,) in certificate.get("subject", ())).get("commonName", ""))
        return wrapped

    def _talk(self, client: socket.socket) -> None:
        with client:
            while True:
                self.asked.append(self._request(client))
                answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
                if answer == HANG_UP:
                    return
                client.sendall(answer)

    @staticmethod
    def _request(client: socket.socket) -> tuple[str, bytes]:
        said = b""
        while b"\r\n\r\n" not in said:
            said += HttpPeer._more(client)
        head, _, body = said.partition(b"\r\n\r\n")
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
