"""Random histories of a fleet in trouble, under the modelled Karmada: what moves must keep.

A history has workloads on groups of clusters, with both strategies. Clusters flap, cannot be reached, and are drained.
Their capacities swing, and replicas are unschedulable. Drift is repaired in most histories. Workloads break, are
scaled, edited, paused, rescheduled and evicted, also from all clusters, and pods fail for a moment. Some have volumes
or a ConfigMap. Dispatching is suspended, and members keep what Karmada deletes. Quotas fill, and are lowered below the
use. Moves are paused, budgets and windows close. Taints evict, and Clusters are deleted and join again. A Job finishes.
Other clients remove the record of a move, or end it by hand. A custom resource needs its definition. Finalizers keep
objects in members, and members decide replicas. Karmada's controllers restart, or are out of service. The storm brake
engages. The scheduler is killed before or after any of its writes, is refused, or gets no answer. The next leader is a
standby that read the configuration some time ago. Of three schedulers, one is cut off, and its last write arrives when
another leads. New copies are lost with their cluster. All pods of a workload restart at once. The time is the test's.
"""

import json
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from decisions import DYNAMIC
from karmada_model.evictions import evict
from karmada_model.model import Settings
from karmada_model.quotas import QuotaWebhook
from karmada_model.replicas import RETAINED
from karmada_model.stage import Stage
from karmada_plane import cluster, deployment, policy, resource, selector
from kube_store import JSON, copied

from berthmaster.controllers.estimators.messages import unschedulable_question
from berthmaster.controllers.estimators.queries import EstimatorQuery
from berthmaster.controllers.settings import ControllerSettings
from berthmaster.deciding.budgets import Budget
from berthmaster.deciding.config import MoveRule, MovesConfig
from berthmaster.deciding.move_selector import MoveSelector
from berthmaster.deciding.move_settings import MoveSettings, RebalanceSettings, SourceOverride, SourceSettings
from berthmaster.deciding.windows import Schedule, Window, WindowSeconds
from berthmaster.kube.requests import APIRequest
from berthmaster.model.decode import decode_json
from berthmaster.model.errors import ApiError
from berthmaster.model.move import (
    DRAINING,
    EVICTION_REASON,
    MOVE,
    MovePhase,
    MoveReason,
    MoveState,
    MoveStrategy,
    written_clusters,
)
from berthmaster.model.move_refusal import Cause
from berthmaster.model.work import DEFAULT_GRACE_S

TOLERATION_S: Final = 30.0
HIDDEN_S: Final = 75.0
"""How long a disturbance may be unknown to the control plane: the detection of a lost cluster, and reports."""
REST_LIMIT_S: Final = 3 * 86400
RETURN_S: Final = 120.0
"""How long a workload without copies may wait for writes that are refused now and then."""
AWAY_S: Final = 900.0
"""How long a workload may be assigned nowhere while a group could hold it: the deadline, the end of pods, retries."""
LOOP_S: Final = 120.0
MAX_STARTS: Final = 2
"""How many moves of one workload may start within ``LOOP_S``. A failover may follow another move at once."""
_STRATEGIES: Final[tuple[JSON, ...]] = (
    {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"},
    DYNAMIC,
    {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"},
    {"replicaSchedulingType": "Duplicated"},
)


TROUBLE: Final = """
lose lose recover_one recover_one recover_one flap scale edit_template edit_placement evict drain undrain break mend
return_with_its_pods return_with_its_pods restart_karmada fill_at_a_move fill brake reschedule edit_other_group swing
swing crowd pause scale_in_a_move scale_in_a_move evict_unhealthy evict_from_all lose_pods limit_replicas
lose_the_source_at_a_deadline
"""
"""What happens to a fleet every day: the names of methods. A name that is there twice is chosen twice as often."""
FROZEN: Final = "suspend suspend resume pause_template preserve change_the_leader"
"""What keeps copies from starting or from going, and a leader with an older configuration."""
OTHER_CLIENTS: Final = "forget_a_record forget_a_record end_by_hand taint_no_execute unjoin finish_the_job"
"""What others do to records, Clusters, taints and Jobs."""
MEMBERS: Final = "keep_objects keep_objects let_objects_go autoscale autoscale stop_karmada restore"
"""What happens in members without Karmada, Karmada's controllers out of service, and a restore of etcd."""
LATE: Final = "lose_the_target lose_the_target fail_back_with_a_quota cut_off restart_pods"
"""What happens to moves under way, and to the second and the third scheduler."""
SUSPENSIONS: Final = 0.3
"""The share of the faults ``FROZEN``."""
BY_HAND: Final = 0.15
"""The share of ``OTHER_CLIENTS`` among the others."""
IN_MEMBERS: Final = 0.1
"""The share of ``MEMBERS`` among the rest."""
LATER: Final = 0.15
"""The share of ``LATE`` among all."""
BLIND: Final = 0.3
"""How often Karmada sees nothing new for some time in a cluster that is back."""
BLIND_S: Final = 40.0
MOST_UNJOINS: Final = 20
"""How many half minutes the deletion of a Cluster may take at the end of a history."""
UNJOIN_S: Final = 60.0
"""How long a union may name a Cluster that is being deleted. Writes are refused now and then."""
REPORTED_S: Final = 10.0
"""How long a member takes to report that a Job has finished, at most."""
ROOMY_CPU: Final = 20
"""The least capacity of a cluster whose use is reported: room for all workloads."""
HEADROOM_PERCENT: Final = 10
REPLICAS_OF_A_CPU: Final = 2
CLOSED: Final = Window(Schedule.parse("0 0 1 6 *"), WindowSeconds(3600))
"""A window that opens after the end of each history."""
SETTINGS: Final = resource("settings", "ConfigMap")
CLAIM: Final = resource("data", "PersistentVolumeClaim")
JOB: Final[JSON] = resource("report", "Job", "batch/v1", spec={"parallelism": 2, "template": {"spec": {}}})
DEFINITION: Final[JSON] = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "basins.example.org"},
    "spec": {"group": "example.org", "names": {"kind": "Basin", "plural": "basins"}},
}  # fmt: skip
BASIN: Final = resource("basin", "Basin", "example.org/v1", spec={"litres": 1})
_QUOTA: Final[JSON] = {
    "apiVersion": "policy.karmada.io/v1alpha1",
    "kind": "FederatedResourceQuota",
    "metadata": {"name": "all", "namespace": "shop"},
}


BACKUPS: Final = 0.2
"""How often etcd is saved before a fault."""


class Killed(BaseException):
    """The process of the scheduler ends."""


class Violation(BaseException):
    """A law does not hold. The scheduler catches no such exception, so its message is not lost."""


class History:
    """One history.

    Attributes:
        moves: how many moves have started.
        rebalances: how many of them repair drift.
        kills: how often the scheduler was killed.
        checked: how many writes of moves were held against the invariants.
        log: what happened, for the message of a failure.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.moves = self.rebalances = self.kills = self.checked = 0
        self.log: list[str] = []
        self._groups = self._random.choice(
            (
                [["a1"], ["b1"]],
                [["a1", "a2"], ["b1", "b2"]],
                [["a1"], ["b1", "b2"], ["c1"]],
                [["a1", "a2", "a3"], ["b1"]],
                [["a1", "a2", "a3"]],
            )
        )
        self._clusters = sorted({name for group in self._groups for name in group})
        self._cpus = {name: self._random.choice((4, 100)) for name in self._clusters}
        self._limit = self._random.choice((1, 2))
        after_s = self._random.choice((0, 60, 300))
        settings = MoveSettings(
            failback=SourceSettings("On", after_s, HEADROOM_PERCENT),
            drain=SourceSettings("On", 0, 0),
            rebalance=RebalanceSettings(
                self._random.choice(("Off", "On", "On", "On")), self._random.choice((0, 60, 300)), 10, 5
            ),
            soak_s=self._random.choice((15, 60)),
            deadline_s=300,
            hold_down_s=self._random.choice((120, 600)),
        )
        self._templates = [self._template(index) for index in range(self._random.randint(1, 3))]
        broken_first = [index for index in range(len(self._templates)) if self._random.random() < 0.4]
        self._preservable = [index for index in range(len(self._templates)) if index not in broken_first]
        rules = (
            MoveRule(selector=MoveSelector(kinds=frozenset({"Job"})), drain=SourceOverride("On")),
            *(
                MoveRule(
                    selector=MoveSelector(policies=frozenset({f"shop/p{index}"})),
                    strategy=MoveStrategy.BREAK_BEFORE_MAKE,
                )
                for index in broken_first
            ),
        )
        extra = random.Random(f"needs {seed}")  # seeds keep their histories
        self._extra = extra
        self._stored = extra.sample(range(len(self._templates)), 1) if extra.random() < 0.2 else []
        more = self._more = random.Random(f"more {seed}")
        self._late = late = random.Random(f"late {seed}")
        for each in self._templates:
            if late.random() < 0.3:
                each["spec"]["strategy"] = {"rollingUpdate": {"maxUnavailable": "100%"}}
        self._retained = self._choose_retained()
        self._defined = more.random() < 0.2
        needs = extra.random() < 0.3
        for index, each in enumerate(self._templates):
            volumes: list[JSON] = [{"name": "s", "configMap": {"name": SETTINGS["metadata"]["name"]}}] if needs else []
            if index in self._stored:
                volumes.append({"name": "d", "persistentVolumeClaim": {"claimName": CLAIM["metadata"]["name"]}})
            if volumes:
                each["spec"]["template"]["spec"]["volumes"] = volumes
        purge_modes = {index: extra.choice(("", "Directly", "Gracefully")) for index in broken_first}
        runs_job, reports = extra.random() < 0.2, extra.random() < 0.5
        if late.random() < 0.3:
            job = MoveSelector(policies=frozenset({"shop/job"}))
            rules = (*rules, MoveRule(selector=job, strategy=MoveStrategy.BREAK_BEFORE_MAKE))
        if reports:  # what runs takes room, so each group must have it for all workloads
            self._cpus = {name: max(cpu, ROOMY_CPU) for name, cpu in self._cpus.items()}
        config = MovesConfig(defaults=settings, rules=rules, budgets=(Budget("all", max_moves=self._limit),))
        self._config = config
        self._known = [config]
        strategies = [self._random.choice(_STRATEGIES) for _ in self._templates]
        self._policies = [
            policy(
                f"p{index}",
                selector(each["kind"], name=each["metadata"]["name"]),
                schedulerName="berthmaster",
                placement={"clusterAffinities": self._terms(self._groups), "replicaScheduling": strategy},
                propagateDeps=index in self._stored,
                **_purging(purge_modes.get(index, "")),
            )
            for index, (each, strategy) in enumerate(zip(self._templates, strategies, strict=True))
        ]
        self.stage = Stage(
            *(cluster(name, cpu=cpu) for name, cpu in self._cpus.items()),
            *self._policies,
            *([CLAIM] if self._stored else []),
            *([SETTINGS, self._settings_policy()] if needs else []),
            *([JOB, self._job_policy()] if runs_job else []),
            *([DEFINITION, BASIN, *self._definition_policies()] if self._defined else []),
            *self._templates,
            karmada=Settings(evicts=True, reports_resources=reports),
            settings=ControllerSettings(failover="not-ready", failover_toleration_s=TOLERATION_S),
            moves=config,
            chance=self._random,
        )
        self._disturbed_s = -HIDDEN_S
        self._trouble = 0.0
        self._before: dict[str, JSON] = {}
        self._full: frozenset[str] = frozenset()
        self._limited = False
        self._webhook = QuotaWebhook(self.stage)
        self._away_s: dict[str, float] = {}
        self._cuts = 0
        self._late_writes: list[APIRequest] = []
        self._arriving = False
        self._braked = ""
        self._lost: set[str] = set()
        self._unjoined: dict[str, float] = {}
        self._waited_s: dict[str, float] = {}
        self._forgotten: dict[str, float] = {}
        self._finished_s = 0.0
        self._stale: set[str] = set()
        self._backup: dict[str, JSON] = {}
        self._starts: dict[str, list[float]] = defaultdict(list)
        self._rebalanced_s: dict[str, float] = {}
        self._hold_down_s = settings.hold_down_s
        self._start_asking()
        terminate_s = self._random.choice((0.0, 25.0, 100.0))
        self.stage.model.members.delays = replace(self.stage.model.members.delays, terminate_s=terminate_s)
        self.stage.api.before = self._sent
        self.stage.api.after = self._performed

    def play(self, actions: int) -> None:
        """Let things happen, then let the fleet recover, and wait until all is at rest."""
        if self._more.random() < 0.1:
            self._stop_karmada()
        self.run(90)
        self._trouble = self._random.choice((0.0, 0.02, 0.1))
        for _ in range(actions):
            self._act()
            self.run(self._random.choice((1.0, 5.0, 20.0, 60.0, 120.0, 400.0)))
        self._trouble = 0.0
        self._recover()
        self._rest()

    def run(self, seconds: float) -> None:
        """Let time pass. A killed scheduler starts again at once."""
        end_s = self.stage.clock.monotonic_s() + seconds
        while True:
            try:
                self.stage.run(max(0.0, end_s - self.stage.clock.monotonic_s()))
            except Killed:
                self.kills += 1
                self._lead()
                continue
            break
        self._check_groups()
        self._check_return()
        self._check_away()
        self._check_vanished()
        self._check_harm()
        self._check_unjoins()

    # What happens

    def _act(self) -> None:
        shares = (
            (self._late, LATER),
            (self._extra, SUSPENSIONS),
            (self._extra, BY_HAND),
            (self._more, IN_MEMBERS),
        )
        kinds = (LATE, FROZEN, OTHER_CLIENTS, MEMBERS)
        found = (kind for kind, (chance, share) in zip(kinds, shares, strict=True) if chance.random() < share)
        name = self._random.choice(next(found, TROUBLE).split())
        if self._more.random() < BACKUPS:
            self._backup = copied(self.stage.api.objects)
        self.log.append(f"{self.stage.clock.monotonic_s():.0f} {name}")
        getattr(self, f"_{name}")()

    def _lose(self) -> None:
        self._disturb()
        name = self._random.choice(self._clusters)
        self._lost.add(name)
        self.stage.model.members.lose(name)

    def _lose_the_target(self) -> None:
        """Lose a cluster of the target of a move in any of its phases, for a short or a long time."""
        self._drain()
        self.run(self._late.choice((1.0, 5.0, 40.0, 70.0)))
        moves = [move for each in self._templates if (move := _move_of(self.stage.binding(each))) and move.under_way]
        names = sorted({name for move in moves for name in move.target})
        up = [name for name in names if self.stage.model.members.member(name).up and not self._goes(name)]
        if not up:
            return
        name = self._late.choice(up)
        self._lost.add(name)
        self._disturb()
        self.stage.model.members.lose(name)
        self.run(self._late.choice((20.0, 60.0, 100.0)))
        if self._late.random() < 0.3:
            self._undrain()
        self.run(self._late.choice((1.0, 40.0, 300.0, 1000.0)))
        if self._late.random() < 0.7:
            self._disturb()
            self.stage.model.members.recover(name, pods_ran=self._late.random() < 0.5)

    def _fail_back_with_a_quota(self) -> None:
        """Let a group come back while a quota has no room for a union, or little."""
        name = self._late.choice(self._groups[0])
        self._lost.add(name)
        self._disturb()
        self.stage.model.members.lose(name)
        self.run(self._late.choice((100.0, 200.0)))
        if not self._limited:
            self._limit_replicas()
        self._disturb()
        self.stage.model.members.recover(name)
        self.run(self._late.choice((100.0, 700.0)))

    def _cut_off(self) -> None:
        """Cut one or two leaders off before a write of theirs, and let the writes arrive when another one leads."""
        self._cuts = self._late.choice((1, 2))
        self._drain()
        self.run(self._late.choice((5.0, 40.0, 100.0)))
        self._cuts, late, self._late_writes = 0, self._late_writes, []
        for each in late:
            self._arriving = True
            try:
                with self.stage.api.send(each):
                    pass
            except ApiError:
                continue
            finally:
                self._arriving = False
            self.run(self._late.choice((0.0, 3.0, 30.0)))

    def _restart_pods(self) -> None:
        """Edit the pod template of a workload."""
        chosen = self._late.choice(self._templates)
        self._disturb()
        restarted = {"annotations": {"restarted": f"{self.stage.clock.monotonic_s()}"}}
        self.stage.edit(chosen, spec={"template": {"metadata": restarted}})

    def _change_the_leader(self) -> None:
        """Pause moves, or end that, let another process lead, and drain a cluster."""
        self._pause()
        self._lead()
        self._drain()

    def _lead(self) -> None:
        """Let a standby lead. It read the file when it started, and reads it again now."""
        self.stage.restart_scheduler(self._extra.choice(self._known), file=self._config)
        self._engage(self._braked)
        self._start_asking()

    def _configure(self, config: MovesConfig) -> None:
        self._config = config
        self._known.append(config)
        self.stage.scheduler.configure(config)

    def _suspend(self) -> None:
        """Suspend dispatching, or scheduling, of a workload in one of the forms."""
        index = self._extra.randrange(len(self._templates))
        binding = self.stage.binding(self._templates[index])
        names = self._extra.sample(self._clusters, self._extra.choice((1, 1, min(2, len(self._clusters)))))
        form = self._extra.choice(("all", "named", "named", "scheduling"))
        match form:
            case "all":
                self._amend(index, suspension={"dispatching": True})
            case "named":
                self._amend(index, suspension={"dispatchingOnClusters": {"clusterNames": names}})
            case _ if binding is not None:
                self.stage.edit(binding, spec={"suspension": {"scheduling": True}})

    def _resume(self) -> None:
        for index, template in enumerate(self._templates):
            self._amend(index, suspension=None)
            binding = self.stage.binding(template)
            if binding is not None:
                self.stage.edit(binding, spec={"suspension": None})

    def _pause_template(self) -> None:
        chosen = self._extra.choice(self._templates)
        found = self.stage.get(chosen) or chosen
        self.stage.edit(chosen, spec={"paused": not found["spec"].get("paused", False)})

    def _preserve(self) -> None:
        """Let members keep what Karmada deletes, or delete it again. With BreakBeforeMake, other tests do so."""
        if self._preservable:
            index = self._extra.choice(self._preservable)
            kept = self._policies[index]["spec"].get("preserveResourcesOnDeletion", False)
            self._amend(index, preserveResourcesOnDeletion=not kept)

    def _amend(self, index: int, **spec: Any) -> None:
        """Edit a policy, except its placement; None removes a field. The placement stays as it was edited last."""
        held = self._policies[index]
        changed = {key: value for key, value in {**held["spec"], **spec}.items() if value is not None}
        self._policies[index] = {**held, "spec": changed}
        stored = self.stage.get(held) or held
        self.stage.apply({**held, "spec": {**changed, "placement": stored["spec"]["placement"]}})

    def _forget_a_record(self) -> None:
        """Remove the record of a move under way, mostly with BreakBeforeMake, while the old copies go."""
        if self._extra.random() < 0.5:
            self._drain()
            self.run(self._extra.choice((1.0, 3.0, 10.0)))
        for template in self._templates:
            binding = self.stage.binding(template)
            move = _move_of(binding)
            if binding is None or move is None or not move.under_way:
                continue
            self.stage.edit(binding, metadata={"annotations": {MOVE: None}})
            self._forgotten[template["metadata"]["name"]] = self.stage.clock.monotonic_s()
            self._starts.pop(binding["metadata"]["name"], None)
            self._rebalanced_s.pop(binding["metadata"]["name"], None)
            if move.phase is MovePhase.ADMITTED:
                self._watch_pods_end(template, move)
            return

    def _watch_pods_end(self, template: JSON, move: MoveState) -> None:
        """Nothing starts elsewhere while pods of the old copies end. Longer grace periods are not known any more."""
        graces = _grace_s(template) <= DEFAULT_GRACE_S
        members, before = self.stage.model.members, self.stage.assignment(template)
        old = move.source.keys() - before.keys()
        for _ in range(60):
            self.run(1.0)
            now = self.stage.assignment(template)
            new = now.keys() - before.keys() - old
            beside = members.running(template) & new and members.running(template) & (old - now.keys())
            if graces and beside and not self._is_hidden():
                raise self._violation(f"{new} beside {old}: {now}")

    def _end_by_hand(self) -> None:
        """Write the target of a move with MakeBeforeBreak, as a person who does not want to wait."""
        for binding in map(self.stage.binding, self._templates):
            move = _move_of(binding)
            makes = move is not None and move.strategy is MoveStrategy.MAKE_BEFORE_BREAK
            if binding is not None and move is not None and makes and move.phase in _NEW_RUN:
                self._disturb()
                listed = [{"name": name, "replicas": count} for name, count in sorted(move.target.items())]
                self.stage.edit(binding, spec={"clusters": listed})
                return

    def _taint_no_execute(self) -> None:
        """Let Karmada evict all workloads from a cluster, for some time."""
        name = self._extra.choice(self._clusters)
        self._lost.add(name)
        taint = {"key": "example.org/evict", "effect": "NoExecute"}
        self._taint(name, lambda taints: [*taints, taint])
        self.run(self._extra.choice((5.0, 60.0, 700.0)))
        self._taint(name, lambda taints: [each for each in taints if each["key"] != taint["key"]])

    def _unjoin(self) -> None:
        """Delete a Cluster, and let it join again when it is gone."""
        name = self._extra.choice(self._clusters)
        self._lost.add(name)
        self._disturb()
        self._rebalanced_s.clear()
        self.stage.delete(cluster(name))
        self._unjoined[name] = self.stage.clock.monotonic_s()
        self.run(self._extra.choice((20.0, 100.0)))
        self._rejoin()

    def _rejoin(self) -> None:
        for name in [each for each in self._unjoined if self.stage.get(cluster(each)) is None]:
            self._disturb()
            del self._unjoined[name]
            self.stage.put(cluster(name, cpu=self._cpus[name]))

    def _finish_the_job(self) -> None:
        self.stage.model.members.finish(JOB)
        self._finished_s = self.stage.clock.monotonic_s()

    def _job_policy(self) -> JSON:
        strategy = self._extra.choice((_STRATEGIES[0], _STRATEGIES[3], _STRATEGIES[3]))
        placement = {"clusterAffinities": self._terms(self._groups), "replicaScheduling": strategy}
        return policy("job", selector("Job", "batch/v1"), schedulerName="berthmaster", placement=placement)

    def _choose_retained(self) -> list[int]:
        """Let members decide the replicas of a Deployment in some histories. Return its index."""
        kinds = [index for index, each in enumerate(self._templates) if each["kind"] == "Deployment"]
        chosen = [self._more.choice(kinds)] if kinds and self._more.random() < 0.2 else []
        for index in chosen:
            self._templates[index]["metadata"]["labels"] = RETAINED
        return chosen

    def _keep_objects(self) -> None:
        """Let the copies of a workload in a cluster have a finalizer, and mostly drain the cluster."""
        name, chosen = self._more.choice(self._clusters), self._more.choice(self._templates)
        self.stage.model.members.finalize(name, chosen["metadata"]["name"])
        if self._more.random() < 0.7:
            self._drain(name)

    def _let_objects_go(self) -> None:
        self._disturb()
        self.stage.model.members.let_go()

    def _autoscale(self) -> None:
        """Let a member change the replicas of a workload that it decides, and mostly drain another one."""
        for index in self._retained:
            template = self._templates[index]
            running = sorted(self.stage.model.members.copies(template))
            if running:
                self._disturb()
                name = self._more.choice(running)
                self.stage.model.members.autoscale(name, template, self._more.randint(1, 6))
                self._drain(self._more.choice(running))

    def _stop_karmada(self) -> None:
        """Let Karmada write no Works for some time, while a cluster is drained."""
        self.stage.model.hold("bindings")
        self.run(self._more.choice((5.0, 30.0)))
        self._drain()
        self.run(self._more.choice((20.0, 60.0)))
        self.stage.model.hold()
        self._disturb()

    def _restore(self) -> None:
        """Restore etcd from a backup. Members keep what they run, and all processes start again."""
        api, names = self.stage.api, [api_path for api_path in self._backup if "/clusters/" in api_path]
        if self._unjoined or not names or any(self.stage.get(cluster(each)) is None for each in self._clusters):
            return
        self._disturb()
        with api.changed:
            for path in [each for each in api.objects if each not in self._backup]:
                if api.objects[path]["kind"] == "Work":
                    self.stage.model.members.forget(api.objects[path])
                api.remove(path)
            for path, content in self._backup.items():
                api.put(path, content)
                api.objects[path]["metadata"]["generation"] = content["metadata"]["generation"]
        for name in self._clusters:
            self.stage.model.members.set_ready(name, "True" if self.stage.model.members.member(name).up else "Unknown")
        self._limited = self.stage.get(_QUOTA) is not None
        self._lost |= {*self._clusters}
        # A restored Work says that a copy runs that is gone, until Karmada creates the copy.
        bindings = [each for each in map(self.stage.binding, self._templates) if each is not None]
        self._stale |= {each["metadata"]["name"] for each in bindings if each["spec"].get("suspension")}
        now_s = self.stage.clock.monotonic_s()
        self._forgotten |= {each["metadata"]["name"]: now_s for each in self._templates}
        self._starts.clear()
        self._rebalanced_s.clear()
        self.stage.model.restart_controllers()
        self.stage.model.members.reflect()
        self._lead()

    def _definition_policies(self) -> list[JSON]:
        """Return the policies of a definition on all clusters, and of a custom resource of it in the groups."""
        everywhere = {"clusterAffinity": {"clusterNames": self._clusters}}
        groups = {"clusterAffinities": self._terms(self._groups)}
        own = {"schedulerName": "berthmaster"}
        kind, basin = selector(DEFINITION["kind"], DEFINITION["apiVersion"]), selector("Basin", "example.org/v1")
        return [
            policy("definition", kind, namespace="", placement=everywhere, **own),
            policy("basin", basin, placement=groups, **own),
        ]

    def _settings_policy(self) -> JSON:
        placement = {"replicaScheduling": {"replicaSchedulingType": "Duplicated"}}
        return policy("settings", selector("ConfigMap", "v1"), schedulerName="berthmaster", placement=placement)

    def _recover_one(self) -> None:
        down = [name for name in self._clusters if not self.stage.model.members.member(name).up]
        if down:
            self._disturb()
            self._come_back(self._random.choice(down))

    def _come_back(self, name: str, *, pods_ran: bool = False) -> None:
        """Bring a cluster back. Karmada's watches of it may start some time later."""
        self.stage.model.members.recover(name, pods_ran=pods_ran)
        if self._late.random() < BLIND:
            self.stage.model.members.hide(name, BLIND_S)

    def _return_with_its_pods(self) -> None:
        """Cut a cluster off for longer than the toleration; its pods run all the time."""
        name = self._random.choice(self._clusters)
        if self.stage.model.members.member(name).up:
            self._lost.add(name)
            self._disturb()
            self.stage.model.members.lose(name)
            self.run(self._random.choice((45.0, 100.0, 300.0)))
            self._disturb()
            self._come_back(name, pods_ran=True)

    def _restart_karmada(self) -> None:
        self.stage.model.restart_controllers()

    def _fill_at_a_move(self) -> None:
        """Drain a cluster, and fill the quota of where its workloads go."""
        self._drain()
        self.run(self._random.choice((2.0, 10.0)))
        self._fill()

    def _fill(self) -> None:
        """Let others fill the quota of a cluster, or free all again. What a move frees is filled first."""
        found = [_move_of(self.stage.binding(each)) for each in self._templates]
        freed = [name for each in found if each and each.phase is MovePhase.ADMITTED for name in sorted(each.target)]
        self._full = frozenset() if self._full else frozenset({self._random.choice(freed or self._clusters)})

    def _limit_replicas(self) -> None:
        """Set a quota for all replicas, also below the use, or remove it."""
        if self._limited:
            self._remove_quota()
            return
        used = sum(sum(self.stage.assignment(each).values()) for each in self._templates)
        limit = max(1, used + self._random.choice((-2, 0, 0, 2)))
        quota = {**_QUOTA, "spec": {"overall": {"cpu": f"{500 * limit}m"}}}
        self.stage.put(quota)
        self.stage.edit(quota, status={"overallUsed": {"cpu": f"{500 * used}m"}})
        self._limited = True

    def _remove_quota(self) -> None:
        if self._limited:
            self.stage.delete(_QUOTA)
        self._limited = False

    def _pause(self) -> None:
        """Pause moves, use up the budget, or end both."""
        closed = self._is_closed()
        budget = Budget("all", max_moves=self._limit)
        if closed:
            self._configure(replace(self._config, pause="None", budgets=(budget,)))
        elif self._random.random() < 0.5:
            self._configure(replace(self._config, pause=self._random.choice(("Planned", "All"))))
        elif self._extra.random() < 0.5:
            shut = Budget("all", max_moves=self._limit, windows=(CLOSED,))
            self._configure(replace(self._config, budgets=(shut,)))
        else:
            self._configure(replace(self._config, budgets=(Budget("all", max_moves=0),)))

    def _scale_in_a_move(self) -> None:
        """Scale a workload that moves, also to 0 and back, often after moves were paused."""
        if self._random.random() < 0.5:
            self._drain()
            self.run(self._random.choice((3.0, 40.0, 70.0, 90.0)))
        moving = [each for each in self._templates if (move := _move_of(self.stage.binding(each))) and move.under_way]
        if self._random.random() < 0.5:
            self._pause()
        for _ in range(self._random.choice((1, 1, 2, 6))):
            self.stage.scale(self._random.choice(moving or self._templates), self._random.randint(0, 6))
            self.run(self._random.choice((1.0, 10.0, 60.0)))

    def _evict_unhealthy(self) -> None:
        """Evict copies that are not healthy, as the failover of applications does."""
        for template in self._templates:
            binding = self.stage.binding(template) or {}
            healthy = _healthy_by_report(binding)
            for each in binding["spec"].get("clusters") or ():
                if not healthy.get(each["name"]) and self._random.random() < 0.7:
                    path = self.stage.api.served.path(binding)
                    self.stage.api.change(path, partial(evict, cluster=each["name"]))

    def _evict_from_all(self) -> None:
        binding = self.stage.binding(self._random.choice(self._templates))
        for each in (binding or {"spec": {}})["spec"].get("clusters") or ():
            self.stage.api.change(self.stage.api.served.path(binding), partial(evict, cluster=each["name"]))

    def _lose_pods(self) -> None:
        chosen = self._random.choice(self._templates)
        names = sorted(self.stage.model.members.copies(chosen))
        if names:
            self._disturb()
            self.stage.model.members.lose_pods(self._random.choice(names), chosen, self._random.randint(1, 2))

    def _lose_the_source_at_a_deadline(self) -> None:
        """Let new copies fail, and lose a cluster that they came from around the deadline."""
        self._drain()
        self.run(self._random.choice((5.0, 50.0)))
        found = [move for each in self._templates if (move := _move_of(self.stage.binding(each))) and move.under_way]
        if not found:
            return
        move = self._random.choice(found)
        for each in self._templates:
            for name in move.target:
                self._disturb()
                self.stage.model.members.break_workload(name, each["metadata"]["name"])
        self.run(self._random.uniform(200.0, 330.0))
        name = self._random.choice(sorted(move.source or self._clusters))
        if self.stage.model.members.member(name).up:
            self._lost.add(name)
            self._disturb()
            self.stage.model.members.lose(name)
            self.run(self._random.choice((5.0, 60.0, 200.0)))
            self._disturb()
            self.stage.model.members.recover(name, pods_ran=self._random.random() < 0.5)

    def _brake(self) -> None:
        self._engage("" if self._braked else "a test")

    def _engage(self, reason: str) -> None:
        self._braked = reason
        self.stage.scheduler.brake(reason)

    def _reschedule(self) -> None:
        binding = self.stage.binding(self._random.choice(self._templates))
        if binding is not None:
            at = self.stage.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
            self.stage.edit(binding, spec={"rescheduleTriggeredAt": at})

    def _edit_other_group(self) -> None:
        """Edit a group that the workload is not in. That triggers no scheduling."""
        index = self._random.randrange(len(self._templates))
        self._rebalanced_s.clear()
        held, binding = self._policies[index], self.stage.binding(self._templates[index])
        used = {each["name"] for each in (binding or {"spec": {}})["spec"].get("clusters") or ()}
        terms = self._terms(self._groups)
        others = [each for each in terms if not used & set(each["clusterNames"])]
        if used and others:
            self._random.choice(others)["labelSelector"] = {
                "matchExpressions": [{"key": "none", "operator": "DoesNotExist"}]
            }
            placement = {**held["spec"]["placement"], "clusterAffinities": terms}
            self.stage.apply({**held, "spec": {**held["spec"], "placement": placement}})

    def _swing(self) -> None:
        """Change the capacity of a cluster, often for so long that drift is repaired."""
        used = sorted(self.stage.assignment(self._random.choice(self._templates)))
        self._resize(self._random.choice(used or self._clusters), self._random.choice((0, 2, 4, 50, 100)))
        self.run(self._random.choice((5.0, 120.0, 700.0)))

    def _resize(self, name: str, cpu: int) -> None:
        if self.stage.get(cluster(name)) is None:
            return
        self.stage.edit(cluster(name), status={"resourceSummary": {"allocatable": {"cpu": str(cpu)}}})

    def _crowd(self) -> None:
        chosen, room = self._random.choice(self._templates), self._random.choice((0, 1, 3))
        self.stage.model.members.crowd(self._random.choice(self._clusters), chosen["metadata"]["name"], room)

    def _start_asking(self) -> None:
        self.stage.scheduler.estimate(self._estimate)

    def _estimate(self, query: EstimatorQuery) -> dict[str, int]:
        known = [*self._templates, JOB]
        template = next(each for each in known if query.workload.endswith(each["metadata"]["name"]))
        if query.encode is unschedulable_question:
            found = self.stage.model.members.unschedulable(template)
            return {name: found.get(name, 0) for name in query.clusters}
        rooms = {name: self.stage.model.members.room(name, template) for name in query.clusters}
        return {name: room for name, room in rooms.items() if room is not None}

    def _flap(self) -> None:
        name = self._random.choice(self._clusters)
        if self.stage.model.members.member(name).up:
            self.stage.model.members.set_ready(name, "False")
            self.run(self._random.choice((3.0, 45.0)))
            self.stage.model.members.set_ready(name, "True")

    def _scale(self) -> None:
        self.stage.scale(self._random.choice(self._templates), self._random.randint(0, 6))

    def _edit_template(self) -> None:
        chosen = self._random.choice(self._templates)
        self.stage.edit(chosen, spec={"minReadySeconds": self._random.randint(0, 9)})

    def _edit_placement(self) -> None:
        held = self._random.choice(self._policies)
        self._rebalanced_s.clear()  # an edit forgets what happened before
        groups = self._groups if self._random.random() < 0.5 else self._groups[::-1]
        placement = {**held["spec"]["placement"], "clusterAffinities": self._terms(groups)}
        self.stage.apply({**held, "spec": {**held["spec"], "placement": placement}})

    def _evict(self) -> None:
        binding = self.stage.binding(self._random.choice(self._templates))
        clusters = (binding or {"spec": {}})["spec"].get("clusters") or []
        if binding is None or not clusters:
            return
        name = self._random.choice(clusters)["name"]
        task = {"fromCluster": name, "reason": "Test", "producer": "Test", "purgeMode": "Gracefully"}
        left = [each for each in clusters if each["name"] != name]
        tasks = [*(binding["spec"].get("gracefulEvictionTasks") or ()), task]
        self.stage.edit(binding, spec={"clusters": left, "gracefulEvictionTasks": tasks})

    def _drain(self, name: str = "") -> None:
        self._starts.clear()  # each drain may begin a move
        taint = {"key": DRAINING, "effect": "NoSchedule"}
        self._taint(name or self._random.choice(self._clusters), lambda taints: [*taints, taint])

    def _undrain(self) -> None:
        self._taint(self._random.choice(self._clusters), lambda taints: taints)

    def _break(self) -> None:
        self._disturb()
        chosen = self._random.choice(self._templates)
        self.stage.model.members.break_workload(self._random.choice(self._clusters), chosen["metadata"]["name"])

    def _mend(self) -> None:
        self.stage.model.members.mend()

    def _recover(self) -> None:
        members = self.stage.model.members
        members.mend()
        members.let_go()
        members.clean()
        self._resume()
        for index, template in enumerate(self._templates):
            self.stage.edit(template, spec={"paused": False})
            self._amend(index, preserveResourcesOnDeletion=None)
        self._full = frozenset()
        self._remove_quota()
        self._configure(replace(self._config, pause="None", budgets=(Budget("all", max_moves=self._limit),)))
        self._engage("")
        for name in self._clusters:
            if not members.member(name).up:
                members.recover(name)
        for name in self._clusters:
            self._taint(name, lambda _: [])
        for _ in range(MOST_UNJOINS):
            self.run(30.0)
            self._rejoin()
        if self._unjoined:
            raise self._violation(f"{sorted(self._unjoined)} cannot be deleted")
        for name in self._clusters:
            self._taint(name, lambda _: [])
            self._resize(name, self._cpus[name])
        self._disturb()

    def _taint(self, name: str, change: Callable[[list[JSON]], list[JSON]]) -> None:
        found = self.stage.get(cluster(name))
        if found is None:  # it was deleted
            return
        taints = found["spec"].get("taints") or []
        others = [each for each in taints if each["key"] != DRAINING]
        self.stage.edit(cluster(name), spec={"taints": change(others)})

    def _disturb(self) -> None:
        self._disturbed_s = self.stage.clock.monotonic_s()

    def _template(self, index: int) -> JSON:
        grace_s = self._random.choice((5, 30, 60))
        made = deployment(f"w{index}", self._random.randint(1, 6), terminationGracePeriodSeconds=grace_s)
        return {**made, "kind": self._random.choice(("Deployment", "Deployment", "StatefulSet"))}

    @staticmethod
    def _terms(groups: list[list[str]]) -> list[JSON]:
        return [{"affinityName": f"g-{'-'.join(names)}", "clusterNames": names} for names in groups]

    # What must hold

    def _sent(self, request: APIRequest) -> None:
        """Look at a request of the scheduler before it is performed; kill the scheduler sometimes."""
        if request.method != "PATCH":
            return
        if not self._arriving:
            self._fault()
            self._hold_back(request)
        self._refuse(request)
        found = self.stage.api.get(request.path.removesuffix("/status"))
        if found is not None:
            self._before[request.path] = found

    def _performed(self, request: APIRequest) -> None:
        """Hold a write of the scheduler against the invariants; kill the scheduler or lose the answer sometimes."""
        before = self._before.pop(request.path, None)
        after = self.stage.api.get(request.path.removesuffix("/status"))
        if before is not None and after is not None and not request.path.endswith("/status"):
            self._check_write(before, after)
        if request.method == "PATCH" and not self._arriving:
            self._fault()

    def _hold_back(self, request: APIRequest) -> None:
        """Let the leader be cut off from the API server. Its write arrives later."""
        if self._cuts and not request.path.endswith("/status"):
            self._cuts -= 1
            self._late_writes.append(request)
            raise Killed

    def _refuse(self, request: APIRequest) -> None:
        """Refuse an assignment on a cluster whose quota is full, and any write now and then."""
        spec = (json.loads(request.body) if request.body else {}).get("spec") or {}
        if any(each["name"] in self._full for each in spec.get("clusters") or ()):
            raise ApiError(403, "QuotaExceeded", "exceeds the quota")
        if self._random.random() < self._trouble:
            raise self._random.choice(
                (ApiError(409, "Conflict", "changed"), ApiError(422, "Invalid", "refused"), ApiError(500, "", "failed"))
            )
        self._webhook(request)

    def _fault(self) -> None:
        if self._random.random() < self._trouble:
            if self._random.random() < 0.5:
                raise Killed
            raise ApiError(0, "", "the connection broke")

    def _check_write(self, before: JSON, after: JSON) -> None:
        then, now = _move_of(before), _move_of(after)
        if now is not None and now.under_way and (then is None or not then.under_way):
            self._check_begin(before, now)
        if now is not None and now.under_way and now.until is None:
            raise self._violation(f"no end: {now}")
        self._check_tasks(after)
        self._check_first(then, now)
        self._check_kept(then, now, before, after)
        self._check_truth(then, now, after)
        if now is None or before["spec"].get("clusters") == after["spec"].get("clusters"):
            return
        if not (now.under_way or (then is not None and then.under_way)):
            return
        template = next(
            (each for each in self._templates if each["metadata"]["name"] == before["spec"]["resource"]["name"]), None
        )
        if template is None:
            return  # it has no pods
        self._check_frozen(template, now, before, after)
        if now.strategy is MoveStrategy.BREAK_BEFORE_MAKE:
            self._check_once(template, then, now, after)
            return
        if self._is_hidden() or _is_scaled_down(then, after) or before["metadata"]["name"] in self._stale:
            return
        works = self.stage.works(template)
        doomed = {name for name, work in works.items() if "deletionTimestamp" in work["metadata"]}
        found = self.stage.model.members.healthy(template)
        healthy = {name: count for name, count in found.items() if name not in doomed}
        assigned = {each["name"]: each.get("replicas", 0) for each in after["spec"].get("clusters") or ()}
        evicted = {each["fromCluster"] for each in after["spec"].get("gracefulEvictionTasks") or ()}
        # Karmada keeps the copy of an eviction task until the others are healthy.
        if self._is_retained(template):
            assigned = {name: healthy.get(name, 0) for name in assigned}
        left = sum(count if name in evicted else min(count, assigned.get(name, 0)) for name, count in healthy.items())
        known = {each["name"]: each.get("replicas", 0) for each in before["spec"].get("clusters") or ()}
        kept = {each["fromCluster"] for each in before["spec"].get("gracefulEvictionTasks") or ()}
        # Members may not have followed an earlier scale down yet.
        ran = sum(count if name in kept else min(count, known.get(name, 0)) for name, count in healthy.items())
        if now.phase.value == "RolledBack":  # what is removed is no more than what stays
            ran = sum(min(count, now.target.get(name, 0)) for name, count in healthy.items())
        wanted = sum((now.source if now.phase.value == "RolledBack" else now.target).values())
        wanted = min(wanted, after["spec"].get("replicas", 0)) if _is_divided(after) else wanted
        self.checked += 1
        if left < min(wanted, ran):
            raise self._violation(f"{left} of {ran} healthy replicas stay, {wanted} wanted: {now}")

    def _check_tasks(self, after: JSON) -> None:
        """No cluster is assigned and evicted at once. The next look would take that for a change by another client."""
        assigned = {each["name"] for each in after["spec"].get("clusters") or ()}
        evicted = {each["fromCluster"] for each in after["spec"].get("gracefulEvictionTasks") or ()}
        if assigned & evicted:
            raise self._violation(f"{assigned & evicted} are assigned and evicted: {after['spec']}")

    def _check_begin(self, before: JSON, now: MoveState) -> None:
        self.moves += 1
        self._check_volumes(before, now)
        self._check_job(before, now)
        self._check_retained(before, now)
        self._check_loop(before["metadata"]["name"])
        begun_again = now.reason is MoveReason.RESCHEDULED and before["spec"]["resource"]["name"] in self._forgotten
        if not begun_again and not self._arriving:  # the next leader may have begun moves meanwhile
            if now.reason is not MoveReason.FAILOVER:  # planned moves that had to wait go on, and may be too many then
                self._check_budget()
            self._check_pause(now)
        if now.reason is MoveReason.REBALANCE:
            self._check_rest(before["metadata"]["name"])

    def _check_kept(self, then: MoveState | None, now: MoveState | None, before: JSON, after: JSON) -> None:
        """With BreakBeforeMake, healthy copies go only for a lost cluster, an edit, an eviction or a scale down.

        These are the new copies, and the part of a workload that stays where it is.
        """
        if then is None or then.strategy is not MoveStrategy.BREAK_BEFORE_MAKE or not then.under_way:
            return
        if now is None or now.phase is MovePhase.HELD_DOWN or _is_scaled_down(then, after):
            return
        if not _is_divided(after) and any(count > after["spec"].get("replicas", 0) for count in then.target.values()):
            return
        ready = {each for each in self._clusters if _is_ready(self.stage.get(cluster(each))) and not self._goes(each)}
        known = {each["name"]: each.get("replicas", 0) for each in before["spec"].get("clusters") or ()}
        works = next((self.stage.works(each) for each in self._templates if _is_of(each, before)), {})
        newest = _healthy_by_works(works)  # the report of the binding lags behind
        reported = {name: min(count, newest.get(name, 0)) for name, count in _healthy_by_report(before).items()}
        healthy = {name: min(count, known.get(name, 0)) for name, count in reported.items()}
        if then.phase is MovePhase.ADMITTED:  # a part that the move does not take away stays
            healthy = {name: min(count, now.target.get(name, 0)) for name, count in healthy.items()}
        assigned = {each["name"]: each.get("replicas", 0) for each in after["spec"].get("clusters") or ()}
        gone = {name for name, count in healthy.items() if name in ready and count > assigned.get(name, 0)}
        if any(_is_of(self._templates[index], before) for index in self._retained):
            gone -= assigned.keys()  # the members decide how many of them run
        self.checked += 1
        if gone:
            raise self._violation(f"the healthy copies on {gone} go: {then}\n{now}")

    def _check_frozen(self, template: JSON, now: MoveState, before: JSON, after: JSON) -> None:
        """No move removes a copy that runs where dispatching is suspended. A scale to zero does, as without a move."""
        if now.phase not in {MovePhase.RELEASED, MovePhase.ROLLED_BACK} or not after["spec"].get("replicas"):
            return
        kept = {each["name"] for each in after["spec"].get("clusters") or ()}
        works = self.stage.works(template)
        for name in {each["name"] for each in before["spec"].get("clusters") or ()} - kept:
            conditions = works[name].get("status", {}).get("conditions", ()) if name in works else ()
            runs = any((each["type"], each["status"]) == ("Applied", "True") for each in conditions)
            if runs and _is_suspended(after, name):
                raise self._violation(f"the frozen copy on {name} goes: {now}")

    def _check_harm(self) -> None:
        """No move takes from a workload what it needs. A failover, an eviction and a deletion of the cluster may."""
        for each in self.stage.model.members.harm:
            taken = " needs " in each or " is deleted with its kind" in each
            needed = taken and not any(f" on {name} " in each for name in self._lost)
            if needed:
                raise self._violation(each)

    def _check_unjoins(self) -> None:
        """No move names a cluster that is being deleted, unless the storm brake or a quota refuses each change.

        With BreakBeforeMake, healthy copies on other clusters may keep it from that.
        """
        now_s = self.stage.clock.monotonic_s()
        if self._braked or self._full or self._limited:
            self._unjoined = dict.fromkeys(self._unjoined, now_s)
        for name in [each for each, since_s in self._unjoined.items() if now_s - since_s > UNJOIN_S]:
            for binding in map(self.stage.binding, self._templates):
                move = _move_of(binding)
                if binding is None or move is None:
                    continue
                suspended = (binding["spec"].get("suspension") or {}).get("scheduling")
                held = move.under_way and self._is_left(name, written_clusters(move), move) and not suspended
                if held:
                    raise self._violation(f"a union holds up the deletion of {name}: {move}")

    @staticmethod
    def _is_left(name: str, written: dict[str, int], move: MoveState) -> bool:
        """Whether a move leaves a cluster that is being deleted, although no other place may exist."""
        if move.strategy is MoveStrategy.MAKE_BEFORE_BREAK:
            return name in written
        return {name} == written.keys() and move.phase is MovePhase.SURGING

    def _check_first(self, then: MoveState | None, now: MoveState | None) -> None:
        """A move under way keeps its first source and its first deadline, until it is overdue or turns around."""
        if then is None or now is None or not (then.under_way and now.under_way) or then.started_at != now.started_at:
            return
        if now.returning and now.failures > then.failures:
            return
        if then.first and then.returning is now.returning and now.first.keys() != then.first.keys():
            raise self._violation(f"the first source changes: {then}\n{now}")
        starts = then.phase is MovePhase.ADMITTED and now.phase is MovePhase.SURGING
        if not (starts or then.overdue or now.overdue) and then.deadline_at not in {None, now.deadline_at}:
            raise self._violation(f"the first deadline changes: {then}\n{now}")

    def _is_too_large(self, binding: JSON | None) -> bool:
        """Whether a workload, with the headroom of a failback, has no room in its first group at all."""
        spec = (binding or {"spec": {}})["spec"]
        group = spec["placement"]["clusterAffinities"][0]["clusterNames"]
        room = sum(self._cpus[name] for name in group) * REPLICAS_OF_A_CPU
        return bool(-(-spec.get("replicas", 0) * (100 + HEADROOM_PERCENT) // 100) > room)

    def _is_retained(self, template: JSON) -> bool:
        return any(template is self._templates[index] for index in self._retained)

    def _is_stored(self, template: JSON) -> bool:
        """Whether a workload has a volume that no move may lose."""
        return any(template is self._templates[index] for index in self._stored)

    def _check_retained(self, before: JSON, now: MoveState) -> None:
        """No planned move counts on replicas that a member would have to start, and decides itself.

        A move whose record is gone is not planned: it begins again.
        """
        tasks = before["spec"].get("gracefulEvictionTasks") or ()
        again = _move_of(before) is None and any(each["reason"] == EVICTION_REASON for each in tasks)
        planned = now.reason is not MoveReason.FAILOVER and not again
        if not planned or not any(_is_of(self._templates[each], before) for each in self._retained):
            return
        template = next(each for each in self._templates if _is_of(each, before))
        for name, work in self.stage.works(template).items():
            reported = work.get("status", {}).get("manifestStatuses") or [{}]
            ready = (reported[0].get("status") or {}).get("readyReplicas", 0)
            grows = now.target.get(name, 0) > now.source.get(name, 0)
            if grows and ready < now.target[name] and "deletionTimestamp" not in work["metadata"]:
                raise self._violation(f"{name} has {ready} replicas, and decides them itself: {now}")

    def _check_job(self, before: JSON, now: MoveState) -> None:
        """No planned move starts a Job again that has finished, as its cluster has reported."""
        known = self.stage.clock.monotonic_s() - self._finished_s > REPORTED_S and before["spec"].get("clusters")
        reports = [each.get("status", {}).get("manifestStatuses") for each in self.stage.works(JOB).values()]
        finished = any((each[0].get("status") or {}).get("conditions") for each in reports if each)
        again = _is_of(JOB, before) and known and finished and now.arriving and now.reason is not MoveReason.FAILOVER
        if again:
            raise self._violation(f"a Job that has finished moves: {now}")

    def _check_truth(self, then: MoveState | None, now: MoveState | None, after: JSON) -> None:
        """A return ends as RolledBack, and what is restored is there to stay."""
        if then is None or now is None or not then.under_way or now.under_way:
            return
        if then.returning and now.phase is MovePhase.RELEASED:
            raise self._violation(f"a return: {now}")
        if now.phase is MovePhase.RELEASED:
            left = {each["name"] for each in after["spec"].get("clusters") or ()} - now.target.keys()
            if left:
                raise self._violation(f"{left} is not released: {now}")

    def _check_volumes(self, before: JSON, now: MoveState) -> None:
        """Nothing says that volumes may be lost. What others evict from everywhere starts somewhere.

        Karmada deletes the copies on a Cluster that is being deleted, and ends a deletion that has begun, whether or
        not there is a move.
        """
        name = before["spec"]["resource"]["name"]
        template = next((each for each in self._templates if self._is_stored(each) and _is_of(each, before)), None)
        if template is None:
            return
        doomed = {each for each, work in self.stage.works(template).items() if "deletionTimestamp" in work["metadata"]}
        assigned = {each["name"] for each in before["spec"].get("clusters") or ()}
        if any(not self._goes(each) for each in assigned - doomed - now.target.keys()):
            raise self._violation(f"a move of {name} has begun, and it has a volume: {now}")

    def _check_once(self, template: JSON, then: MoveState | None, now: MoveState, after: JSON) -> None:
        """With BreakBeforeMake, new copies start only when no pod runs elsewhere.

        Evictions, and clusters that a failover leaves, are another matter.
        """
        if then is None or then.phase is not MovePhase.ADMITTED or now.phase is not MovePhase.SURGING:
            return
        if template["metadata"]["name"] in self._forgotten and _grace_s(template) > DEFAULT_GRACE_S:
            return  # another client has removed the record of a longer grace period
        known = {each["name"] for each in after["spec"].get("clusters") or ()}
        known |= {
            each["fromCluster"]
            for each in after["spec"].get("gracefulEvictionTasks") or ()
            if each["reason"] != EVICTION_REASON
        }
        running = self.stage.model.members.running(template) & {*then.source, *then.target}
        self.checked += 1
        known |= self._given_up()
        if not running <= known:
            raise self._violation(f"{running - known} still runs pods, and {known} starts: {now}")

    def _check_loop(self, name: str) -> None:
        now_s = self.stage.clock.monotonic_s()
        starts = self._starts[name] = [each for each in self._starts[name] if each > now_s - LOOP_S] + [now_s]
        if len(starts) > MAX_STARTS:
            raise self._violation(f"{len(starts)} moves of {name} started within {LOOP_S:.0f} s")

    def _check_rest(self, name: str) -> None:
        """A workload is rebalanced at most once in a hold-down."""
        self.rebalances += 1
        now_s = self.stage.clock.monotonic_s()
        since_s = now_s - self._rebalanced_s.get(name, float("-inf"))
        if since_s < self._hold_down_s - 1.0:  # a record has whole seconds
            raise self._violation(f"{name} was rebalanced {since_s:.0f} s ago")
        self._rebalanced_s[name] = now_s

    def _check_budget(self) -> None:
        found = [
            _move_of(each)
            for each in map(self.stage.binding, [*self._templates, SETTINGS, BASIN, DEFINITION])
            if each is not None
        ]
        planned = [
            each for each in found if each is not None and each.is_counted and each.reason is not MoveReason.FAILOVER
        ]
        if len(planned) > self._limit:
            raise self._violation(f"{len(planned)} moves, the budget has {self._limit}")

    def _check_pause(self, move: MoveState) -> None:
        """No planned move begins while moves are paused, or the budget is closed, whatever a process read before."""
        closed = self._is_closed()
        if closed and move.reason is not MoveReason.FAILOVER:
            raise self._violation(f"a move begins while all wait: {move}")

    def _is_closed(self) -> bool:
        budget = self._config.budgets[0]
        return self._config.pause != "None" or not budget.max_moves or bool(budget.windows)

    def _goes(self, name: str) -> bool:
        """Return whether a cluster is being deleted, or is gone."""
        stored = self.stage.get(cluster(name))
        return stored is None or "deletionTimestamp" in stored["metadata"]

    def _taints(self, name: str) -> list[JSON]:
        found: list[JSON] = (self.stage.get(cluster(name)) or {}).get("spec", {}).get("taints") or []
        return found

    def _check_groups(self) -> None:
        for template in self._templates:
            binding = self.stage.binding(template)
            if binding is None or ((move := _move_of(binding)) is not None and move.under_way):
                continue
            held = (binding["spec"].get("suspension") or {}).get("scheduling") or self._full or self._limited
            held = held or _has_no_place(binding) or move is not None  # a record waits for its move
            since_s = self._forgotten.get(template["metadata"]["name"])
            if since_s is not None and (held or self.stage.clock.monotonic_s() - since_s < RETURN_S):
                continue  # a union without a record cannot end: no group has room, a move or a write waits
            used = {each["name"] for each in binding["spec"].get("clusters") or ()}
            groups = [set(each["clusterNames"]) for each in binding["spec"]["placement"]["clusterAffinities"]]
            if not any(used <= each for each in groups):
                raise self._violation(f"{used} is more than one group")

    def _check_return(self) -> None:
        """A workload whose old copies are gone starts somewhere, if a place for it exists and it is scheduled."""
        for template in self._templates:
            binding = self.stage.binding(template)
            move = _move_of(binding)
            if binding is None or move is None or move.phase is not MovePhase.ADMITTED or move.gone_since is None:
                continue
            held = (binding["spec"].get("suspension") or {}).get("scheduling") or self._is_paused(template)
            members = self.stage.model.members
            closed = {*self._full, *(name for name in self._clusters if _is_suspended(binding, name))}
            drained = {name for name in self._clusters if self._taints(name)}
            known = ((move.source, closed), (move.target, closed | drained))  # a move returns to a drained source
            places = [place for place, shut in known if not shut & place.keys()]
            whole = [each for each in places if each and all(members.member(name).up for name in each)]
            waited_s = (self.stage.clock.now() - move.gone_since).total_seconds() - move.termination_s
            may_wait = held or not whole or self._limited or self._is_hidden()  # a lowered quota holds it, too
            if may_wait:
                self._waited_s[binding["metadata"]["name"]] = self.stage.clock.monotonic_s()
            last_s = self._waited_s.get(binding["metadata"]["name"], -RETURN_S)
            waited_s = min(waited_s, self.stage.clock.monotonic_s() - last_s)
            if waited_s >= RETURN_S:
                raise self._violation(f"no copies: {move}")

    def _check_away(self) -> None:
        """A workload that is assigned nowhere, or to lost clusters only, is assigned elsewhere if a group is free."""
        now_s = self.stage.clock.monotonic_s()
        for template in self._templates:
            name, binding = template["metadata"]["name"], self.stage.binding(template)
            used = {cluster for cluster, count in self.stage.assignment(template).items() if count}
            waits = bool(used) and self._is_stored(template)  # a failover would lose its volume
            if binding is None or waits or used - self._given_up() or not self._has_place(binding):
                self._away_s.pop(name, None)
                continue
            away_s = now_s - self._away_s.setdefault(name, now_s)
            if away_s >= AWAY_S:
                raise self._violation(f"{name} is nowhere: {binding['metadata']} {binding['status']}")

    def _has_place(self, binding: JSON) -> bool:
        """Whether a group could hold a workload: nothing is known against any of its clusters."""
        if not binding["spec"].get("replicas") or self._full or self._limited or self._braked or self._is_closed():
            return False
        if (binding["spec"].get("suspension") or {}).get("scheduling"):
            return False
        template = next(each for each in self._templates if _is_of(each, binding))
        if self._is_paused(template):
            return False
        held = [each for each in binding["spec"]["placement"]["clusterAffinities"] if "labelSelector" not in each]
        tasks = binding["spec"].get("gracefulEvictionTasks") or ()
        evicted = {each["fromCluster"] for each in tasks if each["reason"] != EVICTION_REASON}
        up = {name for name in self._clusters if self.stage.model.members.member(name).up}
        works, members = self.stage.works(template), self.stage.model.members
        if works.keys() - up - self._given_up():  # a copy that cannot be asked may run
            return False
        open_to_it = {name for name in up - evicted - works.keys() if members.room(name, template) is None}
        free = {name for name in open_to_it if self._is_free(name) and not _is_suspended(binding, name)}
        return any(free >= {*each["clusterNames"]} for each in held)

    def _is_paused(self, template: JSON) -> bool:
        """Whether a new copy of a workload would start no pods anywhere."""
        return bool((self.stage.get(template) or template)["spec"].get("paused"))

    def _given_up(self) -> set[str]:
        """Return the clusters that are not ready for so long that a failover leaves them."""
        latest = self.stage.clock.now() - timedelta(seconds=TOLERATION_S)
        found = {name: self.stage.get(cluster(name)) for name in self._clusters}
        return {name for name, each in found.items() if each and (at := _unready_since(each)) and at <= latest}

    def _is_free(self, name: str) -> bool:
        found = self.stage.get(cluster(name)) or {}
        cpu = found.get("status", {}).get("resourceSummary", {}).get("allocatable", {}).get("cpu")
        return not found.get("spec", {}).get("taints") and _is_ready(found) and cpu == "100"

    def _check_vanished(self) -> None:
        """Nobody deletes Works here, so the copies of a released move are never gone."""
        events = [each.note for each in self.stage.scheduler.recorder.events if each.reason == "MoveCopiesVanished"]
        if events:
            raise self._violation(str(events))

    def _is_hidden(self) -> bool:
        """Whether something has happened that the control plane may not know yet."""
        return self.stage.clock.monotonic_s() - self._disturbed_s < HIDDEN_S

    def _rest(self) -> None:
        """Wait until no workload has a move or a record, and all replicas are healthy in the first group."""
        waited_s, problems = 0.0, [""]
        while problems and waited_s < REST_LIMIT_S:
            self.run(600)
            self.stage.model.members.clean()
            waited_s += 600
            problems = [each for each in map(self._unrest, self._templates) if each]
            problems += [each for each in map(self._unfinished, (BASIN, DEFINITION, SETTINGS, JOB)) if each]
        if problems:
            raise self._violation(f"not at rest after {waited_s:.0f} s: {problems}")

    def _unfinished(self, held: JSON) -> str:
        move = _move_of(self.stage.binding(held))
        return f"{held['kind']}: {move}" if move is not None and move.under_way else ""

    def _unrest(self, template: JSON) -> str:
        binding = self.stage.binding(template)
        move = _move_of(binding)
        # A source that was lost when its move began has come back with its volume: a person decides between the two.
        stays = move is not None and (not move.under_way or move.overdue) and move.cause == Cause.VOLUMES.value
        if move is not None and self._is_retained(template):  # a member that decides its replicas itself
            stays = stays or move.overdue or move.cause == Cause.REPLICAS_RETAINED.value
        stays = stays or (move is not None and move.phase is MovePhase.ELIGIBLE and self._is_too_large(binding))
        if move is not None and not stays:
            return f"a record: {binding['metadata']['annotations'][MOVE]}"
        wanted = {each["name"]: each.get("replicas", 0) for each in binding["spec"].get("clusters") or ()}
        healthy = self.stage.model.members.healthy(template)
        if self._is_retained(template):  # the members decide how many, and keep a zero
            copies = self.stage.model.members.copies(template)
            kept = {name for name, count in wanted.items() if count and (name not in copies or copies[name].wanted)}
            return "" if healthy.keys() == kept else f"only {healthy} run"
        if {name: count for name, count in wanted.items() if count} != healthy:
            return f"{healthy} is healthy, not {wanted}"
        if _is_divided(binding) and sum(wanted.values()) != binding["spec"].get("replicas", 0):
            return f"{wanted} has not {binding['spec']['replicas']} replicas"
        return ""

    def _violation(self, problem: str) -> Violation:
        return Violation(f"{problem}\n" + "\n".join(self.log))


def _has_no_place(binding: JSON) -> bool:
    conditions = binding.get("status", {}).get("conditions", ())
    return any(each["type"] == "Scheduled" and each["status"] == "False" for each in conditions)


def _move_of(binding: JSON | None) -> MoveState | None:
    text = (binding or {"metadata": {}})["metadata"].get("annotations", {}).get(MOVE)
    return None if text is None else decode_json(MoveState, text)


def _is_scaled_down(move: MoveState | None, after: JSON) -> bool:
    """Whether the workload of a move under way was scaled down. That acts at once, as without a move."""
    if move is None or not move.target:
        return False
    count = sum(move.target.values()) if _is_divided(after) else max(move.target.values())
    return count > after["spec"].get("replicas", 0)


def _healthy_by_report(binding: JSON) -> dict[str, int]:
    """Return the replicas that the clusters of a binding report as ready, if they report the workload as applied."""
    reported = binding.get("status", {}).get("aggregatedStatus") or ()
    return {
        each["clusterName"]: (each.get("status") or {}).get("readyReplicas", 0)
        for each in reported
        if each.get("applied")
    }


def _healthy_by_works(works: dict[str, JSON]) -> dict[str, int]:
    """Return the replicas that members report as ready in their Works, by cluster."""
    statuses = {name: work.get("status", {}).get("manifestStatuses") or [{}] for name, work in works.items()}
    return {name: (each[0].get("status") or {}).get("readyReplicas", 0) for name, each in statuses.items()}


def _is_ready(found: JSON | None) -> bool:
    conditions = (found or {}).get("status", {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _unready_since(found: JSON) -> datetime | None:
    """Return since when a cluster is not ready; None if it is."""
    ready = next(each for each in found["status"]["conditions"] if each["type"] == "Ready")
    return None if ready["status"] == "True" else datetime.fromisoformat(ready["lastTransitionTime"])


def _is_of(template: JSON, binding: JSON) -> bool:
    return bool(template["metadata"]["name"] == binding["spec"]["resource"]["name"])


def _grace_s(template: JSON) -> int:
    found: int = template["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    return found


def _purging(mode: str) -> JSON:
    """Return the failover of a policy with a purge mode; nothing for the default."""
    behavior = {"decisionConditions": {"tolerationSeconds": 60}, "purgeMode": mode}
    return {"failover": {"application": behavior}} if mode else {}


_NEW_RUN: Final = frozenset({MovePhase.SURGING, MovePhase.SOAKING})


def _is_suspended(binding: JSON, name: str) -> bool:
    """Whether Karmada dispatches nothing of a workload to a cluster."""
    suspension = binding["spec"].get("suspension") or {}
    named = (suspension.get("dispatchingOnClusters") or {}).get("clusterNames") or ()
    return bool(suspension.get("dispatching")) or name in named


def _is_divided(binding: JSON) -> bool:
    kind: Any = binding["spec"]["placement"]["replicaScheduling"]["replicaSchedulingType"]
    return bool(kind == "Divided")
