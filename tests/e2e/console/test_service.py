"""The console as a process, without a browser: client certificates, a trusted proxy, a lost extender, and its stop."""

import http.client
import re
import socket
import ssl
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from authority import Authority
from e2e.control_plane import HOST
from e2e.processes import Processes
from e2e.serving import COMMAND, serve
from servers import Wire, request

LOST = f"--extender-url=http://{HOST}:9"  # the port of discard: no extender listens there
LIMIT_S = 30


class Started:
    """A console that was started for one test, and a way to send requests to it."""

    def __init__(self, processes: Processes, *options: str, environment: Mapping[str, str] | None = None) -> None:
        alone = (LOST, "--workers=1", "--drain-s=0")
        serving = serve(processes, "console-service", (COMMAND, "console"), *alone, *options, environment=environment)
        self.port, self.process, self.metrics = serving.port, serving.process, serving.metrics

    def get(self, path: str, context: ssl.SSLContext | None = None, **headers: str) -> tuple[int, str]:
        if context is None:
            connection = http.client.HTTPConnection(HOST, self.port, timeout=LIMIT_S)
        else:
            connection = http.client.HTTPSConnection(HOST, self.port, timeout=LIMIT_S, context=context)
        with closing(connection):
            connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def trusted(authority: Authority, name: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.ca)
    context.load_cert_chain(*authority.issue(name))
    return context


def tls(authority: Authority) -> list[str]:
    certificate, key = authority.issue("console")
    return [f"--cert-file={certificate}", f"--key-file={key}", f"--client-ca-file={authority.ca}"]


@pytest.mark.e2e
def test_a_client_certificate_signs_in(processes: Processes, authority: Authority) -> None:
    console = Started(processes, *tls(authority))
    status, page = console.get("/help", trusted(authority, "ada"))
    assert status == 200
    assert 'title="signed in by certificate">ada<' in page
    with pytest.raises((ssl.SSLError, ConnectionError)):
        console.get("/help", ssl.create_default_context(cafile=authority.ca))


@pytest.mark.e2e
def test_only_the_named_proxy_may_name_the_user(processes: Processes, authority: Authority) -> None:
    console = Started(
        processes, *tls(authority), "--trusted-user-header=X-Forwarded-User", "--trusted-proxy-name=oauth2-proxy"
    )
    status, page = console.get("/help", trusted(authority, "oauth2-proxy"), X_Forwarded_User="ada@example.com")
    assert status == 200
    assert 'title="signed in by proxy">ada@example.com<' in page
    assert console.get("/help", trusted(authority, "oauth2-proxy"))[0] == 401
    assert console.get("/help", trusted(authority, "mallory"), X_Forwarded_User="ada@example.com")[0] == 401


@pytest.mark.e2e
def test_guesses_of_tokens_are_limited_and_one_client_leaves_streams_for_others(
    processes: Processes, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("token-of-ada-0123456789abcdef,ada\ntoken-of-eve-0123456789abcdef,eve\n")
    console = Started(processes, f"--token-file={tokens}", "--max-streams=20")
    ada, eve = ({"Authorization": f"Bearer token-of-{each}-0123456789abcdef"} for each in ("ada", "eve"))
    assert console.get("/help", **ada)[0] == console.get("/help", **eve)[0] == 200
    begun_s = time.monotonic()
    guesses = [console.get("/help", Authorization=f"Bearer guess-{each}-0123456789")[0] for each in range(100)]
    assert guesses.count(401) <= 10 + (time.monotonic() - begun_s) / 5
    assert set(guesses) == {401, 429}
    refused = re.search(r'sign_ins_total\{result="refused"\} (\d+)', console.metrics())
    assert int(refused[1]) == guesses.count(401)
    assert "a sign-in was refused" in console.process.log.read_text()
    assert console.get("/help", **ada)[0] == 200
    with ExitStack() as stack:
        statuses = []
        for headers in [eve] * 10 + [ada]:
            connection = http.client.HTTPConnection(HOST, console.port, timeout=LIMIT_S)
            stack.callback(connection.close)
            connection.request("GET", "/events", headers=headers)
            statuses.append(connection.getresponse().status)
        assert statuses == [200] * 6 + [503] * 4 + [200]


@pytest.mark.e2e
def test_guesses_beside_a_valid_sign_in_are_limited_and_other_addresses_are_not(
    processes: Processes, tmp_path: Path
) -> None:
    (tmp_path / "tokens").write_text("token-of-ada-0123456789abcdef,ada\n")
    (tmp_path / "proofs").write_text("proof-of-the-proxy-0123456789\n")
    console = Started(
        processes, f"--token-file={tmp_path / 'tokens'}", "--trusted-user-header=X-Forwarded-User",
        f"--trusted-proxy-secret-file={tmp_path / 'proofs'}", "--trusted-address-header=X-Forwarded-For",
    )  # fmt: skip
    proven = {"X_Berthmaster_Proxy_Secret": "proof-of-the-proxy-0123456789", "X_Forwarded_User": "ada"}

    def guess(number: int, address: str) -> int:
        sent = {**proven, "X_Forwarded_For": address, "Authorization": f"Bearer guess-{number}-0123456789abcdef"}
        return console.get("/help", **sent)[0]

    assert 429 in {guess(each, "203.0.113.7") for each in range(20)}
    assert console.get("/help", **proven, X_Forwarded_For="203.0.113.8")[0] == 200
    assert guess(99, "203.0.113.8") != 429, "another visitor behind the same proxy has attempts of its own"


@pytest.mark.e2e
def test_slow_clients_and_those_without_a_handshake_delay_no_visitor(
    processes: Processes, authority: Authority, tmp_path: Path
) -> None:
    (tmp_path / "tokens").write_text("token-of-ada-0123456789abcdef,ada\n")
    certificate, key = authority.issue("console")
    console = Started(
        processes, f"--cert-file={certificate}", f"--key-file={key}", f"--token-file={tmp_path / 'tokens'}",
        "--request-timeout-s=10s",
    )  # fmt: skip
    context = ssl.create_default_context(cafile=authority.ca)
    head = b"POST /what-if HTTP/1.1\r\nHost: localhost\r\n"
    with ExitStack() as stack:
        for number in range(120):
            if number % 3 == 0:
                half = stack.enter_context(socket.create_connection((HOST, console.port), timeout=LIMIT_S))
                half.sendall(b"\x16\x03\x01\x02\x00\x01")  # the beginning of a ClientHello
            else:
                slow = stack.enter_context(Wire(console.port, context, LIMIT_S))
                slow.send(head if number % 3 == 1 else head + b"Content-Length: 1000000\r\n\r\nlose=")
        status, page = console.get("/help", context, Authorization="Bearer token-of-ada-0123456789abcdef")
        assert (status, "Help" in page) == (200, True)
        with stack.enter_context(Wire(console.port, context, LIMIT_S)) as visitor:
            visitor.send(request("GET", "/sign-in"))
            cookie = visitor.answer().headers["set-cookie"]
        assert cookie.startswith("__Host-berthmaster=")
        assert {"Secure", "HttpOnly", "Path=/"} <= {each.strip() for each in cookie.split(";")}
        assert half.recv(1) == b"", "the deadline of a handshake"


@pytest.mark.e2e
def test_without_the_extender_pages_say_so_and_open_streams_do_not_delay_a_stop(
    processes: Processes, tmp_path: Path
) -> None:
    console = Started(processes, "--grace-s=300", environment={"TMPDIR": str(tmp_path)})
    assert console.get("/help")[0] == 200
    assert console.get("/help", Host="evil.example")[0] == 400
    status, page = console.get("/fleet")
    assert status == 502
    assert "cannot be reached" in page
    with closing(http.client.HTTPConnection(HOST, console.port, timeout=LIMIT_S)) as connection:
        connection.request("GET", "/events")
        answer = connection.getresponse()
        assert (answer.status, answer.readline()) == (200, b"retry: 2000\n")
        console.process.stop()  # fails if the process does not end in time
        answer.read()  # the stream has ended
        answer.close()
    assert not list(tmp_path.iterdir()), "a stopped console leaves no temporary folder"
