"""Random control planes that lose or delete a cluster: what a simulation says before, beside what then happens.

The control plane is the model of Karmada with one scheduler, in memory and on the thread of the test. Every difference
is a sentence in the result of ``LostFleet.differences``.
"""

import random
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from edited_fleet import KARMADA_SCHEDULER, decide_as_karmada, deduct_nothing
from karmada_model.members import Delays
from karmada_model.model import Settings
from karmada_model.objects import stamp
from karmada_model.stage import SCHEDULER, Stage
from karmada_plane import cluster, deployment, policy, selector
from kube_store import JSON

from berthmaster.controllers.settings import ControllerSettings
from berthmaster.deciding.lease_record import ControllersRecord
from berthmaster.manifests import Document, manifests_of
from berthmaster.model.binding import Binding
from berthmaster.model.decode import convert
from berthmaster.model.move import as_moved
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.pending_replicas import LIFETIME_S
from berthmaster.simulation.change_set import ChangeSet
from berthmaster.simulation.changes import Down, RemoveCluster
from berthmaster.simulation.losses import loss_of
from berthmaster.simulation.plan_answer import Switch, assumptions
from berthmaster.simulation.planner import Simulation, simulated
from berthmaster.simulation.world import world_of

_ONLY: Final = ("garbage", "detector", "bindings", "evictions", "clusters", "taints", "members")
_KINDS: Final = ("Cluster", "PropagationPolicy", "ResourceBinding", "Deployment")
_PROFILE: Final = karmada_profile()
_TOLERATION_S: Final = 30.0
_TOLERATIONS: Final[tuple[list[JSON], ...]] = (
    [], [], [],
    [{"operator": "Exists"}],
    [{"operator": "Exists", "tolerationSeconds": 60}],
    [{"key": "cluster.karmada.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}],
    [{"key": "other", "operator": "Exists"}],
)  # fmt: skip
_REMOVED: Final = "removed"
_SHORT_OF_THE_END_OF_EVICTIONS_S: Final = 500
"""A simulation ends before eviction tasks time out. A duplicated workload may then return to a cluster it tolerates."""
MODES: Final = (*Switch, _REMOVED)


class LostFleet:
    """A random control plane, and the loss or the deletion of one of its clusters.

    Args:
        seed: of everything random.
        mode: ``auto``, ``on`` or ``off``; or ``removed`` to delete the cluster.
        own: whether Berthmaster's scheduler decides, with a random failover. Otherwise it plays karmada-scheduler.

    Attributes:
        cases: how many workloads of each kind were compared.
    """

    def __init__(self, seed: int, mode: str, *, own: bool) -> None:
        self._draw = random.Random(f"{seed}-{mode}-{own}")
        self._mode, self._own = mode, own
        self._fails_over = own and mode == "auto" and self._draw.random() < 0.7
        self._evicts = mode == "on"
        self._scheduler = SCHEDULER if own else KARMADA_SCHEDULER
        self.cases: Counter[str] = Counter()
        self._clusters = [
            cluster(f"m{number}", self._draw.randint(4, 30), env=self._draw.choice(("prod", "stage")))
            for number in range(self._draw.randint(3, 5))
        ]
        self._templates = [deployment(f"w{number}", self._draw.randint(1, 6)) for number in range(6)]
        self.stage = Stage(
            *self._clusters,
            *(self._policy(each) for each in self._templates),
            *self._templates,
            karmada=Settings(evicts=self._evicts, delays=Delays(0, 0, 0, 0, 0)),
            settings=ControllerSettings(
                scheduler_name=self._scheduler,
                failover="not-ready" if self._fails_over else "off",
                failover_toleration_s=_TOLERATION_S,
            ),
            only=_ONLY,
        )
        if not own:
            deduct_nothing(self.stage)
            decide_as_karmada(self.stage)
        self.stage.settle()
        self._disturb()

    def differences(self) -> list[str]:
        """Simulate the loss of a cluster, do it, and return how what happens differs from the simulation."""
        self.stage.run(2 * LIFETIME_S)  # after that no replicas are pending, which no simulation can know
        before = {each["metadata"]["name"]: self._assignment(each) for each in self._templates}
        lost = self._draw.choice(sorted({name for each in before.values() for name in each} or {"m0"}))
        found = self._simulated(lost)
        self._lose(lost)
        self.stage.run(_SHORT_OF_THE_END_OF_EVICTIONS_S)
        return [*self._moves(found, lost, before), *self._hangs(found, lost)]

    # What is random

    def _policy(self, template: JSON) -> JSON:
        draw, name = self._draw, template["metadata"]["name"]
        placement: JSON = {"clusterTolerations": draw.choice(_TOLERATIONS)}
        names = [each["metadata"]["name"] for each in self._clusters]
        match draw.randrange(4):
            case 0:
                placement["clusterAffinity"] = {
                    "labelSelector": {"matchLabels": {"env": draw.choice(("prod", "stage"))}}
                }
            case 1:
                placement["clusterAffinity"] = {"clusterNames": draw.sample(names, draw.randint(1, len(names)))}
            case 2:
                placement["clusterAffinities"] = [
                    {"affinityName": f"g{number}", "clusterNames": draw.sample(names, draw.randint(1, 2))}
                    for number in range(2)
                ]
        divided = {"replicaSchedulingType": "Divided"}
        placement["replicaScheduling"] = draw.choice(
            [
                {"replicaSchedulingType": "Duplicated"},
                {**divided, "replicaDivisionPreference": "Aggregated"},
                {**divided, "replicaDivisionPreference": "Weighted"},
                {**divided, "replicaDivisionPreference": "Weighted", "weightPreference": {
                    "dynamicWeight": "AvailableReplicas"}},
            ]
        )  # fmt: skip
        return policy(f"p-{name}", selector(name=name), placement=placement, schedulerName=self._scheduler)

    def _disturb(self) -> None:
        """Suspend the scheduling of some workloads, and take labels off clusters after the placement."""
        for template in self._templates:
            if self._draw.random() < 0.2:
                self.stage.edit(self.stage.binding(template) or {}, spec={"suspension": {"scheduling": True}})
        for each in self._clusters:
            if self._draw.random() < 0.3:
                self.stage.edit(each, metadata={"labels": {"env": None}})
        self.stage.settle()

    # What a simulation says

    def _simulated(self, lost: str) -> Simulation:
        objects = self.stage.model.objects
        documents = [Document(kind, 0, "", dict(each)) for kind in _KINDS for each in objects.all(kind)]
        manifests = manifests_of(documents, "the model")
        record = ControllersRecord(self._scheduler, _TOLERATION_S if self._fails_over else None)
        asked = Switch.AUTO if self._mode == _REMOVED else Switch(self._mode)
        assumed = assumptions(asked, Switch.OFF, record if self._own else None, manifests.bindings)
        world = world_of(manifests, schedulers={self._scheduler}, assumptions=assumed)
        change = RemoveCluster(lost) if self._mode == _REMOVED else Down(lost)
        return simulated(world, ChangeSet(edits=(change,)), _PROFILE, self.stage.clock.now())

    # What happens

    def _lose(self, name: str) -> None:
        stored = next(each for each in self._clusters if each["metadata"]["name"] == name)
        if self._mode == _REMOVED:
            self.stage.delete(stored)
            return
        self.stage.edit(stored, status={"conditions": [{"type": "Ready", "status": "False"}]})
        if self._evicts:
            taint = {"key": "cluster.karmada.io/not-ready", "effect": "NoExecute", "timeAdded": self._now()}
            known = (self.stage.get(stored) or {}).get("spec", {}).get("taints") or []
            self.stage.edit(stored, spec={"taints": [*known, taint]})

    def _now(self) -> str:
        now: datetime = self.stage.clock.now()
        return stamp(now)

    def _assignment(self, template: JSON) -> dict[str, int]:
        """Return where a workload goes. A move under way ends well."""
        found: Any = self.stage.binding(template)
        return as_moved(convert(Binding, found)).assignment if found is not None else {}

    def _moves(self, found: Simulation, lost: str, before: dict[str, dict[str, int]]) -> Iterator[str]:
        planned = {str(each.after.workload.resource.name): each for each in found.workloads}
        for template in self._templates:
            name = template["metadata"]["name"]
            says, happens = planned[name].after.assignment, self._assignment(template)
            held = lost in before[name]
            self.cases[
                f"{'holds' if held else 'not on'} the cluster, {'moves' if happens != before[name] else 'stays'}"
            ] += 1
            if says != happens:
                yield f"{name}: on {before[name]}, {lost} is gone; simulated {says}, happened {happens}"

    def _hangs(self, found: Simulation, lost: str) -> Iterator[str]:
        if self._mode != _REMOVED:
            return
        hanging = sorted(loss_of(found.workloads, found.hosts).hanging.get(lost, []))
        objects = self.stage.model.objects
        exists = any(each["metadata"]["name"] == lost for each in objects.all("Cluster"))
        self.cases["the cluster stays in deletion" if exists else "the cluster is gone"] += 1
        if exists != bool(hanging):
            yield f"{lost}: {'exists' if exists else 'is gone'}; simulated: {hanging} hold it"
        works = [each for each in objects.all("Work") if each["metadata"]["namespace"] == f"karmada-es-{lost}"]
        if works and not hanging:
            yield f"{lost}: has Works {works}"
