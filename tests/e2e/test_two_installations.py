"""Two installations whose webhook configurations have the same name, on a real API server that calls the first one."""

import base64
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from e2e.api import Api
from e2e.control_plane import HOST, ControlPlane
from e2e.load import Load
from e2e.manifests import propagation_policy, unique
from e2e.processes import Processes, wait_for
from e2e.registration import KINDS, configuration
from e2e.service import KARMADA_HOOKS, Service
from e2e.serving import COMMAND, events_about, serve

from certs.ownership import REGISTERED_BY

pytestmark = pytest.mark.e2e

LIMIT_S = 60.0
SECRET = "webhook-tls"  # noqa: S105 - the name of a Secret
PAUSE_REQUESTS = 60


class Release:
    """A release that registers a configuration by its name, with its own authority."""

    def __init__(self, plane: ControlPlane, name: str) -> None:
        self._plane = plane
        self.name = name
        self.namespace = plane.new_namespace()
        self.owner = f"{self.namespace}.{name}"

    @property
    def flags(self) -> list[str]:
        return [
            f"--kubeconfig={self._plane.kubeconfig}", f"--namespace={self.namespace}", f"--serving={SECRET}={HOST}",
            f"--mutating={self.name}", f"--validating={self.name}", f"--registered-by={self.owner}",
        ]  # fmt: skip

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [str(COMMAND), *words, *self.flags]
        return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)


@pytest.fixture
def service(processes: Processes, tmp_path: Path) -> Iterator[Service]:
    with closing(Service(processes, tmp_path, "standalone")) as one:
        yield one


def manifests(name: str, url: str) -> list[dict[str, Any]]:
    """The configurations as the chart renders them, without a bundle."""
    found = []
    for verb, kind in KINDS.items():
        entries = [
            hook.entry(f"{hook.path.strip('/')}.berthmaster.io", url, b"")
            for hook in KARMADA_HOOKS
            if hook.verb == verb
        ]
        for each in entries:
            del each["clientConfig"]["caBundle"]
        found.append(configuration(kind, name, entries))
    return found


def test_a_second_release_of_the_same_name_never_breaks_the_first(
    api: Api, control_plane: ControlPlane, processes: Processes, service: Service, namespace: str, tmp_path: Path
) -> None:
    first, second = (Release(control_plane, unique("berthmaster")) for _ in range(2))
    second.name, second.owner = first.name, f"{second.namespace}.{first.name}"
    assert first.run("certs", "bootstrap").returncode == 0
    stored = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": first.namespace}}
    for key, file in (("tls.crt", service.certificate_file), ("tls.key", service.key_file)):
        file.write_bytes(decoded(api.get(stored)["data"][key]))
    service.start()
    objects = manifests(first.name, service.url)
    file = tmp_path / "registration.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    done = first.run("register", "apply", f"--filename={file}")
    assert done.returncode == 0, done.stderr
    try:
        before = bundles(api, objects)
        refused = second.run("register", "apply", f"--filename={file}")
        assert refused.returncode == 2
        assert f"was registered by {first.owner}, not {second.owner}" in refused.stderr
        with Load(api, lambda: propagation_policy(namespace)) as load:
            load.more(10)
            running = serve(
                processes, "certs", (COMMAND, "certs", "run"), *second.flags, "--interval-s=0.5", port=0, wait=False
            )
            labels = {"reason": "RegisteredByAnother", "outcome": "refused"}
            metric = "berthmaster_certificate_actions_total"
            wait_for("certs to find it", lambda: running.measure(metric, **labels), LIMIT_S)
            load.more(PAUSE_REQUESTS)
            assert not running.ready(), "an installation that cannot be completed is not ready"
            reasons = {each["reason"] for each in events_about(api, "default", first.name)}
            running.process.stop()
        assert not load.failures, load.report()
        assert "RegisteredByAnother" in reasons
        assert bundles(api, objects) == before
        doctor = [str(COMMAND), "doctor", f"--kubeconfig={control_plane.kubeconfig}", "--before-install"]
        found = subprocess.run(
            [*doctor, f"--namespace={second.namespace}", f"--release={second.name}"],
            capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
        assert f"conflicts/configurations: {first.owner} has registered" in found.stdout, found.stdout
        removed = second.run("register", "remove", f"--filename={file}")
        assert removed.stdout.count("not ours") == len(objects)
    finally:
        for each in objects:
            api.delete(each)


def test_labels_of_a_tool_leave_what_an_earlier_version_registered(
    api: Api, control_plane: ControlPlane, service: Service, tmp_path: Path
) -> None:
    """Argo CD removes objects with its label that stand in no manifest. An upgrade takes the label away."""
    release = Release(control_plane, unique("berthmaster"))
    assert release.run("certs", "bootstrap").returncode == 0
    stored = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": release.namespace}}
    for key, file in (("tls.crt", service.certificate_file), ("tls.key", service.key_file)):
        file.write_bytes(decoded(api.get(stored)["data"][key]))
    service.start()
    file, label = tmp_path / "registration.yaml", "app.kubernetes.io/instance"
    objects = manifests(release.name, service.url)
    try:
        for labels in ({label: "berthmaster"}, {}):
            file.write_text(
                yaml.safe_dump_all([{**each, "metadata": {**each["metadata"], "labels": labels}} for each in objects])
            )
            assert release.run("register", "apply", f"--filename={file}").returncode == 0
            found = [api.get(each)["metadata"]["labels"] for each in objects]
            assert [label in each for each in found] == [bool(labels)] * len(objects)
            assert {each[REGISTERED_BY] for each in found} == {release.owner}
    finally:
        for each in objects:
            api.delete(each)


def bundles(api: Api, objects: list[dict[str, Any]]) -> list[str]:
    return [hook["clientConfig"]["caBundle"] for each in objects for hook in api.get(each)["webhooks"]]


def decoded(text: str) -> bytes:
    return base64.b64decode(text)
