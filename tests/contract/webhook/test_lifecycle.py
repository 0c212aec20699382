"""Certificate rotation, client certificates, crashes and stops of a running webhook."""

import json
import os
import signal
import ssl
import threading
import time
from contextlib import ExitStack, closing
from http.client import HTTPException
from pathlib import Path
from socket import create_server

import pytest
from cryptography import x509
from reviews import POLICY, admission_review
from waiting import LIMIT_S, wait_for
from webhook_process import Pair, Server, make_pair, running

REVIEW = json.dumps(admission_review(POLICY)).encode()
FAILURES = "berthmaster_webhook_credential_reload_failures_total"


def answered(connection):
    connection.request("POST", "/mutate-propagationpolicy", REVIEW, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    return answer


def reviewed(connection):
    return answered(connection).status


def served_serial(server):
    pem = ssl.get_server_certificate(("127.0.0.1", server.port), timeout=5)
    return x509.load_pem_x509_certificate(pem.encode()).serial_number


def test_a_new_pair_is_served_at_once_and_a_mixed_pair_never(tmp_path):
    old, new = make_pair(), make_pair(days=60)
    with (
        running(tmp_path, "--workers=1", "--drain-s=0", pair=old) as server,
        closing(server.connection()) as kept,
    ):
        assert reviewed(kept) == 200
        assert served_serial(server) == old.serial
        Pair(new.certificate, old.key).write(tmp_path)
        for _ in range(3):
            assert served_serial(server) == old.serial
        assert server.metric(FAILURES) == 1
        Pair(new.certificate[:100], new.key).write(tmp_path)
        assert served_serial(server) == old.serial
        (tmp_path / "tls.key").unlink()
        assert served_serial(server) == old.serial
        new.write(tmp_path)
        assert served_serial(server) == new.serial
        assert reviewed(kept) == 200, "existing connections stay open"
        expiry = server.metric("berthmaster_webhook_certificate_expiry_timestamp_seconds")
        assert expiry == x509.load_pem_x509_certificate(new.certificate).not_valid_after_utc.timestamp()


def test_all_workers_agree_on_the_last_good_pair_and_later_ones_too(tmp_path):
    new = make_pair(days=60)
    with running(tmp_path, "--workers=3", "--drain-s=0") as server:
        new.write(tmp_path)
        assert served_serial(server) == new.serial, "one worker has read it"
        Pair(make_pair().certificate[:100], new.key).write(tmp_path)
        assert {served_serial(server) for _ in range(9)} == {new.serial}
        os.kill(server.workers()[0], signal.SIGKILL)
        wait_for(lambda: len(server.workers()) == 4)
        server.wait_until_ready()
        assert {served_serial(server) for _ in range(9)} == {new.serial}


def test_client_certificates_are_required_and_a_replaced_ca_ends_connections_of_its_clients(tmp_path):
    old, new = make_pair(name="old"), make_pair(name="new")
    ca = tmp_path / "ca.crt"
    ca.write_bytes(old.certificate)
    options = ("--workers=1", "--drain-s=0", "--client-ca-file", str(ca))
    with running(tmp_path, *options) as server, closing(server.connection(old, tmp_path)) as known:
        assert reviewed(known) == 200
        ca.write_bytes(old.certificate + new.certificate)
        with closing(server.connection(new, tmp_path)) as other:
            assert reviewed(other) == 200
        assert reviewed(known) == 200, "a CA was added"
        ca.write_bytes(new.certificate)
        known.sock.settimeout(30)
        assert known.sock.recv(1) == b"", "the server closes an idle connection"
        known.auto_open = 0  # else the client would connect again
        with pytest.raises((OSError, HTTPException)):
            reviewed(known)
        with closing(server.connection(new, tmp_path)) as other:
            assert reviewed(other) == 200
        for pair in (old, None):
            with closing(server.connection(pair, tmp_path)) as unknown, pytest.raises((ssl.SSLError, OSError)):
                reviewed(unknown)
        assert server.probe("/livez")[0] == 200


def test_a_stop_fails_readiness_and_no_request(tmp_path):
    options = ("--workers=2", "--drain-s=300", "--keepalive-s=5")
    with running(tmp_path, *options) as server, ExitStack() as stack:
        stack.callback(server.stop, signal.SIGQUIT)  # ends the time for which it drains
        failures, statuses, stop = [], [], threading.Event()

        def send_requests():
            while not stop.is_set():
                try:
                    with closing(server.connection()) as fresh:
                        for _ in range(5):
                            statuses.append(reviewed(fresh))
                            time.sleep(0.005)
                except OSError as error:
                    failures.append(error)

        client = threading.Thread(target=send_requests)
        client.start()
        stack.callback(client.join)
        stack.callback(stop.set)
        wait_for(lambda: statuses)
        os.kill(server.process.pid, signal.SIGTERM)
        wait_for(lambda: server.probe("/readyz") == (503, "draining\n"))
        assert server.probe("/livez")[0] == 200
        before = len(statuses)
        wait_for(lambda: failures or len(statuses) > before + 10)
        stop.set()  # a Service sends no requests from now on
        client.join()
        assert failures == []
        assert set(statuses) == {200}
        assert server.stop(signal.SIGQUIT) == 0
        assert server.probe("/livez")[0] == 0, "the probes stop with the server"


def test_the_server_closes_connections_with_their_next_response_while_it_drains(tmp_path):
    options = ("--workers=1", "--drain-s=300", "--keepalive-s=300")
    with running(tmp_path, *options) as server, ExitStack() as stack, closing(server.connection()) as connection:
        stack.callback(server.stop, signal.SIGQUIT)  # ends the time for which it drains
        assert answered(connection).headers["Connection"] == "keep-alive"
        os.kill(server.process.pid, signal.SIGTERM)
        wait_for(lambda: server.probe("/readyz") == (503, "draining\n"))
        assert answered(connection).headers["Connection"] == "close"


def test_a_worker_that_dies_during_a_rotation_is_replaced(tmp_path):
    with running(tmp_path, "--workers=1", "--drain-s=0") as server:
        kept = server.connection()  # trusts the served certificate, not the new files
        (tmp_path / "tls.key").write_bytes(make_pair().key)
        os.kill(server.workers()[0], signal.SIGKILL)
        deadline = time.monotonic() + LIMIT_S
        while True:
            try:
                assert reviewed(kept) == 200
                break
            except OSError:
                kept.close()
                assert time.monotonic() < deadline
        kept.close()


def test_a_stopped_worker_keeps_the_files_that_others_share(tmp_path):
    with running(tmp_path, "--workers=2", "--drain-s=0") as server:
        with closing(server.connection()) as connection:
            assert reviewed(connection) == 200
        os.kill(server.workers()[0], signal.SIGTERM)
        wait_for(lambda: len(server.workers()) >= 3)
        server.wait_until_ready()
        assert server.metric("berthmaster_webhook_reviews_total") == 1
        with closing(server.connection()) as connection:
            assert reviewed(connection) == 200
        assert server.metric("berthmaster_webhook_reviews_total") == 2
        assert server.stop() == 0
        assert "Exception" not in server.log.read_text()


def test_probes_are_served_again_after_their_process_was_killed(tmp_path):
    with running(tmp_path, "--workers=2", "--drain-s=0") as server:
        children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
        for _ in range(2):
            [serves_probes] = set(map(int, children.read_text().split())).difference(server.workers())
            os.kill(serves_probes, signal.SIGKILL)
            assert server.probe("/readyz")[0] == 200, "the probe waits for the next process, and does not fail"
        assert len(server.workers()) == 2, "no worker was replaced"
        assert server.log.read_text().count("which served probes, has ended") == 2
        assert server.stop() == 0


def test_a_stop_while_workers_start_does_not_wait_for_them(tmp_path):
    make_pair().write(tmp_path)
    for _ in range(2):
        server = Server(tmp_path, "--workers=4", "--drain-s=0", "--grace-s=120")
        wait_for(lambda server=server: "Booting worker" in server.log.read_text())
        began_s = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began_s < 60
        assert "Exception" not in server.log.read_text()


@pytest.mark.parametrize("missing", ["tls.crt", "tls.key"])
def test_an_unusable_certificate_is_one_line_of_output(tmp_path, missing):
    make_pair().write(tmp_path)
    (tmp_path / missing).unlink()
    server = Server(tmp_path)
    assert server.process.wait(timeout=30) == 2
    assert server.log.read_text().startswith("berthmaster: TLS cannot be set up")
    assert len(server.log.read_text().splitlines()) == 1


def test_a_port_in_use_is_an_error(tmp_path):
    make_pair().write(tmp_path)
    with create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        server = Server(tmp_path, f"--bind=127.0.0.1:{port}")
        assert server.process.wait(timeout=30) == 2
    *log, message = server.log.read_text().splitlines()
    assert f"127.0.0.1:{port} cannot be bound" in message
    assert "Connection in use" in "\n".join(log)
