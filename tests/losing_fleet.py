"""Fleets in use that lose clusters, or get another policy: what each answer calls left, beside what members then run.

The control plane, its schedulers and its members are modelled twice: the change happens to one, and not to the other.
A workload is left if fewer of its replicas run with the change than without it, and fewer than it should have.
"""

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from asked_extender import AskedExtender, changes_of, form_of
from fleet_in_use import FleetInUse
from kube_store import JSON
from one_question import Figures, failed, losses_of, planned, reviewed, simulated

from berthmaster.model.decode import convert, encode_json
from berthmaster.model.meta import with_spec
from berthmaster.model.policy import Policy
from berthmaster.model.policy_defaults import defaulted
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.simulation.failures import DomainLoss, Failures
from berthmaster.simulation.plan_answer import DEFAULT_BRAKE, Switch
from berthmaster.simulation.world import World

_PROFILE: Final = karmada_profile()
_PURGE_MODES: Final = ("", "", "Directly", "Gracefully")
_LOSSES: Final = ("nowhere", "short")
_REPORT_S: Final = 5.0
"""After this time members have reported what overrides change."""
_ASKED: Final = 4
"""Every so many fleets are asked over the API, too, which takes as long as everything else."""
_EDITED: Final = 2
"""Every so many fleets get another policy, too."""


class LosingFleet:
    """A fleet in use, and what happens to it: the loss of a cluster or region, and another placement in a policy.

    Some policies say how a failover purges, and some workloads are overridden: their replicas, or their image. Not
    compared are those that only a restart of their scheduler would place, and after an edit those that wait for a purge
    in any case. Neither are those with a Work that is being deleted on a cluster out of reach, and that Karmada does
    not report any more: nothing tells a simulation, which then says that a loss stops what does not run before either.

    The schedulers start just after the loss: no copy that they start then becomes healthy on a lost cluster. They
    notice the loss later.

    Args:
        seed: of everything random.
        own: whether Berthmaster's scheduler decides, or karmada-scheduler by its rules.

    Attributes:
        cases: how many workloads of each kind were compared.
    """

    def __init__(self, seed: int, *, own: bool) -> None:
        self._seed, self._own = seed, own
        self._draw = random.Random(f"{seed}-{own}-loss")
        self.cases: Counter[str] = Counter()

    def differences(self) -> Iterator[str]:
        """Ask about each change, let it happen, and yield what happened otherwise."""
        yield from self._after_a_loss(*self._fleets())
        if self._seed % _EDITED == 0:
            yield from self._after_an_edit(*self._fleets())

    def _fleets(self) -> tuple[FleetInUse, FleetInUse]:
        """Return two equal fleets."""
        fleet, other = (FleetInUse(self._seed, own=self._own) for _ in range(2))
        for each in (fleet, other) if self._seed % 2 else ():
            each.go_on()
        modes = {each["metadata"]["name"]: self._draw.choice(_PURGE_MODES) for each in fleet.policies}
        overrides = [self._override(fleet, each) for each in self._draw.sample(fleet.templates, 2)]
        for each in (fleet, other):
            _set_purge_modes(each, modes)
            for override in overrides:
                each.stage.put(json.loads(json.dumps(override)))
            each.stage.run(_REPORT_S)
        return fleet, other

    def _override(self, fleet: FleetInUse, template: JSON) -> JSON:
        """Return an override of a workload on some clusters: its replicas, or its image."""
        path, value = self._draw.choice(
            (("/spec/replicas", 0), ("/spec/replicas", 1), ("/spec/template/spec/containers/0/image", "other"))
        )
        names = [each["metadata"]["name"] for each in fleet.clusters]
        rule = {
            "targetCluster": {"clusterNames": self._draw.sample(names, 2)},
            "overriders": {"plaintext": [{"path": path, "operator": "replace", "value": value}]},
        }
        name, namespace = template["metadata"]["name"], template["metadata"]["namespace"]
        return {
            "apiVersion": "policy.karmada.io/v1alpha1",
            "kind": "OverridePolicy",
            "metadata": {"name": f"o-{name}", "namespace": namespace},
            "spec": {
                "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": name}],
                "overrideRules": [rule],
            },
        }

    def _after_a_loss(self, fleet: FleetInUse, other: FleetInUse) -> Iterator[str]:
        world, now = fleet.world(), fleet.stage.clock.now()
        losses = [each for each in losses_of(world) if _is_plain(each, world)]
        if not losses:
            return
        loss = self._draw.choice(losses)
        changes = changes_of(loss)
        answers = {
            "simulate": simulated(world, changes, now),
            "plan": planned(world, changes, now),
            "resilience": failed(Failures(world, _PROFILE, now), loss),
        }
        question = form_of(changes, Switch.AUTO)
        if self._seed % _ASKED == 0 and question is not None:
            with AskedExtender(fleet) as extender:
                answers["What if"] = extender.what_if(question)
        unknown = {each["metadata"]["name"] for each in fleet.templates if _hangs_unreported(fleet, each)}
        for name in loss.clusters:
            fleet.stage.model.members.lose(name)
        unknown |= _started(fleet, other, world)
        for name, happened in self._happened(fleet, other, unknown):
            for answer, figures in answers.items():
                said = next((each for each in _LOSSES if f"shop/Deployment/{name}" in figures[each]), "")
                if said != happened:
                    yield f"{', '.join(loss.clusters)} lost: {answer} says {said!r} of {name}, happened {happened!r}"

    def _after_an_edit(self, fleet: FleetInUse, other: FleetInUse) -> Iterator[str]:
        """Yield the differences after a policy has another placement. The gate counts Lazy ones as if they moved."""
        lazy = {each["metadata"]["name"] for each in fleet.policies if each["spec"].get("activationPreference")}
        eager = [each for each in fleet.edited_policies() if not (each.lazy or each.metadata.name in lazy)]
        if not eager:
            return
        world, now, placement = fleet.world(), fleet.stage.clock.now(), eager[0].spec.placement
        stored = next(each for each in fleet.policies if each["metadata"]["name"] == eager[0].metadata.name)
        edited = with_spec(defaulted(convert(Policy, fleet.stage.get(stored))), placement=placement)
        answers: dict[str, Figures] = reviewed(world, edited, now)
        counts = tuple(len(answers["plan"][each]) for each in _LOSSES)
        if self._seed % _ASKED == 0:
            with AskedExtender(fleet) as extender:
                judged = extender.reviewed(edited)
            if judged != counts:
                yield f"{edited.reference}: the gate counts {judged}, plan {counts}"
        unknown = _started(fleet, other, world)
        fleet.stage.edit(stored, spec={"placement": None})
        fleet.stage.edit(stored, spec={"placement": json.loads(encode_json(placement))})
        for name, happened in self._happened(fleet, other, unknown):
            if _waits_for_a_purge(other, _template(other, name)):
                continue  # nothing that the edit changes starts, as without it
            for answer, figures in answers.items():
                said = next((each for each in _LOSSES if f"shop/Deployment/{name}" in figures[each]), "")
                if said != happened:
                    yield f"{edited.reference}: {answer} says {said!r} of {name}, happened {happened!r}"

    def _happened(self, fleet: FleetInUse, other: FleetInUse, unknown: set[str]) -> Iterator[tuple[str, str]]:
        """Let everything come to rest, and yield the workloads to compare, with how the change left them."""
        for each in (fleet, other):
            each.rest()
        for template in fleet.templates:
            name = template["metadata"]["name"]
            if name in unknown:
                continue
            happened = _left(fleet, other, template)
            self.cases[happened] += 1
            self.cases["overridden"] += bool(_replicas_set(fleet, template))
            yield name, happened


def _template(fleet: FleetInUse, name: str) -> JSON:
    return next(each for each in fleet.templates if each["metadata"]["name"] == name)


def _set_purge_modes(fleet: FleetInUse, modes: Mapping[str, str]) -> None:
    """Write into policies how a failover purges the copies on the clusters that it leaves. Empty leaves a policy."""
    for each in fleet.policies:
        if mode := modes[each["metadata"]["name"]]:
            fleet.stage.edit(each, spec={"failover": {"cluster": {"purgeMode": mode}}})


def _started(fleet: FleetInUse, other: FleetInUse, world: World) -> set[str]:
    """Start the schedulers of both fleets, let them do what is due, and return the workloads not to compare."""
    unknown = fleet.waiting_for_a_restart(world)
    for each in (fleet, other):
        each.start_schedulers()
        each.stage.settle()
    return unknown


def _is_plain(loss: DomainLoss, world: World) -> bool:
    """Return whether all clusters of a loss are ready until then, and they are too few for the storm brake."""
    lost = [world.clusters[name] for name in loss.clusters]
    return len(lost) < DEFAULT_BRAKE.min_clusters and all(each.ready and not each.deleting for each in lost)


def _running(fleet: FleetInUse, template: JSON) -> dict[str, int]:
    """Return the replicas of a workload that run where its binding has them."""
    healthy = fleet.stage.model.members.healthy(template)
    return {name: healthy[name] for name in fleet.stage.assignment(template) if name in healthy}


def _left(fleet: FleetInUse, other: FleetInUse, template: JSON) -> str:
    """Return whether a change leaves a workload "nowhere" or "short"; empty if it leaves it alone.

    A duplicated workload has all replicas on each cluster: one copy is enough. One with 0 replicas wants none.
    """
    runs, otherwise = _running(fleet, template), _running(other, template)
    if not _wanted(fleet, template):
        return ""
    if _fails(fleet, template) and not _fails(other, template):
        return "short" if runs else "nowhere"
    if not runs:
        return "nowhere" if otherwise else ""
    binding = fleet.stage.binding(template) or {"spec": {}}
    scheduling = (binding["spec"].get("placement") or {}).get("replicaScheduling") or {}
    if scheduling.get("replicaSchedulingType") != "Divided":
        return ""
    assigned, wanted = fleet.stage.assignment(template), _wanted(fleet, template)
    overridden = {name: _replicas_set(fleet, template).get(name, count) for name, count in assigned.items()}
    without = other.stage.assignment(template)
    arriving = {name: count for name, count in overridden.items() if assigned[name] > without.get(name, 0)}
    if all(count <= runs.get(name, 0) for name, count in arriving.items()):
        wanted = min(sum(otherwise.values()), wanted)
    else:
        wanted += sum(overridden.values()) - sum(assigned.values())
    return "short" if sum(runs.values()) < wanted else ""


def _wanted(fleet: FleetInUse, template: JSON) -> int:
    return int((fleet.stage.get(template) or template)["spec"]["replicas"])


def _waits_for_a_purge(fleet: FleetInUse, template: JSON) -> bool:
    """Return whether Karmada cannot delete a copy of a workload, because its cluster is out of reach."""
    works, members = fleet.stage.works(template), fleet.stage.model.members
    return any("deletionTimestamp" in each["metadata"] and not members.member(name).up for name, each in works.items())


def _hangs_unreported(fleet: FleetInUse, template: JSON) -> bool:
    """Return whether a Work hangs in deletion that the status of the binding does not show."""
    status = (fleet.stage.binding(template) or {}).get("status") or {}
    reported = {each["clusterName"] for each in status.get("aggregatedStatus") or ()}
    works, members = fleet.stage.works(template), fleet.stage.model.members
    return any(
        "deletionTimestamp" in each["metadata"] and not members.member(name).up and name not in reported
        for name, each in works.items()
    )


def _fails(fleet: FleetInUse, template: JSON) -> bool:
    return bool(fleet.stage.condition(template).get("status") == "False")


def _replicas_set(fleet: FleetInUse, template: JSON) -> dict[str, int]:
    """Return the replicas that overrides set for the copies of a workload, by cluster."""
    found = {}
    for each in fleet.stage.model.objects.all("OverridePolicy"):
        if template["metadata"]["name"] not in [selector["name"] for selector in each["spec"]["resourceSelectors"]]:
            continue
        for rule in each["spec"]["overrideRules"]:
            for written in rule["overriders"]["plaintext"]:
                if written["path"] == "/spec/replicas":
                    found |= dict.fromkeys(rule["targetCluster"]["clusterNames"], written["value"])
    return found
