"""An HTTP proxy that tunnels for clients with credentials: ``proxy.py PORT USER:PASSWORD``.

It prints a line for each request: ``granted HOST:PORT`` or ``denied HOST:PORT``.
"""

import base64
import socket
import sys
import threading

HOST = "127.0.0.1"
LIMIT_S = 60.0


def main(port: int, credentials: str) -> None:
    wanted = b"basic " + base64.b64encode(credentials.encode()).lower()
    with socket.create_server((HOST, port)) as listener:
        while True:
            client, _ = listener.accept()
            threading.Thread(target=serve, args=(client, wanted), daemon=True).start()


def serve(client: socket.socket, wanted: bytes) -> None:
    client.settimeout(LIMIT_S)
    head = b""
    while b"\r\n\r\n" not in head:
        piece = client.recv(4096)
        if not piece:
            return
        head += piece
    first, *fields = head.partition(b"\r\n\r\n")[0].split(b"\r\n")
    target = first.split()[1].decode()
    given = [line.partition(b":")[2].strip() for line in fields if line.lower().startswith(b"proxy-authorization:")]
    granted = [each.lower() for each in given] == [wanted]
    print("granted" if granted else "denied", target, flush=True)  # noqa: T201 - its log
    if not granted:
        client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n")
        client.close()
        return
    host, _, port = target.rpartition(":")
    server = socket.create_connection((host, int(port)), LIMIT_S)
    client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
    for source, sink in ((client, server), (server, client)):
        source.settimeout(None)
        threading.Thread(target=copy, args=(source, sink), daemon=True).start()


def copy(source: socket.socket, sink: socket.socket) -> None:
    try:
        while piece := source.recv(65536):
            sink.sendall(piece)
    except OSError:
        pass
    for each in (source, sink):
        try:
            each.shutdown(socket.SHUT_RDWR)
        except OSError:
            continue


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
