"""A newcomer's walk through docs/start.md and the seven steps of docs/adopt.md on a real API server, and back.

A shell runs the commands of the pages, with names in place of placeholders. What helm installs runs as processes. The
model of Karmada plays Karmada's controllers and its members. A binding scheduler plays karmada-scheduler.
"""

import base64
import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
import requests
from charts.assets import helm_binary
from e2e import karmada
from e2e.assets import binary
from e2e.chart import Installation
from e2e.control_plane import HOST, ControlPlane, crd_folder
from e2e.hooks import JobRunner
from e2e.installed import kubeconfig_secret
from e2e.manifests import JSON, cluster_propagation_policy
from e2e.played_karmada import PlayedKarmada
from e2e.pods import Pods
from e2e.processes import Processes, wait_for
from e2e.serving import COMMAND, start_controllers
from karmada_model.members import Delays
from karmada_plane import deployment, new_deployment, policy, selector
from page_lines import whole_lines

pytestmark = pytest.mark.e2e

ROOT: Final = Path(__file__).parents[2]
STEPS: Final = re.split(r"^## ", whole_lines((ROOT / "docs" / "adopt.md").read_text()), flags=re.MULTILINE)
# tests/unit/docs follows the part in between, the first fleet file.
FIVE_MINUTES, _, THIRTY_MINUTES = re.split(
    r"^## ", whole_lines((ROOT / "docs" / "start.md").read_text()), flags=re.MULTILINE
)[1:]
CODE: Final = re.compile(r"^```sh\n(.*?)^```|`((?:berthmaster|kubectl|helm) [^`]+)`", re.MULTILINE | re.DOTALL)
LIMIT_S: Final = 120.0
RELEASE, SHOP = "karmada-system", "shop"
TAINT: Final = {"key": "maintenance", "effect": "NoSchedule"}
PLACEMENT: Final = karmada.divided(("first", ["primary"]), ("second", ["backup"]))
WORKLOADS: Final = ("web", "api")
LOOPBACK: Final = {
    "certificates": {f"{component}ExtraNames": [HOST] for component in ("webhook", "extender", "console")},
    "webhook": {"replicas": 1, "workers": 1, "drainSeconds": 0},
    "extender": {"replicas": 1, "drainSeconds": 0},
    "console": {"replicas": 1, "workers": 1, "drainSeconds": 0},
    "certs": {"replicas": 1, "intervalSeconds": 1},
    "controllers": {"leaderElection": {"retrySeconds": 0.5}},
}
"""What processes on loopback need beyond the values of the page, and one replica of each to save time."""
SOON: Final = "--set controllers.moves.config.failback.after=1s --set controllers.moves.config.soak=1s"


def commands(text: str) -> list[str]:
    """Return the commands of a text in their order: the lines of shell blocks, and code within sentences."""
    found = [block.splitlines() or [" ".join(code.split())] for block, code in CODE.findall(text)]
    return [line for lines in found for line in lines]


def parts(step: int) -> tuple[list[str], list[str], list[str]]:
    text, _, back = STEPS[step].partition("**Back**")
    do, _, check = text.partition("**Check**")
    return commands(do), commands(check), commands(back)


class Karmada(PlayedKarmada):
    """Karmada's controllers, two members and karmada-scheduler; one of the members is under maintenance."""

    def __init__(self, plane: ControlPlane) -> None:
        for name in (SHOP, RELEASE):
            plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self.primary = karmada.cluster("primary", taints=[TAINT])
        delays = Delays(apply_s=0.1, start_s=0.5, report_s=0.1, delete_s=0.1)
        super().__init__(plane, [self.primary, karmada.cluster("backup")], delays)

    def bindings(self) -> list[JSON]:
        return self.api.list(karmada.BINDINGS, "ResourceBinding", SHOP)

    def runs(self, cluster: str, scheduler: str) -> bool:
        found = self.bindings()
        assert len(found) == len(WORKLOADS), "not every workload has a binding"
        for each in found:
            assert ([*karmada.assigned(each)], each["spec"]["schedulerName"]) == ([cluster], scheduler)
            assert karmada.condition(each).get("status") == "True"
            health = {one["clusterName"]: one.get("health") for one in each["status"].get("aggregatedStatus") or ()}
            assert health == {cluster: "Healthy"}
        return True

    def copies(self) -> set[str]:
        return {each["metadata"]["uid"] for each in self.api.list("work.karmada.io/v1alpha1", "Work")}


class Newcomer:
    """A person with a shell, the checkout, and the pages.

    Attributes:
        policy: the name of the policy that has the workloads.
    """

    def __init__(self, plane: ControlPlane, pods: Pods, folder: Path) -> None:
        self.policy = "web"
        self._plane, self._pods, self._folder = plane, pods, folder
        self._reader = plane.user("reader", [])
        for each in ("charts", "docs", "examples"):
            (folder / each).symlink_to(ROOT / each)
        (folder / "bin").mkdir()
        for name, tool in (("kubectl", binary("kubectl")), ("helm", helm_binary()), ("berthmaster", COMMAND)):
            (folder / "bin" / name).symlink_to(tool)
        (folder / "loopback.yaml").write_text(json.dumps(LOOPBACK))
        self.write("policies/web.yaml", "web")
        (folder / "policy.yaml").symlink_to("policies/web.yaml")

    def write(self, path: str, name: str, priority: int = 0, **spec: Any) -> None:
        """Write a policy for all workloads, as Karmada's webhook would complete it."""
        selectors = [selector(name=each) for each in WORKLOADS]
        made = policy(name, *selectors, namespace=SHOP, placement=PLACEMENT, priority=priority, **spec)
        (self._folder / path).parent.mkdir(exist_ok=True)
        (self._folder / path).write_text(json.dumps(made))

    def run(self, line: str, more: str = "", *, reads: bool = False) -> str:
        """Return the output of a command of the pages.

        Args:
            line: the command.
            more: what is added to it here.
            reads: whether the user may only read.
        """
        names = {
            "NAMESPACE": SHOP, "NAME": self.policy if "ropagation" in line else "web", "CLUSTER": "backup",
            "YOU": "reader", "REGISTRY": "registry.example", "TIME": datetime.now(UTC).isoformat(),
        }  # fmt: skip

        filled = re.sub(rf"\b({'|'.join(names)})\b", lambda found: names[found[1]], f"{line} {more}")
        if in_pod := re.match(r"kubectl -n karmada-system exec deployment/berthmaster-(\w+) -- berthmaster ", filled):
            probes = [f"--server={self._pods.of('controllers')[0].probe_url}"] if "shadow" in filled else []
            return self._pods.exec(in_pod[1], *filled[in_pod.end() :].split(), *probes)
        environment = {
            "PATH": f"{self._folder / 'bin'}:{os.environ['PATH']}", "HOME": str(self._folder), "USER": "jane",
            "KUBECONFIG": str(self._reader if reads else self._plane.kubeconfig),
        }  # fmt: skip
        done = subprocess.run(
            ["bash", "-c", filled], cwd=self._folder, env=environment,
            capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (filled, done.stdout, done.stderr)
        return done.stdout

    def upgrade(self, line: str, more: str = "") -> None:
        self.run(line, more)
        wait_for("every pod to be ready", self._pods.settled, LIMIT_S)

    def stands_at(self, step: int) -> JSON:
        """Wait until the doctor says that this step is reached. Its commands must be those of the pages."""

        def reached() -> JSON | None:
            found: JSON = json.loads(self.run("berthmaster doctor --adoption -o json"))
            assert found["reached"]["number"] == step, found
            return found

        found = wait_for(f"step {step} in the report of the doctor", reached, LIMIT_S)
        for each in found["steps"]:
            do, _, back = parts(each["number"])
            assert ({*each["do"]} <= {*do}, {*each["back"]} <= {*back}) == (True, True), each
        assert (found["next"] or {"number": None})["number"] == (step + 1 if step < len(STEPS) - 1 else None)
        return found


@pytest.fixture
def children(tmp_path: Path) -> Iterator[Processes]:
    """The processes of a control plane without traces of other tests."""
    folder = tmp_path / "plane"
    folder.mkdir()
    processes = Processes(folder)
    yield processes
    processes.stop_all()


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_a_newcomer_walks_the_steps_of_the_pages_and_back(children: Processes, tmp_path: Path) -> None:
    plane = ControlPlane(children)
    plane.install(crd_folder() / "karmada")
    release = Installation(plane, RELEASE)
    with ExitStack() as running:
        world = running.enter_context(closing(Karmada(plane)))
        plane.api.create(kubeconfig_secret("karmada-kubeconfig", RELEASE, plane.kubeconfig))
        pods = running.enter_context(closing(Pods(release, children, tmp_path)))
        running.enter_context(closing(JobRunner(release, pods, tmp_path)))
        start_controllers(
            children, plane, RELEASE, "--scheduler-name=default-scheduler", "--leader-elect-name=karmada-scheduler",
            "--feature-gates=SchedulingOvercommitProtection=false",
        )  # fmt: skip
        me = Newcomer(plane, pods, tmp_path)
        me.run("kubectl apply -f policies/web.yaml")
        make_workload(plane, "web")
        read_and_review(me)
        webhook_warns(me, plane)
        shadow(me, plane, world)
        hand_over(me, world, "successor", "berthmaster", "backup")
        me.stands_at(5)
        moves(me, world)
        record_and_show(me, plane, pods)
        # And back.
        me.upgrade(*parts(7)[2])
        me.stands_at(6)
        me.upgrade(*parts(6)[2])
        me.stands_at(5)
        hand_over(me, world, "predecessor", "default-scheduler", "primary")
        me.stands_at(3)
        me.upgrade(*parts(4)[2])
        me.stands_at(3)
        me.run(*parts(3)[2])
        me.stands_at(1)
        assert warnings(plane) == ()
        for line in parts(1)[2]:
            me.run(line)
        with pytest.raises(AssertionError):
            me.run(parts(1)[0][-1], reads=True)
        assert pods.faults == []


def make_workload(plane: ControlPlane, name: str) -> None:
    plane.api.create(new_deployment(name, 2, namespace=SHOP))


def read_and_review(me: Newcomer) -> None:
    """Take the steps 1 and 2 with the rights of a reader."""
    for line in parts(1)[0]:
        me.run(line, reads=not line.startswith("kubectl"))
    me.stands_at(1)
    for line in parts(2)[0]:
        me.run(line, reads=True)
    me.stands_at(1)


def webhook_warns(me: Newcomer, plane: ControlPlane) -> None:
    me.upgrade(*parts(3)[0], "--values loopback.yaml")
    assert "Ignore" in me.stands_at(3)["reached"]["found"]
    [warning] = wait_for("a warning", lambda: warnings(plane), LIMIT_S)
    assert "preemption-without-namespace" in warning
    [doctor] = parts(3)[1]
    report = json.loads(me.run(doctor, "-o json || true"))
    failures = {each["check"] for each in report["findings"] if each["verdict"] == "failed"}
    assert failures == {"admission/permanent-id"}, "no part here plays Karmada's webhook"


def warnings(plane: ControlPlane) -> tuple[str, ...]:
    """Return what the API server says about a policy that breaks a rule."""
    wrong = cluster_propagation_policy(preemption="Always", priority=1)
    del wrong["spec"]["resourceSelectors"][0]["namespace"]
    return plane.api.create(wrong, dry_run=True).warnings


def shadow(me: Newcomer, plane: ControlPlane, world: Karmada) -> None:
    """Let the shadow see a new workload and a scaled one."""
    me.upgrade(*parts(4)[0])
    me.stands_at(4)
    make_workload(plane, "api")
    wait_for("all workloads to run", lambda: world.runs("backup", "default-scheduler"), LIMIT_S)
    [report] = parts(4)[1]

    def compared() -> bool:
        return bool(re.search(r"^[1-9]\d* decisions were the same, 0 were different$", me.run(report), re.MULTILINE))

    wait_for("the report", compared, LIMIT_S)


def hand_over(me: Newcomer, world: Karmada, file: str, scheduler: str, cluster: str) -> None:
    """Take step 5, or take it back: replace the policy by one of another scheduler, without a move."""
    do, check, back = parts(5)
    upgrades = [line for line in do if line.startswith("helm")] if file == "successor" else []
    steps = [line for line in (do if file == "successor" else back) if line not in upgrades]
    for line in upgrades:
        me.upgrade(line)
    copies = world.copies()
    me.write(
        f"{file}.yaml", file, **{"successor": {"schedulerName": scheduler, "priority": 1}}.get(file, {"priority": 2})
    )
    for line in steps:
        said = me.run(line)
        assert "nothing moves" in said or not line.startswith("berthmaster plan")
    me.policy = file
    wait_for("the other scheduler", lambda: world.runs(cluster, scheduler), LIMIT_S)
    for line in check:
        me.run(line)
    assert world.copies() == copies


def moves(me: Newcomer, world: Karmada) -> None:
    """End the maintenance: both workloads may return to their first group, one after the other."""
    dry_run, listed, on = parts(6)[0]
    world.api.patch(world.primary, {"spec": {"taints": None}})
    me.upgrade(dry_run, SOON)
    me.stands_at(6)
    wait_for("what would move", lambda: all(each in me.run(listed) for each in WORKLOADS), LIMIT_S)
    assert world.runs("backup", "berthmaster")
    me.upgrade(on)
    # A new leader begins no planned move for a minute, in which the other page is read.
    for line in (*commands(FIVE_MINUTES), *commands(THIRTY_MINUTES)):
        if not line.startswith("make"):
            me.run(line, reads=True)
    wait_for("both to return", lambda: world.runs("primary", "berthmaster"), LIMIT_S)
    [listed_wide] = parts(6)[1]
    assert re.search(r"\bone\b", me.run(listed_wide)), "the budget"
    drained = json.loads(me.run("berthmaster drain primary --timeout=100 -o json"))
    assert drained["left"] == []
    wait_for("what the members report", lambda: world.runs("backup", "berthmaster"), LIMIT_S)
    assert me.run("berthmaster undrain primary") == "cluster/primary no longer drains\n"
    wait_for("both to return again", lambda: world.runs("primary", "berthmaster"), LIMIT_S)


def record_and_show(me: Newcomer, plane: ControlPlane, pods: Pods) -> None:
    secret, upgrade = parts(7)[0]
    me.run(secret)
    me.upgrade(upgrade)
    me.stands_at(7)
    verify, explain = (line for line in parts(7)[1] if "exec" in line)
    plane.api.patch(deployment("web", namespace=SHOP), {"spec": {"replicas": 3}})
    wait_for("the decision on record", lambda: "primary" in me.run(explain), LIMIT_S)
    me.run(verify)
    stored = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "console-visitors", "namespace": RELEASE}}
    token = base64.b64decode(plane.api.get(stored)["data"]["tokens"]).decode().partition(",")[0]
    console = f"https://{HOST}:{pods.fronts['berthmaster-console'].port}"
    with requests.Session() as browser:
        browser.verify = browser.trust_env = False  # as a visitor who accepts the certificate of the Service
        page = browser.get(f"{console}/sign-in", timeout=LIMIT_S).text
        [(name, value)] = re.findall(r'<input type="hidden" name="(\w*token)" value="([^"]+)"', page)
        form = {"token": token, name: value}
        assert browser.post(f"{console}/sign-in", form, timeout=LIMIT_S, allow_redirects=False).status_code == 303
        shown = wait_for(
            "the fleet", lambda: (text := browser.get(console, timeout=LIMIT_S).text) * ("backup" in text), LIMIT_S
        )
    assert "primary" in shown
