"""Certificates that change, clients that must show one, and a stop that nobody notices."""

import json
import os
import signal
import ssl
import threading
import time
from contextlib import closing
from socket import create_server

import pytest
from cryptography import x509
from reviews import admission_review
from webhook_process import Pair, Server, make_pair, running

POLICY = {"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy", "metadata": {"name": "p"}}
REVIEW = json.dumps(admission_review({**POLICY, "spec": {}})).encode()
BOTH = pytest.mark.parametrize("worker_class", ["fast", "gthread"])
FAILURES = "berthmaster_webhook_certificate_reload_failures_total"


def reviewed(connection):
    connection.request("POST", "/mutate-clusterpropagationpolicy", REVIEW, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    return answer.status


def served_serial(server):
    pem = ssl.get_server_certificate(("127.0.0.1", server.port), timeout=5)
    return x509.load_pem_x509_certificate(pem.encode()).serial_number


def workers_of(server):
    """The ids of all workers that there ever were."""
    booted = [json.loads(line)["message"] for line in server.log.read_text().splitlines() if "Booting" in line]
    return [int(message.rsplit(" ", 1)[1]) for message in booted]


@BOTH
def test_a_rotation_is_served_at_once_and_a_torn_pair_never(tmp_path, worker_class):
    old, new = make_pair(), make_pair(days=60)
    with (
        running(tmp_path, f"--worker-class={worker_class}", "--workers=1", "--drain-s=0", pair=old) as server,
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
        assert reviewed(kept) == 200, "a connection from before is not dropped"
        expiry = server.metric("berthmaster_webhook_certificate_expiry_timestamp_seconds")
        assert expiry == x509.load_pem_x509_certificate(new.certificate).not_valid_after_utc.timestamp()


@BOTH
def test_clients_show_a_certificate_where_they_must(tmp_path, worker_class):
    friend, stranger = make_pair(), make_pair()
    (tmp_path / "ca.crt").write_bytes(friend.certificate)
    options = (f"--worker-class={worker_class}", "--workers=1", "--drain-s=0", "--client-ca-file", tmp_path / "ca.crt")
    with running(tmp_path, *map(str, options)) as server:
        with closing(server.connection(friend, tmp_path)) as known:
            assert reviewed(known) == 200
        for pair in (stranger, None):
            with closing(server.connection(pair, tmp_path)) as unknown, pytest.raises((ssl.SSLError, OSError)):
                reviewed(unknown)
        assert server.probe("/livez")[0] == 200


@BOTH
def test_a_stop_fails_readiness_first_and_no_request(tmp_path, worker_class):
    options = (f"--worker-class={worker_class}", "--workers=2", "--drain-s=1", "--keepalive-s=5")
    with running(tmp_path, *options) as server:
        failures, statuses, stop = [], [], threading.Event()

        def keep_asking():
            while not stop.is_set():
                try:
                    with closing(server.connection()) as fresh:
                        for _ in range(5):
                            statuses.append(reviewed(fresh))
                            time.sleep(0.005)
                except OSError as error:
                    failures.append(error)

        client = threading.Thread(target=keep_asking)
        client.start()
        time.sleep(0.3)
        os.kill(server.process.pid, signal.SIGTERM)
        deadline = time.monotonic() + 5
        while server.probe("/readyz") != (503, "draining\n"):
            assert time.monotonic() < deadline
        assert server.probe("/livez")[0] == 200
        time.sleep(0.3)
        assert len(statuses) > 10
        stop.set()  # a Service has stopped to send anything by now
        client.join()
        assert failures == []
        assert set(statuses) == {200}
        assert server.stop() == 0
        assert server.probe("/livez")[0] == 0, "the probes end with the server"


@BOTH
def test_a_worker_that_dies_is_replaced_even_while_a_rotation_is_half_written(tmp_path, worker_class):
    with running(tmp_path, f"--worker-class={worker_class}", "--workers=1", "--drain-s=0") as server:
        kept = server.connection()  # trusts the certificate that is served, not the files
        (tmp_path / "tls.key").write_bytes(make_pair().key)
        os.kill(workers_of(server)[0], signal.SIGKILL)
        deadline = time.monotonic() + 10
        while True:
            try:
                assert reviewed(kept) == 200
                break
            except OSError:
                kept.close()
                assert time.monotonic() < deadline
        kept.close()


def test_a_worker_that_is_told_to_end_leaves_what_the_others_share(tmp_path):
    with running(tmp_path, "--workers=2", "--drain-s=0") as server:
        with closing(server.connection()) as connection:
            assert reviewed(connection) == 200
        os.kill(workers_of(server)[0], signal.SIGTERM)
        deadline = time.monotonic() + 20
        while len(workers_of(server)) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        server.wait_until_ready()
        assert server.metric("berthmaster_webhook_reviews_total") == 1
        with closing(server.connection()) as connection:
            assert reviewed(connection) == 200
        assert server.metric("berthmaster_webhook_reviews_total") == 2
        assert server.stop() == 0
        assert "Exception" not in server.log.read_text()


def test_a_stop_while_workers_start_waits_for_none_of_them(tmp_path):
    make_pair().write(tmp_path)
    for _ in range(4):
        server = Server(tmp_path, "--workers=4", "--drain-s=0")
        deadline = time.monotonic() + 20
        while "Booting worker" not in server.log.read_text():
            assert time.monotonic() < deadline
        began_s = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began_s < 10
        assert "Exception" not in server.log.read_text()


@pytest.mark.parametrize("missing", ["tls.crt", "tls.key"])
def test_a_certificate_that_cannot_be_used_is_told_in_one_line(tmp_path, missing):
    make_pair().write(tmp_path)
    (tmp_path / missing).unlink()
    server = Server(tmp_path)
    assert server.process.wait(timeout=30) == 2
    assert server.log.read_text().startswith("berthmaster: TLS cannot be set up")
    assert len(server.log.read_text().splitlines()) == 1


def test_a_port_that_somebody_else_has(tmp_path):
    make_pair().write(tmp_path)
    with create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        server = Server(tmp_path, f"--bind=127.0.0.1:{port}")
        assert server.process.wait(timeout=30) == 2
    *log, told = server.log.read_text().splitlines()
    assert f"127.0.0.1:{port} cannot be bound" in told
    assert "Connection in use" in "\n".join(log)
