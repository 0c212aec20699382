"""The seven steps of docs/adopt.md on a real API server: the commands, and what the doctor says after each."""

import json
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from e2e import karmada
from e2e.api import Api
from e2e.control_plane import ControlPlane
from e2e.controllers_process import start_controllers, wait_for_leader
from e2e.manifests import JSON, unique
from e2e.processes import Processes, wait_for
from e2e.service import COMMAND, Service
from e2e.test_doctor import installed
from karmada_plane import binding as bound
from karmada_plane import deployment, policy, selector

from charts import helm

pytestmark = pytest.mark.e2e

DOCS: Final = Path(__file__).parents[2] / "docs"
SECTIONS: Final = re.split(r"^## ", (DOCS / "adopt.md").read_text(), flags=re.MULTILINE)
START: Final = (DOCS / "start.md").read_text()
LIMIT_S: Final = 60.0
EFFECT_S: Final = 20.0


def lines(step: int) -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```", SECTIONS[step], re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def values(*steps: int) -> list[str]:
    """What the page sets on the release, from step to step; only what leads forward."""
    found = []
    for step in steps:
        words = shlex.split(next(line for line in lines(step) if line.startswith("helm upgrade")))
        found += words[words.index("--reset-then-reuse-values") + 1 :]
    return found


def first_questions() -> list[str]:
    """The commands of the thirty minutes on a Karmada of one's own, in their order."""
    section = START.partition("## Thirty minutes")[2]
    return re.findall(r"^\d\. .*?`berthmaster ([^`]*)`", section, re.MULTILINE)


def run(*words: object, code: int = 0, folder: Path = DOCS.parent) -> str:
    done = subprocess.run(
        [COMMAND, *map(str, words)], capture_output=True, text=True, check=False, timeout=LIMIT_S, cwd=folder
    )
    assert done.returncode == code, (words, done.stdout, done.stderr)
    return done.stdout


class Plane:
    """A fleet of one cluster with one workload of karmada-scheduler, in a namespace that is the release's, too."""

    def __init__(self, control_plane: ControlPlane, namespace: str) -> None:
        self.plane, self.api, self.namespace = control_plane, control_plane.api, namespace
        self.scheduler = unique("scheduler")
        self.member = karmada.cluster()

    def adoption(self, kubeconfig: Path | None = None) -> dict[str, Any]:
        return json.loads(
            run(
                *("doctor", "--adoption", "-o", "json", f"--kubeconfig={kubeconfig or self.plane.kubeconfig}"),
                *(f"--namespace={self.namespace}", f"--karmada-namespace={self.namespace}"),
                *(f"--leader-elect-namespace={self.namespace}", f"--scheduler-name={self.scheduler}"),
            )
        )

    def reached(self) -> int:
        return int((self.adoption()["reached"] or {"number": 0})["number"])

    @contextmanager
    def deployed(self, *steps: int) -> Iterator[None]:
        rendered = yaml.safe_load_all(
            helm.run("template", "berthmaster", str(helm.CHART), f"--namespace={self.namespace}", *values(*steps))
        )
        found = [each for each in rendered if each and each["kind"] == "Deployment"]
        for each in found:
            self.api.create(each)
        try:
            yield
        finally:
            for each in found:
                self.api.delete(each)


@pytest.fixture
def fleet(control_plane: ControlPlane, api: Api, namespace: str) -> Iterator[Plane]:
    karmada.install_clusters(api)
    karmada.install_overrides(api)
    one = Plane(control_plane, namespace)
    karmada.join(api, one.member)
    web = policy("web", selector(name="web"), namespace=namespace)
    shop = deployment("web", 2, namespace=namespace, by=web)
    shop["metadata"].pop("managedFields")
    assigned = bound(shop, web, **{one.member["metadata"]["name"]: 2})
    for each in (web, shop, assigned):
        api.create(each)
    yield one
    for each in (assigned, shop, web, one.member):
        api.delete(each)


def test_a_newcomer_walks_the_steps_of_the_page_and_back(fleet: Plane, processes: Processes, tmp_path: Path) -> None:
    # 1: the rights of the manifest are enough for each command of the step.
    role = yaml.safe_load((DOCS / "read-only.yaml").read_text())
    # This API server also serves the types of KubeAdmiral, which is not in use.
    federated = {"apiGroups": ["core.kubeadmiral.io"], "resources": ["federatedclusters"], "verbs": ["list"]}
    reader = fleet.plane.user(unique("reader"), [(rule, None) for rule in (*role["rules"], federated)])
    asked = [line for line in lines(1) if line.startswith("berthmaster")]
    for line in asked:
        words = line.replace("deploy/NAME", "deploy/web").replace("NAMESPACE", fleet.namespace).split()[1:]
        run(*words, f"--kubeconfig={reader}")
    assert len(asked) == 3
    (tmp_path / "policy.yaml").write_text(json.dumps(policy("web", selector(name="web"), namespace=fleet.namespace)))
    member = fleet.member["metadata"]["name"]
    questions = first_questions()
    for line in questions:
        words = line.replace("NAMESPACE", fleet.namespace).replace("NAME", "web").replace("CLUSTER", member).split()
        run(*words, f"--kubeconfig={reader}", folder=tmp_path)
    assert [line.split()[0] for line in questions] == ["explain", "resilience", "simulate", "lint", "plan", "simulate"]
    again = run("explain", "-f", "fleet.json", f"{fleet.namespace}/deploy/web", "-o", "json", folder=tmp_path)
    assert json.loads(again)["clusters"] == {member: 2}
    seen = fleet.adoption(reader)
    assert (seen["reached"]["number"], seen["next"]["number"]) == (1, 2)
    # 2: a pull request, which the plane does not see. No plan for it can lose a workload.
    changed = tmp_path / "policies" / "policy.yaml"
    changed.parent.mkdir()
    changed.write_text(json.dumps(policy("web", selector(name="web"), namespace=fleet.namespace)))
    for line in lines(2):
        words = line.replace("policies/", str(changed.parent)).split()[1:]
        run(*words, *([f"--kubeconfig={reader}"] if words[0] == "plan" else []))
    assert fleet.reached() == 1
    with ExitStack() as running:
        # 3: the webhook, which lets everything pass while it is away.
        service = running.enter_context(closing(Service(processes, tmp_path, "companion")))
        service.start()
        running.enter_context(installed(fleet.api, service.url, service.authority.certificate, failurePolicy="Ignore"))
        wait_for("the webhook to be seen", lambda: fleet.reached() == 3, EFFECT_S)
        assert "Ignore" in fleet.adoption()["steps"][2]["found"]
        # 4: shadow mode.
        with fleet.deployed(3, 4):
            assert fleet.reached() == 4
        assert fleet.reached() == 3, "the way back"
        # 5: the plan of the page for a successor says that nothing moves.
        successor = policy(
            "next", selector(name="web"), namespace=fleet.namespace, priority=1, schedulerName=fleet.scheduler
        )
        (tmp_path / "successor.yaml").write_text(json.dumps(successor))
        (line, *_) = [each for each in lines(5) if each.startswith("berthmaster plan")]
        words = line.replace("NAMESPACE", fleet.namespace).replace("/NAME", "/web").split()[1:]
        said = run(*words, f"--kubeconfig={reader}", f"--scheduler-name={fleet.scheduler}", folder=tmp_path)
        assert "nothing moves" in said
        # 5 and 6: a scheduler with moves that are only reported.
        moves = json.loads(next(word for word in values(6) if "=" in word and "{" in word).partition("=")[2])
        config = tmp_path / "moves.json"
        config.write_text(json.dumps({"apiVersion": "berthmaster.io/v1alpha1", "kind": "MovesConfiguration", **moves}))
        for flags, step in (((), 5), ((f"--moves-config={config}",), 6)):
            walk(fleet, processes, flags, step)
        # 7: the ledger and the console.
        with fleet.deployed(3, 4, 5, 6, 7):
            assert fleet.reached() == 7
            assert fleet.adoption()["next"] is None
    wait_for("the way back to step 1", lambda: fleet.reached() == 1, EFFECT_S)


def walk(fleet: Plane, processes: Processes, flags: Sequence[str], step: int) -> None:
    """Start controllers, hand one binding over, and go back."""
    running = start_controllers(processes, fleet.plane, fleet.namespace, f"--scheduler-name={fleet.scheduler}", *flags)
    handed: JSON = karmada.binding(
        fleet.namespace, karmada.divided(("all", [fleet.member["metadata"]["name"]])), schedulerName=fleet.scheduler
    )
    try:
        wait_for_leader([running], EFFECT_S)
        fleet.api.create(handed)
        wait_for("the binding to be scheduled", lambda: karmada.assigned(fleet.api.get(handed)), EFFECT_S)
        wait_for(f"step {step}", lambda: fleet.reached() == step, EFFECT_S)
    finally:
        running.process.stop()
        fleet.api.delete(handed)
