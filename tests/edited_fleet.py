"""Random control planes whose policies are edited: what each command says before an edit, beside what then happens.

The control plane is the model of Karmada with Berthmaster's binding scheduler, in memory and on the thread of the test.
Templates change between the edits, so that their records and bindings have every history. Asked are the plan, the
simulation and the explanation of a policy file over the control plane, and sometimes the plan of an extender. Every
difference is a sentence in the result of ``EditedFleet.edit``.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import reduce
from typing import Any, Final

from extender_in_process import ExtenderInProcess
from karmada_model.detector import binding_of
from karmada_model.members import Delays
from karmada_model.model import Settings
from karmada_model.stage import Stage
from karmada_plane import cluster, deployment, policy, resource, selector
from kube_store import JSON
from switched_on import world_of

from berthmaster.controllers.settings import ControllerSettings
from berthmaster.deciding.rules import KARMADA
from berthmaster.deciding.running import wants_copies
from berthmaster.manifests import Document, manifests_of, overlaid
from berthmaster.manifests.snapshot import FleetSnapshot
from berthmaster.model.binding import Binding
from berthmaster.model.decode import convert
from berthmaster.model.holding import PolicyCatalog
from berthmaster.model.move import as_moved
from berthmaster.model.policy import Policy
from berthmaster.model.policy_defaults import defaulted
from berthmaster.native_api.what_if import PlanRequest, PolicyName
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.pending_replicas import LIFETIME_S
from berthmaster.simulation.change_set import ChangeSet, PlanIndex, changed_workloads, key_of
from berthmaster.simulation.detector import Detector
from berthmaster.simulation.plan_answer import Plan, PlannedMove, Switch
from berthmaster.simulation.planner import explained, plan, simulated
from berthmaster.simulation.world import World

ONLY: Final = ("garbage", "detector", "bindings", "dependencies", "evictions", "members", "status")
KARMADA_SCHEDULER: Final = "default-scheduler"
_KINDS: Final = (
    "Cluster", "PropagationPolicy", "ClusterPropagationPolicy", "ResourceBinding", "ClusterResourceBinding",
    "Deployment", "ConfigMap", "ClusterRole",
)  # fmt: skip
_ASKS_EXTENDER: Final = 0.02
_TEAMS: Final = ("red", "green", "blue")
_PROFILE: Final = karmada_profile()


class EditedFleet:
    """A random control plane, and random edits of its policies.

    Args:
        seed: of everything random.
        deducts: whether decisions see the replicas that decisions before them add, as Berthmaster's scheduler does.
            Karmada's scheduler does not.
    """

    def __init__(self, seed: int, *, deducts: bool = False) -> None:
        self._draw = random.Random(f"{seed}-{deducts}")
        self._deducts = deducts
        self._scheduler = "berthmaster" if deducts else KARMADA_SCHEDULER
        self._names = 0
        self._lazy = self._draw.choice((0.0, 0.15, 0.5))
        self._templates = self._random_templates()
        self._policies = {each["metadata"]["name"]: each for each in (self._policy() for _ in range(5))}
        self.stage = Stage(
            *self._clusters(),
            *self._policies.values(),
            *self._templates,
            karmada=Settings(preemption=True, delays=Delays(0, 0, 0, 0, 0)),
            settings=ControllerSettings(scheduler_name=self._scheduler),
            only=ONLY,
        )
        if not deducts:
            deduct_nothing(self.stage)
            decide_as_karmada(self.stage)
        self.stage.settle()

    def edit(self) -> list[str]:
        """Plan a random edit, do it, and return how what happens differs from the plan."""
        if self._draw.random() < 0.5:
            self._edit_template()
        # Until then no replicas are pending any more, which no plan can know.
        self.stage.run(2 * LIFETIME_S)
        before = {str(each["metadata"]["name"]): each for each in self._policies.values()}
        edits = self._random_edits()
        now, (deleted, applied) = self.stage.clock.now(), _sorted_out(edits, before)
        changes = ChangeSet(
            policies=tuple(defaulted(convert(Policy, each)) for each in applied),
            deleted_policies=tuple(convert(Policy, each).reference for each in deleted),
        )
        stored, index = self._stored(), PlanIndex(self._world(), _PROFILE)
        found = plan(index, changes, now)
        differences = list(_overlooked(index, changes, now))
        if self._draw.random() < _ASKS_EXTENDER:
            differences += self._of_extender(found, changes)
        over = self._world(applied) if not deleted else None
        for each in deleted:
            self.stage.delete(each)
        for each in applied:
            self.stage.apply(each)
            while self.stage.model.step():
                pass  # the detector finishes with one policy before the next is applied; the scheduler is slower
        self.stage.settle()
        after = self._stored()
        differences += self._differences(found, stored, after)
        if over is not None:
            differences += self._of_policy_file(over, now, after)
        what = ", ".join([*(f"delete {each}" for each in deleted), *(f"apply {each}" for each in applied)])
        return [f"{difference}\n  after {what}" for difference in differences]

    # What is random

    def _clusters(self) -> Iterator[JSON]:
        for number in range(self._draw.randint(3, 6)):
            labels = {"env": self._draw.choice(("prod", "stage")), "tier": str(number % 2)}
            yield cluster(f"m{number}", self._draw.randint(3, 30), **labels)

    def _random_templates(self) -> list[JSON]:
        found = []
        for number in range(self._draw.randint(4, 9)):
            volumes = [{"name": "v", "configMap": {"name": f"c{number % 3}"}}] if self._draw.random() < 0.4 else []
            template = deployment(f"w{number}", self._draw.randint(0, 6), volumes=volumes)
            template["metadata"]["labels"]["team"] = self._draw.choice(_TEAMS)
            found.append(template)
        for number in range(3):
            config = resource(f"c{number}", "ConfigMap", data={})
            config["metadata"]["labels"] = {"team": self._draw.choice(_TEAMS)}
            found.append(config)
        found.append(resource("viewer", "ClusterRole", "rbac.authorization.k8s.io/v1", namespace="", rules=[]))
        return found

    def _edit_template(self) -> None:
        """Change the replicas or the labels of a template: a Lazy policy counts, or its policy does not select it."""
        template = self._draw.choice(self._templates)
        if template["kind"] == "Deployment" and self._draw.random() < 0.6:
            self.stage.scale(template, self._draw.randint(0, 6))
        elif template["kind"] != "ClusterRole":
            self.stage.edit(template, metadata={"labels": {"team": self._draw.choice(_TEAMS)}})
        self.stage.settle()

    def _random_edits(self) -> dict[str, JSON | None]:
        """Return the policies that an edit changes: one, or those of a file with several."""
        name, after = self._random_edit()
        found = {name: after}
        while after is not None and self._draw.random() < 0.3:
            policies = dict(self._policies)
            name, after = self._random_edit()
            if after is None or name in found:
                self._policies = policies
                break
            found[name] = after
        return found

    def _random_edit(self) -> tuple[str, JSON | None]:
        """Return the name of a policy and its new content; None to delete it."""
        kind = self._draw.random()
        if kind < 0.2 or not self._policies:
            created = self._policy()
            self._policies[created["metadata"]["name"]] = created
            return created["metadata"]["name"], created
        name = self._draw.choice(sorted(self._policies))
        if kind < 0.35:
            del self._policies[name]
            return name, None
        old, fresh = self._policies[name], self._policy(self._policies[name])
        kept = [field for field in fresh["spec"] if self._draw.random() < 0.5]
        spec = {**fresh["spec"], **{field: old["spec"][field] for field in kept if field in old["spec"]}}
        if any("name" not in each for each in spec["resourceSelectors"]):
            spec["preemption"] = "Never"
        if self._wakes_otherwise(old["spec"]["priority"], spec["priority"]):
            spec["priority"] = old["spec"]["priority"]
        self._policies[name] = {**fresh, "spec": spec}
        return name, self._policies[name]

    def _wakes_otherwise(self, old: int, new: int) -> bool:
        """Whether a drop in priority has an effect in Karmada that depends on chance, or is not Berthmaster's.

        Karmada does not wake a policy of the old priority. Berthmaster does. Whether a Lazy policy that a drop wakes
        changes bindings at once depends on which of two queues is faster.
        """
        woken = [each["spec"] for each in self._policies.values() if new < each["spec"]["priority"] <= old]
        return any(each["priority"] == old or "activationPreference" in each for each in woken)

    def _policy(self, like: JSON | None = None) -> JSON:
        if like is None:
            self._names += 1
            name, namespace = f"p{self._names}", self._draw.choice(("shop", "shop", ""))
        else:
            name, namespace = like["metadata"]["name"], like["metadata"].get("namespace", "")
        selectors = list(self._selectors(namespace))
        named = all("name" in each for each in selectors)
        return policy(
            name, *selectors,
            namespace=namespace,
            placement=self._placement(),
            schedulerName=self._scheduler,
            priority=self._draw.randint(0, 3),
            preemption="Always" if named and self._draw.random() < 0.6 else "Never",
            propagateDeps=self._draw.random() < 0.3,
            preserveResourcesOnDeletion=self._draw.random() < 0.1,
            **({"activationPreference": "Lazy"} if self._draw.random() < self._lazy else {}),
        )  # fmt: skip

    def _selectors(self, namespace: str) -> Iterator[JSON]:
        for _ in range(self._draw.randint(1, 3)):
            within = {"namespace": "shop"} if namespace or self._draw.random() < 0.7 else {}
            template = self._draw.choice(self._templates)
            kind, api_version = template["kind"], template["apiVersion"]
            if kind == "ClusterRole":
                within = {}
            match self._draw.randrange(4):
                case 0 | 1:
                    yield selector(kind, api_version, name=template["metadata"]["name"], **within)
                case 2:
                    labels = {"matchLabels": {"team": self._draw.choice(_TEAMS)}}
                    yield selector(kind, api_version, labelSelector=labels, **within)
                case _:
                    yield selector(kind, api_version, **within)

    def _placement(self) -> JSON:
        found: JSON = {"replicaScheduling": self._strategy()}
        match self._draw.randrange(4):
            case 0:
                found["clusterAffinity"] = self._affinity()
            case 1 | 2:
                names = self._draw.sample(("first", "second", "third"), self._draw.randint(1, 3))
                found["clusterAffinities"] = [{"affinityName": name, **self._affinity()} for name in names]
        if self._draw.random() < 0.4:
            found["spreadConstraints"] = [
                {"spreadByField": "cluster", "minGroups": 1, "maxGroups": self._draw.randint(1, 3)}
            ]
        return found

    def _affinity(self) -> JSON:
        if self._draw.random() < 0.4:
            return {"clusterNames": [f"m{self._draw.randrange(8)}" for _ in range(self._draw.randint(1, 3))]}
        key, values = self._draw.choice((("env", ("prod", "stage")), ("tier", ("0", "1", "2"))))
        return {"labelSelector": {"matchLabels": {key: self._draw.choice(values)}}}

    def _strategy(self) -> JSON:
        kind = self._draw.randrange(4)
        if kind == 0:
            return {"replicaSchedulingType": "Duplicated"}
        if kind == 1:
            return {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}
        weights: JSON = {"dynamicWeight": "AvailableReplicas"}
        if kind == 2:
            targets = [{"clusterNames": [f"m{number}"]} for number in self._draw.sample(range(6), 2)]
            weights = {"staticWeightList": [{"targetCluster": each, "weight": 1 + n} for n, each in enumerate(targets)]}
        return {
            "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted", "weightPreference": weights,
        }  # fmt: skip

    # What the commands say

    def _world(self, over: Sequence[JSON] = ()) -> World:
        """Return the world of a live control plane, with the policies of a file over it."""
        objects, snapshot = self.stage.model.objects, FleetSnapshot("the model", self.stage.clock.now())
        stored = [Document(kind, 0, "", dict(each)) for kind in _KINDS for each in objects.all(kind)]
        applied = [Document("policies.yaml", number, "", dict(each)) for number, each in enumerate(over, 1)]
        documents = [Document("", 0, "", snapshot.manifest()), *overlaid(stored, applied)]
        return world_of(manifests_of(documents, "the model"), schedulers={self._scheduler})

    def _of_policy_file(self, over: World, now: datetime, after: dict[str, JSON]) -> Iterator[str]:
        """Yield how a simulation and an explanation of a policy file differ from what happened."""
        compared = simulated(over, ChangeSet(), _PROFILE, now).workloads
        chosen = self._draw.randrange(len(compared))
        explanation = explained(over, over.workloads[chosen], ChangeSet(), _PROFILE, now)[0].after
        for command, result in [*(("simulate", each.settled) for each in compared), ("explain", explanation)]:
            then, held_by = after[str(result.workload)], result.workload.held_by
            if (held_by.name if held_by is not None else "") != then["holder"]:
                yield f"{result.workload}: held by {then['holder']!r}; {command} says {held_by}"
            if not self._deducts and result.assignment != then["clusters"]:
                yield f"{result.workload}: is on {then['clusters']}; {command} says {result.assignment}"

    def _of_extender(self, found: Plan, changes: ChangeSet) -> Iterator[str]:
        """Yield how the plan of an extender, which watches the control plane, differs."""
        extender = ExtenderInProcess(self.stage.api)
        try:
            stored = {each.reference for each in extender.state.world().policies}
            created, updated = (
                tuple(each for each in changes.policies if (each.reference in stored) is old) for old in (False, True)
            )
            deleted = tuple(PolicyName(each.kind, each.name, each.namespace) for each in changes.deleted_policies)
            request = PlanRequest(created, updated, deleted, preemption=Switch.ON)
            answer = extender.client().plan(request).plan
        finally:
            extender.stop()
        if len(changes.policies) < 2 and (answer.id, answer.gaps) != (found.id, found.gaps):
            yield f"the extender plans {answer.moves}, {answer.policies}, {answer.gaps}; the command {found}"

    # What happens

    def _stored(self) -> dict[str, JSON]:
        """Return what is stored about each template, by its name on the command line."""
        return {_name(each): self._state(each) for each in self._templates}

    def _state(self, template: JSON) -> JSON:
        binding = self.stage.model.objects.get(binding_of(template)) or {"spec": {}}
        spec, status = binding["spec"], binding.get("status", {})
        clusters = {each["name"]: each.get("replicas", 0) for each in spec.get("clusters") or ()}
        required = [
            each["name"] for snapshot in spec.get("requiredBy") or () for each in snapshot.get("clusters") or ()
        ]
        present, leaving, wanted = clusters, frozenset[str](), True
        group = status.get("schedulerObservingAffinityName", "")
        if "metadata" in binding:  # a move under way ends well, and its old copies go then
            moved = as_moved(convert(Binding, dict(binding)))
            wanted = wants_copies(moved)
            leaving = frozenset(clusters.keys() - moved.assignment.keys() - {*required})
            clusters, group = moved.assignment, moved.status.scheduler_observing_affinity_name
        present, clusters = ({**dict.fromkeys(required, 0), **each} for each in (present, clusters))
        conditions = {each["type"]: each for each in status.get("conditions") or ()}
        found = self.stage.works(template)
        works = {name for name, work in found.items() if "deletionTimestamp" not in work["metadata"]}
        # A placement without groups leaves the name of the last one in the status.
        grouped = bool(spec.get("clusters") and (spec.get("placement") or {}).get("clusterAffinities"))
        return {
            "present": present,
            "clusters": clusters,
            "group": group if grouped else "",
            "holder": self.stage.holder(template),
            "works": works,
            "copies": works - leaving,
            "failed": wanted and conditions.get("Scheduled", {}).get("status") == "False",
        }

    def _differences(self, found: Plan, before: dict[str, JSON], after: dict[str, JSON]) -> Iterator[str]:
        moves = {each.resource: each for each in found.moves}
        failed = {each.resource for each in found.unplaced}
        lost = {each.resource for each in found.unplaced if each.by_change}
        claims = dict(_claims(found))
        if not found.complete:
            yield f"the plan is incomplete: {found.gaps}"
        for name, then in before.items():
            now, move = after[name], moves.pop(name, None)
            if claims.get(name, then["holder"]) != now["holder"]:
                yield f"{name}: held by {now['holder']!r}; the plan says {claims.get(name, then['holder'])!r}"
            if self._deducts and len(found.moves) > 1:
                continue  # each decision depends on the order of the others
            yield from _of_move(name, move, then, now)
            if name in failed and not now["failed"]:
                yield f"{name}: the plan says that it cannot be scheduled; it is"
            if now["failed"] and not then["failed"] and name not in lost:
                yield f"{name}: cannot be scheduled, which the plan does not say"
        if moves.keys() - before.keys():
            yield f"the plan moves unknown resources: {sorted(moves)}"


def _sorted_out(edits: Mapping[str, JSON | None], before: Mapping[str, JSON]) -> tuple[list[JSON], list[JSON]]:
    deleted = [before[name] for name, each in edits.items() if each is None]
    return deleted, [each for each in edits.values() if each is not None]


def _overlooked(index: PlanIndex, changes: ChangeSet, now: datetime) -> Iterator[str]:
    """Yield the workloads that edits concern although the index does not find them."""
    found = changed_workloads(index, changes, now, index.get)
    policies, detectors = tuple(index.world.policies), []
    for edit in found.edits:
        policies = edit.applied(policies)
        detectors.append(Detector(edit, PolicyCatalog(policies), preempts=True))
    for workload in index.world.workloads:
        after = reduce(lambda each, detector: detector.detected(each), detectors, workload)
        if after != found.after.get(key_of(workload.resource), workload):
            yield f"{workload}: the plan has another workload after the edits"


def _of_move(name: str, move: PlannedMove | None, then: JSON, now: JSON) -> Iterator[str]:
    """Yield how a planned move differs. It starts where copies are now; a move that was under way ends without it."""
    if move is not None and move.before != then["present"]:
        yield f"{name}: is on {then['present']}; the plan says {move}"
    planned = move.after if move is not None else then["clusters"]
    if planned != now["clusters"]:
        yield f"{name}: goes from {then['clusters']} to {now['clusters']}; the plan says {planned} ({move})"
    if move is not None and (move.group or "") != now["group"]:
        yield f"{name}: gets the group {now['group']!r}; the plan says {move.group!r}"
    deleted = set(move.deleted) | set(move.preserved) if move is not None else set()
    lost = then["copies" if move is None else "works"] - now["copies"]
    if deleted != lost:
        yield f"{name}: loses the copies {sorted(lost)}; the plan says {sorted(deleted)}"


def _claims(found: Plan) -> Iterator[tuple[str, str]]:
    """Yield the resources whose holder changes, and the name of the new one."""
    for effect in found.policies:
        for change in (*effect.gains, *effect.takes, *effect.loses, *effect.unclaimed):
            yield change.resource, (change.after or "").rpartition(" ")[2].rpartition("/")[2]


def _name(template: JSON) -> str:
    metadata = template["metadata"]
    return "/".join(filter(None, (metadata.get("namespace"), template["kind"], metadata["name"])))


def deduct_nothing(stage: Stage) -> None:
    """Let decisions see only what clusters report, as karmada-scheduler's do."""
    assert stage.scheduler is not None
    assumed: Any = stage.scheduler.controller._clusters._assumed  # noqa: SLF001 - decisions without assumptions exist in tests only
    assumed.assume = assumed.adopt = lambda *_: []


def decide_as_karmada(stage: Stage) -> None:
    """Let the scheduler decide by the rules of karmada-scheduler."""
    assert stage.scheduler is not None
    cache: Any = stage.scheduler.controller._clusters  # noqa: SLF001 - a scheduler with other rules exists in tests only
    cache._state = replace(cache._state, rules=KARMADA)  # noqa: SLF001 - as above
