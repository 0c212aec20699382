"""The chart rendered without hooks: applied twice by kubectl, and removed by the commands of docs/install-gitops.md."""

import re
import shlex
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from e2e.api import Api
from e2e.assets import binary
from e2e.conftest import needed
from e2e.control_plane import ControlPlane
from e2e.installed import Installed, labelled
from e2e.karmada import install_clusters, install_quotas
from e2e.load import Load
from e2e.manifests import JSON, propagation_policy
from e2e.processes import Processes, wait_for
from page_lines import whole_lines

from charts import helm

pytestmark = pytest.mark.e2e

PAGE = whole_lines((Path(__file__).parents[2] / "docs" / "install-gitops.md").read_text())
LIMIT_S = 60.0


@pytest.fixture
def installed(control_plane: ControlPlane, processes: Processes, tmp_path: Path) -> Iterator[Installed]:
    install_clusters(control_plane.api)
    install_quotas(control_plane.api)
    with closing(Installed("single", control_plane, control_plane, processes, tmp_path)) as one:
        one.values["helmHooks"] = False
        yield one


class Kubectl:
    """The commands of the page, in the namespace of an installation."""

    def __init__(self, plane: ControlPlane, installed: Installed, folder: Path) -> None:
        self._plane = plane
        self._namespace = installed.release.namespace
        self.file = folder / "berthmaster.yaml"

    def run(self, command: str) -> str:
        done = self.ended(command)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def ended(self, command: str) -> subprocess.CompletedProcess[str]:
        words = shlex.split(
            command.replace("karmada-system", self._namespace).replace("berthmaster.yaml", str(self.file))
        )
        assert words[0] == "kubectl"
        access = str(self._plane.kubeconfig)
        rest = [access if word == "TARGET" else word for word in words[1:]]
        whole = [
            str(needed(lambda: binary("kubectl"))),
            *([] if "--kubeconfig" in rest else [f"--kubeconfig={access}"]),
        ]
        return subprocess.run([*whole, *rest], capture_output=True, text=True, timeout=LIMIT_S, check=False)


def commands(heading: str) -> list[str]:
    """The commands of a section of the page that kubectl runs."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = "\n".join(re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL)).splitlines()
    return [each for each in lines if each.startswith("kubectl")]


def left(installed: Installed) -> list[str]:
    kinds = {(each["apiVersion"], each["kind"]) for each in installed.rendered()}
    kinds |= {
        ("coordination.k8s.io/v1", "Lease"),
        *((each["apiVersion"], each["kind"]) for each in installed.registered()),
    }
    return labelled(installed.host.api, kinds)


def test_applied_twice_upgraded_and_removed_by_hand(
    installed: Installed, control_plane: ControlPlane, api: Api, namespace: str, tmp_path: Path
) -> None:
    others = Counter(left(installed))
    kubectl = Kubectl(control_plane, installed, tmp_path)

    def render(**changes: JSON) -> None:
        installed.values.update(changes)
        kubectl.file.write_text(helm.text(installed.values, namespace=installed.release.namespace))

    render()
    assert "helm.sh/hook" not in kubectl.file.read_text()
    apply, wait = commands("Install without hooks")
    kubectl.run(apply)
    kubectl.run(wait)
    wait_for("every pod to be ready", installed.pods.settled, LIMIT_S)
    policy = {"placement": {"spreadConstraints": [{"maxGroups": 2}]}}
    with Load(api, lambda: propagation_policy(namespace, **policy)) as load:
        load.more(20)
        before = installed.bundles()
        again = kubectl.run(apply)
        assert "created" not in again, again
        assert [code for _, code, _ in installed.jobs.ran] == [0]
        assert installed.bundles() == before
        a_second_manager_conflicts_unless_it_forces(kubectl, installed)
        assert installed.bundles() == before
        render(webhook={**installed.values["webhook"], "timeoutSeconds": 10})
        assert "job.batch" in "".join(line for line in kubectl.run(apply).splitlines() if "created" in line)
        kubectl.run(wait)
        stored = [api.get(each) for each in installed.registered()]
        assert {entry["timeoutSeconds"] for each in stored for entry in each["webhooks"]} == {10}
        load.more(20)
        for each in commands("Remove without hooks"):
            kubectl.run(each)
        load.more(20)
    assert not load.failures, load.report()
    wait_for("the pods to be gone", lambda: not installed.pods.here, LIMIT_S)
    assert not Counter(left(installed)) - others

    api.create(propagation_policy(namespace))


def a_second_manager_conflicts_unless_it_forces(kubectl: Kubectl, installed: Installed) -> None:
    """Two tools that apply the same manifest on the server own the same fields. Neither changes a pod."""
    pods = {*installed.pods.of("webhook")}
    for manager, options, refused in (
        ("first", "--force-conflicts", False),
        ("first", "", False),
        ("second", "", True),
        ("second", "--force-conflicts", False),
    ):
        words = f"kubectl apply --server-side --field-manager={manager} {options} --filename berthmaster.yaml"
        done = kubectl.ended(words)
        assert (done.returncode != 0) is refused, done.stderr
        assert ("conflict" in done.stderr) is refused, done.stderr
    assert {*installed.pods.of("webhook")} == pods
