"""Credentials that cannot be had end the command with one line: what failed, which kubeconfig, and a remedy."""

import json
import socket
import stat
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from kubernetes.client import Configuration

from berthmaster.kube.client import ask
from berthmaster.kube.credentials import load_credentials
from berthmaster.kube.http_client import connect
from berthmaster.kube.kubeconfig import ClusterAccess
from berthmaster.kube.requests import Collection, get
from berthmaster.model.errors import ApiError, InputError

READ = get(Collection.of("example.io/v1", "things"), ("shop", "web"))
REFUSAL = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"


@pytest.fixture
def access(tmp_path):
    """A function that writes a kubeconfig for a user and a server, and returns the access to it."""

    def make(user, server="https://127.0.0.1:1", name="u"):
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "prod",
            "contexts": [{"name": "prod", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": name, "user": user}],
        }  # fmt: skip
        path = tmp_path / "config"
        path.write_text(json.dumps(config))
        return ClusterAccess((path,), "prod", "default")

    return make


def plugin(command, **more):
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(command), **more}}


def printing(folder, text, code=0):
    """Write a credential plugin that prints a text on both streams."""
    path = folder / "plugin"
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\ncat >&2 <<'END'\n{text}\nEND\nexit {code}\n")
    path.chmod(stat.S_IRWXU)
    return path


def status(**fields):
    return json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": fields})


@pytest.mark.parametrize(
    ("user", "message"),
    [
        (
            lambda _: plugin("no-such-plugin", installHint="Install it with\n  apt install it."),
            "the credential plugin 'no-such-plugin' is not installed, or is not on the PATH; Install it with apt",
        ),
        (lambda folder: plugin(printing(folder, "expired", 3)), "failed: exec: process returned 3. expired; specify"),
        (lambda folder: plugin(printing(folder, "hello")), "failed: exec: failed to decode process output"),
        (lambda folder: plugin(printing(folder, status())), "failed: it printed neither a token nor a certificate"),
        (lambda folder: plugin(printing(folder, "[]")), "failed: exec: malformed response"),
        (lambda _: {"auth-provider": {"name": "azure"}}, "the auth-provider 'azure' gave no token"),
    ],
)
def test_credentials_that_cannot_be_had_are_an_error(access, tmp_path, user, message):
    with pytest.raises(InputError) as refused:
        connect(access(user(tmp_path)))
    assert message in str(refused.value)
    assert str(refused.value).startswith(f"context 'prod' of {tmp_path}/config: ")


def test_a_user_that_the_file_does_not_have_is_an_error(access):
    with pytest.raises(InputError, match="there is no user 'u', which the context names"):
        connect(access({"token": "a"}, name="other"))


def test_the_credentials_of_a_plugin_are_used(access, tmp_path):
    text = status(token="secret", clientCertificateData="A", clientKeyData="B")  # noqa: S106 - none
    configuration = Configuration()
    load_credentials(access(plugin(printing(tmp_path, text))), configuration)
    assert list(configuration.api_key.values()) == ["Bearer secret"]
    assert Path(configuration.key_file).read_text() == "B"


@pytest.fixture
def plain():
    """The port of a server that refuses each connection with a line of HTTP, whatever it reads."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        connection.recv(65536)
                        connection.sendall(REFUSAL)

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("scheme", "message"),
    [
        ("https", "; check that the port speaks TLS, and the server URL of the kubeconfig"),
        ("http", "; the credentials are not accepted: log in again, or use another context"),
    ],
)
def test_a_failed_request_names_the_kubeconfig_and_a_remedy(access, plain, scheme, message):
    used = access({"token": "a"}, f"{scheme}://127.0.0.1:{plain}")
    with pytest.raises(ApiError) as refused:
        ask(connect(used), READ)
    assert str(used) in str(refused.value)
    assert message in str(refused.value)


def test_a_refused_connection_names_the_kubeconfig_and_a_remedy(access):
    used = access({"token": "a"})
    with pytest.raises(ApiError, match="Connection refused; check that it runs, and the server URL") as refused:
        ask(connect(used), READ)
    assert str(used) in str(refused.value)
