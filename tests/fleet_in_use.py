"""Random control planes in use, in every state that bindings and clusters can have, and what schedulers then do.

Karmada's controllers are modelled, in memory and on the thread of the test. Templates and policies are placed first.
Then things happen while no scheduler runs: clusters go, fail and are drained, bindings name clusters that do not exist,
evictions are under way, dispatching or scheduling is suspended, workloads have no replicas, moves are on the way. The
schedulers start again, and what they then do is compared with the answer of a simulation without changes.
"""

import random
from collections import Counter
from typing import Any, Final

from edited_fleet import KARMADA_SCHEDULER, decide_as_karmada, deduct_nothing
from karmada_model.members import Delays
from karmada_model.model import Settings
from karmada_model.objects import stamp
from karmada_model.stage import SCHEDULER, Stage
from karmada_plane import cluster, deployment, policy, selector
from kube_store import JSON

from berthmaster.controllers.settings import ControllerSettings
from berthmaster.deciding.config import DEFAULT_MOVES, MovesConfig
from berthmaster.deciding.lease_record import ControllersRecord, SourcesRecord
from berthmaster.deciding.move_settings import MoveSettings, SourceSettings
from berthmaster.manifests import Document, manifests_of
from berthmaster.manifests.snapshot import FleetSnapshot
from berthmaster.model.binding import Binding
from berthmaster.model.decode import convert
from berthmaster.model.move import DRAINING, MOVE, MoveStrategy, as_moved
from berthmaster.model.policy import Policy
from berthmaster.model.policy_defaults import defaulted
from berthmaster.scheduling.fleet import fleet_of
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.simulation.plan_answer import Switch, assumptions
from berthmaster.simulation.results import WorkloadResult
from berthmaster.simulation.retries import misses_deletion
from berthmaster.simulation.scheduling_cycle import run
from berthmaster.simulation.workload import NotScheduled
from berthmaster.simulation.world import World, world_of

KINDS: Final = ("Cluster", "PropagationPolicy", "OverridePolicy", "ResourceBinding", "Deployment")
REGIONS: Final = ("eu", "us")
GONE: Final = "gone"
"""The name of a cluster whose object does not exist."""
_ONLY: Final = ("garbage", "detector", "bindings", "clusters", "members", "status")
"""Eviction tasks do not end: a simulation does not wait for that."""
_TOLERATION_S: Final = 30.0
_REST_S: Final = 2000.0
"""How long the schedulers work. Moves under way end within this time."""
_KNOWN_S: Final = 90.0
"""After this time the control plane knows that a cluster has failed."""
_PURGE_MODES: Final = ("Gracefully", "Directly", "Immediately", "Graciously", "Never")
_DIVIDED: Final = {"replicaSchedulingType": "Divided"}
_STRATEGIES: Final[tuple[JSON, ...]] = (
    {"replicaSchedulingType": "Duplicated"},
    {**_DIVIDED, "replicaDivisionPreference": "Aggregated"},
    {**_DIVIDED, "replicaDivisionPreference": "Weighted"},
    {
        **_DIVIDED, "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"},
    },
)  # fmt: skip
_PROFILE: Final = karmada_profile()


class FleetInUse:
    """A random control plane in use.

    Args:
        seed: of everything random.
        own: whether Berthmaster's scheduler decides, or karmada-scheduler by its rules.

    Attributes:
        record, sources: what the controllers record on their Lease; None for karmada-scheduler.
        cases: how many workloads of each kind were compared.
    """

    def __init__(self, seed: int, *, own: bool) -> None:
        self._draw = random.Random(f"{seed}-{own}")
        self._own = own
        self._scheduler = SCHEDULER if own else KARMADA_SCHEDULER
        self._fails_over = own and self._draw.random() < 0.5
        self.record = ControllersRecord(self._scheduler, _TOLERATION_S if self._fails_over else None) if own else None
        self.cases: Counter[str] = Counter()
        self.clusters = [self._cluster(number) for number in range(self._draw.randint(3, 5))]
        self.templates = [deployment(f"w{number}", self._draw.randint(0, 6)) for number in range(6)]
        self.policies = [self._policy(each) for each in self.templates]
        settings = MoveSettings(
            failback=SourceSettings("Off"), drain=SourceSettings("On", 0, 0), soak_s=20, deadline_s=600,
            strategy=self._draw.choice(tuple(MoveStrategy)),
        )  # fmt: skip
        moves = MovesConfig(defaults=settings) if own else None
        self.sources = SourcesRecord.of(moves) if moves is not None else None
        self.stage = Stage(
            *self.clusters,
            *self.policies,
            *self.templates,
            karmada=Settings(delays=Delays(0, 0, 0, 0, 0)),
            settings=ControllerSettings(
                scheduler_name=self._scheduler,
                failover="not-ready" if self._fails_over else "off",
                failover_toleration_s=_TOLERATION_S,
            ),
            only=_ONLY,
            moves=moves,
        )
        self.stage.run(60)
        self._happen()

    def world(self, failover: Switch = Switch.AUTO) -> World:
        """Return the control plane as a simulation reads it."""
        manifests = manifests_of(self.documents(), "the model")
        assumed = assumptions(failover, Switch.OFF, self.record, manifests.bindings)
        moves = self.sources.config if self.sources is not None else DEFAULT_MOVES
        return world_of(manifests, schedulers={self._scheduler}, assumptions=assumed, moves=moves)

    def documents(self) -> list[Document]:
        """Return the objects of the control plane as a dump has them."""
        objects = self.stage.model.objects
        snapshot = FleetSnapshot("the model", self.stage.clock.now())
        found = [Document(kind, 0, "", dict(each)) for kind in KINDS for each in objects.all(kind)]
        return [Document("", 0, "", snapshot.manifest()), *found]

    def edited_policies(self) -> list[Policy]:
        """Return some of the policies with other placements."""
        chosen = self._draw.sample(self.templates, 3)
        return [defaulted(convert(Policy, self._policy(each))) for each in chosen]

    def files(self) -> World:
        """Return the clusters, policies and templates as files that no control plane has stored."""
        objects = (*self.clusters, *self.policies, *self.templates)
        documents = [Document(each["kind"], 0, "", dict(each)) for each in objects]
        return world_of(manifests_of(documents, "files"), schedulers={self._scheduler})

    def differences(self) -> list[str]:
        """Simulate without changes, let the schedulers work, and return how their results differ."""
        before = {each["metadata"]["name"]: self.stage.assignment(each) for each in self.templates}
        texts = {each["metadata"]["name"]: self.stage.binding(each) for each in self.templates}
        world = self.world()
        _, results = run(world, _PROFILE, self.stage.clock.now())
        self.start_schedulers()
        self.rest()
        found = []
        for result in results:
            name = result.workload.resource.name
            template = next(each for each in self.templates if each["metadata"]["name"] == name)
            # A move that waits without end says where its copies are. Any other ends well.
            happens = self.stage.assignment(template) if result.as_is else self.assignment(template)
            returned = self._returned(template, texts[name])
            unsure = returned - result.assignment.keys()
            happens = {each: count for each, count in happens.items() if each not in unsure}
            waits = self._waits_for_a_restart(result, world)
            self.cases["moves" if happens != before[name] else "stays"] += 1
            if waits:
                continue  # a scheduler that starts again tries it, which a simulation does not assume
            if happens != result.assignment:
                found.append(
                    f"{name}: on {before[name]}; simulated {result.assignment} ({result.trigger.value}), "
                    f"happened {happens}\n  {texts[name]}"
                )
        return found

    def _returned(self, template: JSON, before: JSON | None) -> set[str]:
        """Return the clusters that evicted a duplicated workload, which may have returned once the eviction ended.

        A simulation takes the evictions as they are. After the end of one, any event lets the workload return.
        """
        scheduling = ((before or {}).get("spec", {}).get("placement") or {}).get("replicaScheduling") or {}
        if scheduling.get("replicaSchedulingType") != "Duplicated":
            return set()
        return _evicting(before) - _evicting(self.stage.binding(template))

    def start_schedulers(self) -> None:
        """Start the schedulers again, which have not run since things happened."""
        self.stage.restart_scheduler()
        deduct_nothing(self.stage)
        if not self._own:
            decide_as_karmada(self.stage)

    def go_on(self) -> None:
        """Let the schedulers work for a while, and then let more things happen while none runs.

        Replicas are then assigned to clusters where something keeps them from running.
        """
        self.start_schedulers()
        self.stage.run(self._draw.choice((2.0, 60.0)))
        self.stage.scheduler = None
        self._happen()

    def rest(self) -> None:
        """Let everything come to rest."""
        self.stage.run(_REST_S)
        for each in self.clusters:  # duplicated workloads are scheduled at every event: let there be one
            if self.stage.get(each) is not None:
                self.stage.edit(each, metadata={"labels": {"seen": "true"}})
        self.stage.run(_KNOWN_S)

    def waiting_for_a_restart(self, world: World) -> set[str]:
        """Return the names of the workloads that only the next start of the schedulers makes them look at."""
        _, results = run(world, _PROFILE, self.stage.clock.now())
        return {each.workload.resource.name for each in results if self._waits_for_a_restart(each, world)}

    def _waits_for_a_restart(self, result: WorkloadResult, world: World) -> bool:
        """Return whether nothing but its next start makes karmada-scheduler look at a workload."""
        if result.unscheduled is not None and result.unscheduled.reason is NotScheduled.NOT_RETRIED:
            return True
        binding = result.workload.binding
        return not self._own and binding is not None and misses_deletion(binding, fleet_of(world.clusters.values()))

    # What is random

    def _cluster(self, number: int) -> JSON:
        made = cluster(f"m{number}", self._draw.randint(4, 30), env=self._draw.choice(("prod", "stage")))
        made["spec"]["region"] = REGIONS[number % 2]
        return made

    def _policy(self, template: JSON) -> JSON:
        draw, name = self._draw, template["metadata"]["name"]
        placement: JSON = {"replicaScheduling": draw.choice(_STRATEGIES)}
        names = [each["metadata"]["name"] for each in self.clusters]
        match draw.randrange(4):
            case 0:
                labels = {"matchLabels": {"env": draw.choice(("prod", "stage"))}}
                placement["clusterAffinity"] = {"labelSelector": labels}
            case 1:
                placement["clusterAffinity"] = {"clusterNames": draw.sample(names, draw.randint(1, len(names)))}
            case 2:
                placement["clusterAffinities"] = [
                    {"affinityName": f"g{group}", "clusterNames": draw.sample(names, draw.randint(1, 2))}
                    for group in range(2)
                ]
        return policy(
            f"p-{name}",
            selector(name=name),
            placement=placement,
            schedulerName=self._scheduler,
            **({"activationPreference": "Lazy"} if draw.random() < 0.2 else {}),
        )

    def _happen(self) -> None:
        """Let things happen while no scheduler runs; at last some with a scheduler, so that moves are under way."""
        if self._own and self._draw.random() < 0.4:
            drained = self._drain()
            self.stage.run(self._draw.choice((2.0, 15.0, 40.0)))
            if self.stage.get(drained) is not None:
                self.stage.edit(drained, spec={"taints": None})  # a simulation begins no moves
        self.stage.scheduler = None
        moves = any(map(self._moves, self.templates))
        # With moves under way one thing happens: after several, what a move does first decides the rest.
        in_clusters = self._draw.random() < 0.5
        for template in self.templates if not (moves and in_clusters) else ():
            happenings = [
                self._names_gone_cluster, self._gives_up, self._scale, self._scale_to_zero, self._evict, self._suspend,
                self._suspend_dispatching, self._request, self._edit_placement,
            ]  # fmt: skip
            most = 1 if self._moves(template) else 2
            for each in self._draw.sample(happenings, min(most, self._draw.choice((0, 1, 1, 2)))):
                each(template)
        for _ in range(self._draw.choice((0, 1, 1, 2)) if not moves or in_clusters else 0):
            self._draw.choice((self._fail, self._delete, self._relabel, self._taint))()
        self.stage.run(_KNOWN_S)

    def _moves(self, template: JSON) -> bool:
        return MOVE in (self._binding(template).get("metadata", {}).get("annotations") or {})

    def _binding(self, template: JSON) -> JSON:
        return self.stage.binding(template) or {"spec": {}, "status": {}}

    def _names_gone_cluster(self, template: JSON) -> None:
        """Let a binding name a cluster whose object does not exist, often with the right number of replicas."""
        binding = self._binding(template)
        clusters = binding["spec"].get("clusters") or []
        if not clusters or "gone" in {each["name"] for each in clusters}:
            return
        if self._draw.random() < 0.3:
            self.stage.edit(binding, spec={"clusters": [*clusters, {"name": GONE, "replicas": 1}]})
            return
        moved = self._draw.randrange(len(clusters))
        kept = [each for number, each in enumerate(clusters) if number != moved]
        self.stage.edit(binding, spec={"clusters": [*kept, {**clusters[moved], "name": GONE}]})

    def _gives_up(self, template: JSON) -> None:
        binding = self._binding(template)
        condition = {
            "type": "Scheduled", "status": "False", "reason": "NoClusterFit", "message": "none fits",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }  # fmt: skip
        if "metadata" in binding:
            self.stage.edit(binding, spec={"clusters": None}, status={"conditions": [condition]})

    def _scale(self, template: JSON) -> None:
        self.stage.scale(template, self._draw.randint(0, 8))

    def _scale_to_zero(self, template: JSON) -> None:
        self.stage.scale(template, 0)

    def _evict(self, template: JSON) -> None:
        binding = self._binding(template)
        clusters = binding["spec"].get("clusters") or []
        if not clusters:
            return
        name = self._draw.choice(clusters)["name"]
        task = {
            "fromCluster": name, "reason": "Test", "producer": "Test", "purgeMode": self._draw.choice(_PURGE_MODES),
            "creationTimestamp": self._now(),
        }  # fmt: skip
        left = [each for each in clusters if each["name"] != name]
        tasks = [*(binding["spec"].get("gracefulEvictionTasks") or ()), task]
        self.stage.edit(binding, spec={"clusters": left, "gracefulEvictionTasks": tasks})

    def _suspend(self, template: JSON) -> None:
        if "metadata" in (binding := self._binding(template)):
            self.stage.edit(binding, spec={"suspension": {"scheduling": True}})

    def _suspend_dispatching(self, template: JSON) -> None:
        names = [each["metadata"]["name"] for each in self.clusters]
        everywhere = self._draw.random() < 0.5
        on = {"dispatchingOnClusters": {"clusterNames": self._draw.sample(names, 1)}}
        held = self._policy_of(template)
        self.stage.edit(held, spec={"suspension": {"dispatching": True} if everywhere else on})

    def _request(self, template: JSON) -> None:
        if "metadata" in (binding := self._binding(template)):
            self.stage.edit(binding, spec={"rescheduleTriggeredAt": self._now()})

    def _edit_placement(self, template: JSON) -> None:
        self.stage.edit(self._policy_of(template), spec={"placement": None})
        self.stage.edit(self._policy_of(template), spec={"placement": self._policy(template)["spec"]["placement"]})

    def _policy_of(self, template: JSON) -> JSON:
        return next(each for each in self.policies if each["metadata"]["name"] == f"p-{template['metadata']['name']}")

    def _drain(self) -> JSON:
        return self._add_taint({"key": DRAINING, "effect": "NoSchedule"})

    def _taint(self) -> None:
        self._add_taint({"key": "hold", "effect": "NoSchedule"})

    def _add_taint(self, taint: JSON) -> JSON:
        chosen = self._draw.choice(self._present())
        known = (self.stage.get(chosen) or {}).get("spec", {}).get("taints") or []
        self.stage.edit(chosen, spec={"taints": [*known, taint]})
        return chosen

    def _fail(self) -> None:
        self.stage.model.members.lose(self._draw.choice(self._present())["metadata"]["name"])

    def _delete(self) -> None:
        self.stage.delete(self._draw.choice(self._present()))

    def _present(self) -> list[JSON]:
        return [each for each in self.clusters if self.stage.get(each) is not None]

    def _relabel(self) -> None:
        self.stage.edit(self._draw.choice(self._present()), metadata={"labels": {"env": None}})

    def _now(self) -> str:
        return stamp(self.stage.clock.now())

    # What happens

    def assignment(self, template: JSON) -> dict[str, int]:
        """Return where a workload goes. A move under way ends well."""
        found: Any = self.stage.binding(template)
        return as_moved(convert(Binding, found)).assignment if found is not None else {}


def _evicting(binding: JSON | None) -> set[str]:
    """Return the clusters that evict a workload gracefully."""
    tasks = (binding or {}).get("spec", {}).get("gracefulEvictionTasks") or ()
    return {each["fromCluster"] for each in tasks if each["producer"] == "Test"}
