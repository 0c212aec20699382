"""The way to a real API server: through a proxy, and with an authority and an address that change."""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from e2e import karmada
from e2e.api import Api
from e2e.assets import binary
from e2e.certificates import Authority
from e2e.conftest import needed
from e2e.control_plane import HOST, ControlPlane, crd_folder, fetch
from e2e.forwarder import Forwarder
from e2e.processes import Process, Processes, wait_for
from e2e.serving import COMMAND, Serving, clusters, serve, start_extender

pytestmark = pytest.mark.e2e

LIMIT_S: Final = 60.0
STALE_LIMIT_S: Final = 120.0
UNKNOWN_USER: Final = 12345
PASSWORD: Final = "p:@s/é"  # noqa: S105 - of the test's proxy
ENCODED: Final = "p%3A%40s%2F%C3%A9"


@pytest.fixture
def proxy(processes: Processes) -> Iterator[tuple[int, Process]]:
    port = processes.ports.free()
    process = processes.start(
        "proxy", [sys.executable, Path(__file__).with_name("proxy.py"), str(port), f"ann:{PASSWORD}"]
    )
    process.wait_for("to listen", lambda: b"" if not listening(port) else b"yes", LIMIT_S)
    yield port, process
    process.stop()


def listening(port: int) -> bool:
    with socket.socket() as each:
        return each.connect_ex((HOST, port)) == 0


def changed(kubeconfig: Path, target: Path, **cluster: Any) -> Path:
    content = json.loads(kubeconfig.read_text())
    content["clusters"][0]["cluster"].update(cluster)
    target.write_text(json.dumps(content))
    return target


def run(command: list[Any], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    variables = {**{k: v for k, v in os.environ.items() if "proxy" not in k.lower()}, **environment}
    return subprocess.run(
        list(map(str, command)), env=variables, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )


@pytest.mark.parametrize(
    ("by_kubeconfig", "environment"),
    [
        pytest.param(True, {}, id="proxy-url"),
        pytest.param(True, {"NO_PROXY": HOST}, id="proxy-url wins over NO_PROXY"),
        pytest.param(False, {"HTTPS_PROXY": "{proxy}"}, id="HTTPS_PROXY does not count for loopback"),
    ],
)
def test_a_proxy_gets_its_credentials(
    api: Any, control_plane: ControlPlane, proxy: tuple[int, Process], tmp_path: Path,
    by_kubeconfig: bool, environment: Mapping[str, str],  # noqa: FBT001 - a column of a table
) -> None:  # fmt: skip
    port, process = proxy
    karmada.install_clusters(api)
    url = f"http://ann:{ENCODED}@{HOST}:{port}"
    given = {"proxy-url": url} if by_kubeconfig else {}
    kubeconfig = changed(control_plane.kubeconfig, tmp_path / "config", **given)
    variables = {name: value.replace("{proxy}", url) for name, value in environment.items()}
    for command in (
        [needed(lambda: binary("kubectl")), "get", "namespaces"],
        [COMMAND, "doctor", "--before-install", "--skip=rights"],
    ):
        before = process.log.read_text().count("granted")
        done = run([*command, f"--kubeconfig={kubeconfig}"], variables)
        assert done.returncode == 0, done.stdout + done.stderr
        log = process.log.read_text()
        assert (log.count("granted") > before) == by_kubeconfig
        assert "denied" not in log


def test_a_proxy_without_credentials_is_named(
    control_plane: ControlPlane, proxy: tuple[int, Process], tmp_path: Path
) -> None:
    kubeconfig = changed(control_plane.kubeconfig, tmp_path / "config", **{"proxy-url": f"http://{HOST}:{proxy[0]}"})
    done = run([COMMAND, "doctor", f"--kubeconfig={kubeconfig}", "--before-install"], {})
    assert done.returncode == 1
    assert "407 Proxy Authentication Required" in done.stdout


@pytest.fixture(scope="module")
def own_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    children = Processes(tmp_path_factory.mktemp("plane"))
    try:
        plane = ControlPlane(children)
        plane.install(needed(crd_folder))
        yield plane
    finally:
        children.stop_all()


class Renewed:
    """An API server whose certificate another authority signs from some moment on."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self.trusted = folder / "server-ca.crt"
        self.trusted.write_bytes(plane.authority.certificate)
        self.kubeconfig = changed(plane.kubeconfig, folder / "config", **{"certificate-authority": str(self.trusted)})

    def renew(self) -> bytes:
        """Replace the certificate of the server. Return the new authority."""
        authority = Authority("renewed")
        folder = self.plane.processes.folder
        authority.issue("kube-apiserver", hosts=self.plane.hosts).write(folder / "server.crt", folder / "server.key")
        both = self.plane.authority.certificate + authority.certificate
        (folder / "ca.crt").write_bytes(both)
        self.plane.trust.load_verify_locations(cadata=both.decode())
        self.plane.restart_apiserver()
        return authority.certificate


def stale(extender: Serving) -> float:
    return extender.measure("berthmaster_extender_state_stale")


def test_a_renewed_authority_is_noticed(own_plane: ControlPlane, tmp_path: Path) -> None:
    renewed = Renewed(own_plane, tmp_path)
    joined = [karmada.cluster() for _ in range(2)]
    names = [each["metadata"]["name"] for each in joined]
    karmada.install_clusters(own_plane.api)
    karmada.join(own_plane.api, joined[0])
    namespace = own_plane.new_namespace()
    extender = start_extender(own_plane.processes, own_plane, "clusters", kubeconfig=renewed.kubeconfig)
    certs = serve(
        own_plane.processes, "certs", (COMMAND, "certs", "run"), f"--kubeconfig={renewed.kubeconfig}",
        f"--namespace={namespace}", f"--serving=webhook-tls={HOST}", "--interval-s=1", port=0,
    )  # fmt: skip
    wait_for("the first cluster", lambda: names[0] in clusters(extender), LIMIT_S)
    authority = renewed.renew()
    wait_for("the extender to be stale", lambda: stale(extender) == 1, STALE_LIMIT_S)
    wait_for("readiness to say so", lambda: "certificate verify failed" in readyz(extender), LIMIT_S)
    wait_for("certs to say so", lambda: "certificate verify failed" in readyz(certs), LIMIT_S)
    renewed.trusted.write_bytes(authority)
    own_plane.api = type(own_plane.api)(own_plane.kubeconfig, tmp_path / "discovery.json")
    karmada.join(own_plane.api, joined[1])
    wait_for("the second cluster", lambda: names[1] in clusters(extender), LIMIT_S)
    wait_for("the extender to be current", lambda: stale(extender) == 0, LIMIT_S)
    wait_for("certs to be well", lambda: readyz(certs) == "ok\n", LIMIT_S)


def test_another_address_is_noticed(
    api: Api, control_plane: ControlPlane, processes: Processes, tmp_path: Path
) -> None:
    karmada.install_clusters(api)
    joined = karmada.cluster()
    name = joined["metadata"]["name"]
    before = Forwarder(processes.ports.free())
    before.add(int(control_plane.url.rpartition(":")[2]), lambda: True)
    kubeconfig = changed(control_plane.kubeconfig, tmp_path / "config", server=f"https://{HOST}:{before.port}")
    extender = start_extender(processes, control_plane, "clusters", kubeconfig=kubeconfig)
    before.close()
    wait_for("the extender to be stale", lambda: stale(extender) == 1, STALE_LIMIT_S)
    changed(control_plane.kubeconfig, kubeconfig)
    karmada.join(api, joined)
    wait_for("the cluster", lambda: name in clusters(extender), LIMIT_S)
    wait_for("the extender to be current", lambda: stale(extender) == 0, LIMIT_S)
    extender.process.stop()
    api.delete(joined)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process of another real user")
@pytest.mark.parametrize("command", ["controllers", "doctor"])
def test_a_user_without_name_and_home_learns_what_is_missing(command: str) -> None:
    """OpenShift runs pods as random users."""
    done = subprocess.run(
        ["setpriv", f"--reuid={UNKNOWN_USER}", "--clear-groups", COMMAND, command],
        env={"PATH": os.environ["PATH"]}, cwd="/",
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert re.fullmatch(r"berthmaster: no access to an API server: .*\n", done.stderr), done.stderr


def readyz(running: Serving) -> str:
    return fetch(f"{running.probe_url}/readyz") or ""
