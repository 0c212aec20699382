"""Files of credentials, and clients that read them again."""

import json
import logging
import os
import socket
import stat
import threading
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from fake_clock import FakeClock
from http_peer import OK, http_response
from tables import cases

from berthmaster.kube.client import APIClient, APIResponse, ask
from berthmaster.kube.credentials import RereadToken, connection_settings
from berthmaster.kube.http_client import connect, load_client
from berthmaster.kube.kubeconfig import ClusterAccess, find_access, named_files
from berthmaster.kube.reloading_client import ReloadingClient, UnconnectedError
from berthmaster.kube.requests import APIRequest, Collection, get, merge_patch
from berthmaster.model.errors import ApiError, InputError

READ = get(Collection.of("example.io/v1", "things"), ("shop", "web"))
PAST = {"token": "1", "expirationTimestamp": "2020-01-01T00:00:00Z"}
FUTURE = {"token": "2", "expirationTimestamp": "2120-01-01T00:00:00Z"}
REFUSAL = http_response("401 Unauthorized")


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
    settings = connection_settings(access(plugin(printing(tmp_path, text))))
    assert (settings.authorization(), settings.certificate, settings.key) == ("Bearer secret", "A", "B")


def test_a_plugin_runs_again_when_its_token_expires(access, tmp_path):
    settings = connection_settings(access(plugin(printing(tmp_path, status(**PAST)))))
    printing(tmp_path, status(**FUTURE))
    assert settings.authorization() == "Bearer 2"
    printing(tmp_path, "the plugin does not run again")
    assert settings.authorization() == "Bearer 2"


@cases(
    ("user", "value"),
    {
        "a token": ({"token": "t"}, "Bearer t"),
        "a file": ({"tokenFile": "token"}, "Bearer of-the-file"),
        "a file before a token, as in kubectl": ({"token": "t", "tokenFile": "token"}, "Bearer of-the-file"),
        "a password": ({"username": "ann", "password": "p"}, "Basic YW5uOnA="),
        "a token before a plugin": ({"token": "t", "exec": {"command": "none"}}, "Bearer t"),
        "a password that is empty": ({"username": "ann", "password": None}, ""),
        "nothing": ({}, ""),
    },
)
def test_a_user_has_one_authorization(access, tmp_path, user, value):
    (tmp_path / "token").write_text("of-the-file\n")
    assert connection_settings(access(user)).authorization() == value


def test_certificates_are_data_or_files_beside_the_kubeconfig(access, tmp_path):
    (tmp_path / "user.key").write_text("KEY")
    user = {"client-certificate-data": b64encode(b"PEM").decode(), "client-certificate": "absent",
            "client-key": "user.key"}  # fmt: skip
    settings = connection_settings(access(user))
    assert (settings.certificate, settings.key) == ("PEM", "KEY")


@cases(
    ("user", "message"),
    {
        "a file that is absent": ({"client-key": "absent.key"}, "No such file or directory: .*absent.key"),
        "no text": ({"token": 12345}, r"user 'u': Expected `str`, got `int` - at `\$.token`"),
        "no base64": ({"client-key-data": "secret"}, "Incorrect padding"),
        "an empty token file": ({"tokenFile": "/dev/null"}, "the token file /dev/null is empty"),
    },
)
def test_unusable_credentials_are_an_error_without_their_value(access, user, message):
    with pytest.raises(InputError, match=message) as refused:
        connection_settings(access(user))
    assert "secret" not in str(refused.value)
    assert "12345" not in str(refused.value)


def test_a_token_file_is_read_again_after_a_minute(tmp_path):
    clock = FakeClock()
    (tmp_path / "token").write_text("1")
    token = RereadToken(tmp_path / "token", clock)
    (tmp_path / "token").write_text("2")
    clock.pass_by(59)
    assert token.authorization() == "Bearer 1"
    clock.pass_by(1)
    assert token.authorization() == "Bearer 2"


def test_a_pod_uses_its_service_account(tmp_path):
    (tmp_path / "ca.crt").write_text("PEM")
    (tmp_path / "token").write_text("t")
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    settings = connection_settings(ClusterAccess((), "", ""), environ=environ, service_account=tmp_path)
    assert (settings.server, settings.authorization(), settings.authority) == (
        "https://[fd00::1]:443",
        "Bearer t",
        "PEM",
    )
    with pytest.raises(
        InputError, match=r"the service account of this pod: .*KUBERNETES_SERVICE_PORT are not both set"
    ):
        connection_settings(ClusterAccess((), "", ""), environ={}, service_account=tmp_path)


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


def content(current: str = "", **contexts: str) -> str:
    """A kubeconfig whose contexts have these namespaces and servers of the same name."""
    lines = [f"current-context: {current}", "clusters:"]
    lines += [f"- {{name: {name}, cluster: {{server: 'http://{name}.example'}}}}" for name in contexts] or ["  []"]
    lines += ["users: [{name: me, user: {token: t}}]", "contexts:"]
    lines += [
        f"- {{name: {name}, context: {{cluster: {name}, user: me, namespace: '{namespace}'}}}}"
        for name, namespace in contexts.items()
    ]
    return "\n".join(lines)


@pytest.fixture
def place(tmp_path):
    """A home folder with ~/.kube/config, two more files, and the service account of a pod."""
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(content("home", home="house"))
    (tmp_path / "first").write_text(content("", one="n1", shared="of-first"))
    (tmp_path / "second").write_text(content("two", two="", shared="of-second"))
    (tmp_path / "pod").mkdir()
    (tmp_path / "pod" / "namespace").write_text("of-pod\n")
    return tmp_path


def found(place, kubeconfig=None, context=None, **environ: str):
    return find_access(
        place / kubeconfig if kubeconfig else None,
        context,
        environ={"HOME": str(place), **environ},
        service_account=place / "pod",
    )


def both(place):
    return os.pathsep.join(str(place / name) for name in ("first", "missing", "second"))


def test_a_named_file_wins_over_everything(place):
    access = found(place, "second", KUBECONFIG=both(place), KUBERNETES_SERVICE_HOST="10.0.0.1")
    assert access[:3] == ((place / "second",), "two", "")


def test_the_variable_wins_over_the_home_folder_and_missing_files_are_skipped(place):
    access = found(place, KUBECONFIG=both(place))
    assert (access.files, access.context) == ((place / "first", place / "second"), "two")


def test_the_first_definition_of_a_context_wins(place):
    assert found(place, context="shared", KUBECONFIG=both(place)).namespace == "of-first"


def test_a_client_of_several_files_uses_the_chosen_context(place):
    assert connection_settings(found(place, context="one", KUBECONFIG=both(place))).server == "http://one.example"


def test_the_home_folder_wins_over_the_pod(place):
    access = found(place, KUBERNETES_SERVICE_HOST="10.0.0.1")
    assert (access.context, access.namespace) == ("home", "house")


def test_the_service_account_of_the_pod_comes_last(place):
    (place / ".kube" / "config").unlink()
    access = found(place, KUBERNETES_SERVICE_HOST="10.0.0.1")
    assert access[:3] == ((), "", "of-pod")
    assert str(access) == "the service account of this pod"


def test_a_user_without_a_home_has_no_kubeconfig(place, monkeypatch):
    """OpenShift runs pods as a random user, and an image may set no HOME."""

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    access = found(place, HOME="", KUBERNETES_SERVICE_HOST="10.0.0.1")
    assert access[:3] == ((), "", "of-pod")
    with pytest.raises(InputError, match="no access to an API server"):
        found(place, HOME="")


@cases(
    ("arguments", "environ", "message"),
    {
        "no access at all": ({}, {"HOME": "/nowhere"}, "KUBECONFIG is not set, /nowhere/.kube/config"),
        "no file": (
            {},
            {"KUBECONFIG": "/nowhere/a:/nowhere/b"},
            "names only files that do not exist: /nowhere/a, /nowhere/b",
        ),
        "a typo": ({"context": "tow"}, {}, "there is no context 'tow'; known contexts are home"),
        "in a pod": ({"context": "c"}, {"HOME": "/nowhere", "KUBERNETES_SERVICE_HOST": "h"}, "no kubeconfig with"),
        "no current context": ({"kubeconfig": "first"}, {}, "first: no current context"),
        "a missing file": ({"kubeconfig": "missing"}, {}, "missing: No such file"),
    },
)
def test_an_error_names_the_file_and_the_remedy(place, arguments, environ, message):
    with pytest.raises(InputError) as caught:
        found(place, **arguments, **environ)
    assert message in str(caught.value)


def test_an_error_does_not_show_the_text_of_a_file(place):
    (place / "first").write_text("users: [{token: secret}\n- x: {")
    with pytest.raises(InputError) as caught:
        found(place, "first")
    assert "secret" not in str(caught.value)


WRITE = merge_patch(Collection.of("example.io/v1", "things"), ("shop", "web"), {"spec": 1})


class RefusedClient:
    """A client that the API server refuses with a status."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.sent = 0

    def send(self, request: APIRequest) -> APIResponse:
        self.sent += 1
        raise ApiError(self.status, "", f"{request}: {self.status}")


def loading(*clients: APIClient | InputError) -> tuple[Callable[[], APIClient], list[APIClient | InputError]]:
    """Return a function that returns or raises these one after the other, and what is left of them."""
    left = list(clients)

    def load() -> APIClient:
        found = left.pop(0)
        if isinstance(found, InputError):
            raise found
        return found

    return load, left


def refused(client: APIClient, status: int) -> None:
    with pytest.raises(ApiError) as error:
        client.send(WRITE)
    assert error.value.status == status


class UnconnectedClient:
    def __init__(self) -> None:
        self.sent = 0

    def send(self, request: APIRequest) -> APIResponse:
        self.sent += 1
        raise UnconnectedError(0, "", f"{request}: no connection")


def test_a_changed_access_is_read_again_if_there_is_no_connection():
    first, second, states = UnconnectedClient(), RefusedClient(409), ["old"]
    load, left = loading(first, second)
    client = ReloadingClient(load, FakeClock(), lambda: states[-1])
    refused(client, 0)
    assert (first.sent, len(left)) == (1, 1), "an unchanged access is not read again: a plugin may take long"
    states.append("new")
    refused(client, 409)
    assert (first.sent, second.sent) == (2, 1)


def test_an_access_that_is_half_written_is_read_later():
    clock, states = FakeClock(), ["old"]
    load, left = loading(UnconnectedClient(), InputError("half written"), RefusedClient(409))
    client = ReloadingClient(load, clock, lambda: states[-1])
    states.append("new")
    refused(client, 0)
    clock.pass_by(10)
    refused(client, 409)
    assert not left


def test_an_access_that_cannot_be_read_now_stays_in_use():
    def state() -> str:
        if not readable:
            raise FileNotFoundError
        return "old"

    readable = [True]
    load, left = loading(UnconnectedClient(), RefusedClient(409))
    client = ReloadingClient(load, FakeClock(), state)
    readable.clear()
    refused(client, 0)
    assert len(left) == 1


def test_the_files_of_an_access_are_those_that_it_names(access, tmp_path):
    user = {"client-certificate": "user.crt", "client-key": "/keys/user.key", "tokenFile": "token", "token": "t"}
    found = named_files(access(user))
    assert found == (tmp_path / "config", tmp_path / "user.crt", Path("/keys/user.key"), tmp_path / "token")
    assert named_files(ClusterAccess((), "", ""), tmp_path) == (tmp_path / "ca.crt", tmp_path / "token")


@pytest.mark.parametrize("status", [0, 403, 409, 503])
def test_other_errors_do_not_reload(status: int):
    first = RefusedClient(status)
    load, left = loading(first, RefusedClient(200))
    refused(ReloadingClient(load, FakeClock()), status)
    assert (first.sent, len(left)) == (1, 1)


def test_a_refused_request_is_sent_once_more_and_not_again_for_ten_seconds():
    clock, (first, second, third) = FakeClock(), [RefusedClient(401) for _ in range(3)]
    load, left = loading(first, second, third)
    client = ReloadingClient(load, clock)
    refused(client, 401)
    refused(client, 401)
    assert (first.sent, second.sent, len(left)) == (1, 2, 1)
    clock.pass_by(10)
    refused(client, 401)
    assert (second.sent, third.sent) == (3, 1)


def test_credentials_that_cannot_be_read_again_are_logged_and_tried_later(caplog: pytest.LogCaptureFixture):
    clock, first = FakeClock(), RefusedClient(401)
    load, _ = loading(first, InputError("fleet.kubeconfig: no such file"), RefusedClient(503))
    client = ReloadingClient(load, clock)
    refused(client, 401)
    assert "the access cannot be read again: fleet.kubeconfig: no such file" in caplog.text
    clock.pass_by(10)
    refused(client, 503)


def test_the_first_client_must_be_usable():
    load, _ = loading(InputError("fleet.kubeconfig: no such file"))
    with pytest.raises(InputError):
        ReloadingClient(load)


def test_a_replaced_token_file_is_used_without_a_restart(peer, access, tmp_path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    server, token = peer(OK, REFUSAL, OK), tmp_path / "token"
    token.write_text("the-first")
    (kubeconfig,) = access({"tokenFile": str(token)}, f"http://127.0.0.1:{server.port}").files
    client = load_client(kubeconfig)
    ask(client, WRITE)
    token.write_text("the-second")
    assert ask(client, WRITE) == b"hi"
    sent = [line for head in server.heads for line in head if line.lower().startswith("authorization")]
    assert [line.rpartition(" ")[2] for line in sent] == ["the-first", "the-first", "the-second"]
    assert "the access was read again" in caplog.text


def test_a_new_address_of_the_server_is_used_without_a_restart(peer, access):
    first, second = peer(OK), peer(OK)
    (kubeconfig,) = access({"token": "a"}, f"http://127.0.0.1:{first.port}").files
    client = load_client(kubeconfig)
    ask(client, WRITE)
    first.close()
    access({"token": "a"}, f"http://127.0.0.1:{second.port}")
    with suppress(ApiError):  # the idle connection may have received this request
        ask(client, WRITE)
    assert ask(client, READ) == b"hi"
    assert second.heads
