"""From release 0.1.0 to this version under load, and back: moves under way, ledgers, certificates, tokens, values.

The sources of release 0.1.0 run with the dependencies of this version.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

import pytest
import requests
import yaml
from charts.assets import helm_binary
from charts.helm import CHART
from e2e import karmada
from e2e.api import RefusedError
from e2e.chart import RELEASE, Installation
from e2e.conftest import needed
from e2e.control_plane import ControlPlane, crd_folder
from e2e.earlier_release import unpacked
from e2e.load import Load
from e2e.manifests import JSON, cluster_propagation_policy, propagation_policy
from e2e.played_karmada import PlayedKarmada
from e2e.postgresql import binaries, postgresql
from e2e.processes import Processes, wait_for
from e2e.registration import registered
from e2e.service import KARMADA_HOOKS, Service
from e2e.serving import COMMAND, Serving, events_about, serve, start_controllers, wait_for_leader
from karmada_model.members import Delays
from karmada_plane import new_deployment, policy, selector

from berthmaster.version import __version__

pytestmark = pytest.mark.e2e

LIMIT_S: Final = 90.0
SHOP: Final = "shop"
APPS: Final = ("api", "cart", "mail", "web")
LOST: Final = "nowhere"
"""A workload that fits no cluster."""
FIRST, SECOND, THIRD = ("m1", "m2"), ("m3", "m4"), ("m5", "m6")
PLACEMENT: Final = {
    **karmada.divided(("first", [*FIRST]), ("second", [*SECOND]), ("third", [*THIRD])),
    "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 2, "maxGroups": 2}],
}
"""One copy on each cluster of a group. If one is lost, the healthy copy stays until both new ones are healthy."""
CONTRADICTION: Final = {"clusterAffinity": {}, "clusterAffinities": [{"affinityName": "any"}]}
MOVES: Final = {
    "apiVersion": "berthmaster.io/v1alpha1",
    "kind": "MovesConfiguration",
    "soak": "6s",
    "brake": {"enabled": False},
}
"""The soak is so long that the moves are under way when the leader changes."""
OPTIONS: Final = (
    "--controllers=binding-scheduler", "--scheduler-name=berthmaster", "--failover=not-ready",
    "--failover-toleration-s=1",
)  # fmt: skip
"""Only a failover may begin in the first minute of a leader."""


Command = tuple[str | Path, ...]


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the sources of release 0.1.0."""
    return unpacked(tmp_path_factory.mktemp("release-0.1.0"))


def command_of(old: Path) -> tuple[str, ...]:
    """The command ``berthmaster`` of a folder of sources."""
    return ("/usr/bin/env", f"PYTHONPATH={old}", sys.executable, "-P", "-m", "berthmaster_cli.main")


def said(command: Command, *words: str, code: int = 0) -> str:
    """What a command prints."""
    done = subprocess.run(
        [*command, *words], cwd="/", capture_output=True, text=True, timeout=LIMIT_S, check=False
    )  # fmt: skip
    assert done.returncode == code, (words, done.stdout, done.stderr)
    return done.stdout + done.stderr


@pytest.fixture
def children(tmp_path: Path) -> Iterator[Processes]:
    """The processes of a control plane without traces of other tests."""
    folder = tmp_path / "plane"
    folder.mkdir()
    processes = Processes(folder)
    yield processes
    processes.stop_all()


@pytest.fixture
def plane(children: Processes) -> ControlPlane:
    made = ControlPlane(children)
    made.install(crd_folder() / "karmada")
    made.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SHOP}})
    return made


class Fleet:
    """Three groups of members, some workloads, and the controllers of one release after the other."""

    def __init__(self, plane: ControlPlane, processes: Processes, folder: Path) -> None:
        self.plane, self.processes = plane, processes
        self.ledger = f"sqlite:///{folder}/ledger.sqlite"
        self.config = folder / "moves.yaml"
        self.config.write_text(yaml.safe_dump(MOVES))
        delays = Delays(apply_s=0.1, start_s=1.0, report_s=0.1, delete_s=0.1, detect_s=0.5)
        self.world = PlayedKarmada(plane, [karmada.cluster(each) for each in (*FIRST, *SECOND, *THIRD)], delays)
        self.leader: Serving | None = None

    def close(self) -> None:
        self.world.close()

    def start(self, command: Command) -> Serving:
        return start_controllers(
            self.processes, self.plane, SHOP, *OPTIONS, f"--moves-config={self.config}", f"--ledger={self.ledger}",
            command=(*command, "controllers"),
        )  # fmt: skip

    def replace(self, command: Command) -> None:
        """Replace the process of the controllers as a Deployment does: the next one is ready before the last ends."""
        following = self.start(command)
        if self.leader is not None:
            self.leader.process.stop()
        self.leader = wait_for_leader([following], LIMIT_S)

    def run(self) -> None:
        for name in APPS:
            self.plane.api.create(policy(name, selector(name=name), placement=PLACEMENT, schedulerName="berthmaster"))
            self.plane.api.create(new_deployment(name, 2, namespace=SHOP))
        nowhere = karmada.divided(("one", ["m8"]), ("other", ["m9"]))
        self.plane.api.create(policy(LOST, selector(name=LOST), placement=nowhere, schedulerName="berthmaster"))
        self.plane.api.create(new_deployment(LOST, 2, namespace=SHOP))

    def bindings(self) -> dict[str, JSON]:
        found = self.plane.api.list(karmada.BINDINGS, "ResourceBinding", SHOP)
        return {each["spec"]["resource"]["name"]: each for each in found}

    def phases(self) -> set[str]:
        """The phases of all moves; one that has ended has none."""
        states = [
            each["metadata"].get("annotations", {}).get("policy.berthmaster.io/move", "{}")
            for name, each in self.bindings().items()
            if name != LOST
        ]
        return {json.loads(each).get("phase", "") for each in states}

    def all_run_on(self, group: tuple[str, str]) -> bool:
        found = self.bindings()
        assert found.keys() >= {*APPS}
        for name in APPS:
            assert karmada.assigned(found[name]) == dict.fromkeys(group, 1), name
            reported = found[name].get("status", {}).get("aggregatedStatus") or ()
            health = {each["clusterName"]: each.get("health") for each in reported}
            assert all(health.get(each) == "Healthy" for each in group), (name, health)
        return True

    def lose(self, name: str, group: tuple[str, str]) -> None:
        """Lose a cluster, and wait until the moves of all workloads to a group have begun."""
        self.world.change(lambda members: members.lose(name))
        wait_for(f"all moves to {group}", lambda: self.all_assigned_to(group), LIMIT_S)

    def all_assigned_to(self, group: tuple[str, str]) -> bool:
        found = self.bindings()
        return all(karmada.assigned(found[name]).keys() >= {*group} for name in APPS)

    def moves(self) -> dict[str, list[str]]:
        """The reasons of the events about moves, by workload, the oldest first."""
        return {
            name: [
                each["reason"]
                for each in events_about(self.plane.api, SHOP, self.bindings()[name]["metadata"]["name"])
                if each["reason"].startswith("Move")
            ]
            for name in APPS
        }


@pytest.fixture
def fleet(plane: ControlPlane, children: Processes, tmp_path: Path) -> Iterator[Fleet]:
    with closing(Fleet(plane, children, tmp_path)) as made:
        yield made


@pytest.fixture
def notes(tmp_path: Path) -> Iterator[str]:
    """The ledger of the webhooks, in PostgreSQL if it is installed."""
    if binaries() is None:
        yield f"sqlite:///{tmp_path}/notes.sqlite"
        return
    tmp_path.chmod(0o755)
    with ExitStack() as stack:
        yield stack.enter_context(postgresql(Path(f"/tmp/{tmp_path.name}-{id(stack)}")))  # noqa: S108 - short for a socket


def test_an_upgrade_and_back_under_load(
    fleet: Fleet, plane: ControlPlane, children: Processes, old: Path, notes: str, tmp_path: Path
) -> None:
    before, after = command_of(old), (COMMAND,)
    assert said(before, "--version").split()[1] == "0.1.0"
    fleet.replace(before)
    with closing(Service(children, tmp_path, "standalone")) as service:
        replicas = [service.start(f"--ledger={notes}", command=before)]
        samples = [propagation_policy(SHOP), cluster_propagation_policy()]
        with registered(plane, KARMADA_HOOKS, service.url, service.authority.certificate, samples):
            fleet.run()
            wait_for("all to run", lambda: fleet.all_run_on(FIRST), LIMIT_S)
            for lost, other, command in ((FIRST[0], SECOND, after), (SECOND[0], THIRD, before)):
                with pytest.raises(RefusedError):
                    plane.api.create(propagation_policy(SHOP, placement=CONTRADICTION))
                fleet.lose(lost, other)
                with Load(plane.api, lambda: propagation_policy(SHOP)) as load:
                    load.more(5)
                    replicas.append(service.start(f"--ledger={notes}", command=command))
                    service.retire(replicas.pop(0))
                    fleet.replace(command)
                    load.more(5)
                assert not load.failures, load.report()
                wait_for("all to run elsewhere", lambda other=other: fleet.all_run_on(other), LIMIT_S)
                wait_for("the ends of the moves", lambda: not fleet.phases() & {"Surging", "Soaking"}, LIMIT_S)
    once = ["MoveStarted", "MoveHealthy", "MoveReleased"]
    assert fleet.moves() == dict.fromkeys(APPS, once * 2), "a move was lost, or begun twice"
    for command in (before, after):
        for url in (fleet.ledger, notes):
            assert json.loads(said(command, "ledger", "verify", f"--ledger={url}", "--output=json"))["problems"] == []
    replayed = json.loads(said(after, "replay", f"--ledger={fleet.ledger}", "--output=json"))
    assert replayed["decisions"] > len(APPS)
    # Since 0.2.0, messages begin with Karmada's words, and the records of moves have more fields.
    assert {field for each in replayed["differences"] for field in each["differences"]} == {"message", "annotations"}
    assert all(each["recorded"] == each["now"] for each in replayed["differences"])


def test_a_setting_that_the_earlier_release_does_not_know_is_refused_by_name(
    control_plane: ControlPlane, processes: Processes, old: Path, namespace: str, tmp_path: Path
) -> None:
    config = tmp_path / "moves.yaml"
    config.write_text(yaml.safe_dump({**MOVES, "volumes": "MayBeLost"}))
    controllers = start_controllers(
        processes, control_plane, namespace, *OPTIONS, f"--moves-config={config}",
        command=(*command_of(old), "controllers"), wait=False,
    )  # fmt: skip

    def complaint() -> list[str]:
        return [line for line in controllers.process.log.read_text().splitlines() if "volumes: unknown field" in line]

    assert controllers.process.wait_for("to refuse the setting", complaint, LIMIT_S)
    controllers.process.stop()


def test_certificates_of_one_release_are_those_of_the_other(
    control_plane: ControlPlane, old: Path, namespace: str
) -> None:
    secrets = [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}}
        for name in ("authority", "webhook")
    ]
    words = (
        "certs", "bootstrap", f"--kubeconfig={control_plane.kubeconfig}", f"--namespace={namespace}",
        "--authority-secret=authority", "--serving=webhook=webhook.example",
    )  # fmt: skip
    contents = []
    for command in (command_of(old), (COMMAND,), command_of(old)):
        said(command, *words)
        contents.append([control_plane.api.get(each)["data"] for each in secrets])
    assert contents[0] == contents[1] == contents[2]


def test_an_extender_of_either_release_takes_the_same_tokens(processes: Processes, old: Path, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("a-token-of-enough-length,webhook\n")
    (tmp_path / "clusters.yaml").write_text(yaml.safe_dump(karmada.cluster("m1")))
    for command in (command_of(old), (COMMAND,)):
        extender = serve(
            processes, "extender", (*command, "extender"), f"--token-file={tmp_path / 'tokens'}",
            "-f", str(tmp_path / "clusters.yaml"),
        )  # fmt: skip
        statuses = [
            requests.get(f"{extender.url}/v1/clusters", headers=headers, timeout=LIMIT_S).status_code
            for headers in ({"Authorization": "Bearer a-token-of-enough-length"}, {})
        ]
        extender.process.stop()
        assert statuses == [200, 401]


def test_helm_upgrades_the_chart_of_the_earlier_release_with_its_values(
    control_plane: ControlPlane, old: Path, namespace: str
) -> None:
    needed(helm_binary)
    release = Installation(control_plane, namespace)
    values = {"mode": "single", "webhook": {"replicas": 3}, "extender": {"enabled": True, "auth": {"insecure": True}}}
    release.helm("install", RELEASE, str(old / "charts" / "berthmaster"), "--no-hooks", "--values=-", values=values)
    webhook = {
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": f"{RELEASE}-webhook", "namespace": namespace},
    }  # fmt: skip
    before = control_plane.api.get(webhook)
    release.helm("upgrade", RELEASE, str(CHART), "--no-hooks", "--reset-then-reuse-values")
    after = control_plane.api.get(webhook)
    version = "app.kubernetes.io/version"
    assert (before["metadata"]["labels"][version], after["metadata"]["labels"][version]) == ("0.1.0", __version__)
    assert after["spec"]["replicas"] == before["spec"]["replicas"] == 3
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    release.helm("rollback", RELEASE, "--no-hooks")
    assert control_plane.api.get(webhook)["metadata"]["labels"][version] == "0.1.0"
    release.uninstall()
