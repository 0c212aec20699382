"""The examples of the OpenAPI document. The scheduler computes the answers."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from msgspec.structs import replace as replace_fields

from berthmaster.model.binding import Binding
from berthmaster.model.claims import Claim, MatchLevel
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import builtins, convert
from berthmaster.model.policy import Policy, defaulted
from berthmaster.native_api.fleet import FleetView, StateVersion, WorkloadQuery
from berthmaster.native_api.outlook import BindingOutlook
from berthmaster.native_api.what_if import simulate_answer
from berthmaster.scheduling.fleet import fleet_of
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.simulation.change_set import ChangeSet, PlanIndex
from berthmaster.simulation.changes import Down
from berthmaster.simulation.group_outlook import outlook
from berthmaster.simulation.plan_review import ReviewLimits, review_plan
from berthmaster.simulation.planner import plan, planned_fleet
from berthmaster.simulation.report import explanation
from berthmaster.simulation.run import examine
from berthmaster.simulation.why_not import request_of, why_not
from berthmaster.simulation.workload import SimulatedWorkload
from berthmaster.simulation.world import World
from extender.protocols.native.bindings import view_of
from extender.protocols.native.fleet import cluster_page, staleness_of
from extender.protocols.native.fleet_view import cluster_row
from extender.protocols.native.plan import plan_answer
from extender.protocols.native.review import review_answer
from extender.protocols.native.schedule import decide_on
from extender.protocols.native.why import claims_view, why_not_view
from extender.protocols.native.workload_page import listed as listed_workloads
from extender.state.placed_index import PlacedIndex
from extender.state.placed_workload import placed_workload
from extender.state.state import FleetCache, Freshness

_VERSION: Final = "6abae0eca71124037aad184301762bb9"
_NOW: Final = datetime(2026, 1, 15, 12, tzinfo=UTC)


def _cluster(name: str, group: str, cpu: str) -> dict[str, Any]:
    return {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name, "labels": {"group": group}},
        "spec": {"region": "eu-west"},
        "status": {
            "apiEnablements": [
                {"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}
            ],
            "conditions": [{"type": "Ready", "status": "True"}],
            "resourceSummary": {"allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "110"}},
        },
    }


def _group(name: str) -> dict[str, Any]:
    return {"affinityName": name, "labelSelector": {"matchLabels": {"group": name}}}


CLUSTERS: Final = [_cluster("private-1", "private", "4"), _cluster("public-1", "public", "32")]
BINDING: Final[dict[str, Any]] = {
    "apiVersion": "work.karmada.io/v1alpha2",
    "kind": "ResourceBinding",
    "metadata": {"name": "web-deployment", "namespace": "shop"},
    "spec": {
        "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
        "replicas": 6,
        "replicaRequirements": {"resourceRequest": {"cpu": "500m", "memory": "1Gi"}},
        "placement": {
            "clusterAffinities": [_group("private"), _group("public")],
            "replicaScheduling": {
                "replicaSchedulingType": "Divided",
                "replicaDivisionPreference": "Weighted",
                "weightPreference": {"dynamicWeight": "AvailableReplicas"},
            },
        },
    },
}
SCHEDULE: Final = {"binding": BINDING}
SCHEDULE_OWN_FLEET: Final = {"binding": BINDING, "clusters": CLUSTERS}
PLAN: Final[dict[str, Any]] = {
    "create": [
        {
            "kind": "PropagationPolicy",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {
                "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}],
                "placement": {**BINDING["spec"]["placement"], "clusterAffinities": [_group("public")]},
            },
        }
    ]
}
REVIEW: Final[dict[str, Any]] = {
    "change": {"type": "set", "policy": PLAN["create"][0], "creates": True},
    "limits": {"moved": 50, "percent": 20, "lost": 0},
    "timeoutMs": 2000,
}
SIMULATE: Final = {"changes": [{"type": "down", "cluster": "private-1"}]}


def decided(*, diagnose: bool = False) -> Any:  # noqa: ANN401 - a JSON value
    """Return the answer to ``SCHEDULE``."""
    return builtins(decide_on(_scheduler(), convert(Binding, BINDING), diagnose=diagnose))


def simulated() -> Any:  # noqa: ANN401 - a JSON value
    """Return the answer to ``SIMULATE``."""
    fleet = planned_fleet(_world(), ChangeSet(edits=(Down("private-1"),)), karmada_profile(), _NOW)
    return builtins(simulate_answer(fleet, show_all=False))


def planned() -> Any:  # noqa: ANN401 - a JSON value
    """Return the answer to ``PLAN``."""
    (written,) = PLAN["create"]
    changes = ChangeSet(policies=(defaulted(convert(Policy, written)),))
    found = plan(PlanIndex(_placed_world(), karmada_profile()), changes, _NOW)
    return builtins(plan_answer(found, 1000, staleness_of(Freshness(_NOW))))


def reviewed() -> Any:  # noqa: ANN401 - a JSON value
    """Return the answer to ``REVIEW``."""
    written, limits = REVIEW["change"]["policy"], convert(ReviewLimits, REVIEW["limits"])
    changes = ChangeSet(policies=(defaulted(convert(Policy, written)),))
    return builtins(review_answer(review_plan(PlanIndex(_placed_world(), karmada_profile()), changes, _NOW, limits)))


def listed() -> Any:  # noqa: ANN401 - a JSON value
    """Return a page of the fleet."""
    cache = FleetCache(karmada_profile())
    cache.replace(_world())
    return builtins(cluster_page(cache, Freshness(_NOW), "", 2))


def explained() -> Any:  # noqa: ANN401 - a JSON value
    """Return the explained decision on a binding."""
    return builtins(explanation(examine(_scheduler(), _world().workloads[0], _NOW)))


def outlook_of_binding() -> Any:  # noqa: ANN401 - a JSON value
    """Return what the groups of a binding could hold."""
    looked = outlook(_scheduler(), Request.of(convert(Binding, BINDING)))
    return builtins(BindingOutlook(looked.groups, None, None, "", [], [], staleness_of(Freshness(_NOW))))


def described() -> Any:  # noqa: ANN401 - a JSON value
    """Return a binding as the service knows it."""
    (workload,) = _world().workloads
    status = {"schedulerObservingAffinityName": "private"}
    spec = {**BINDING["spec"], "clusters": [{"name": "private-1", "replicas": 6}]}
    return builtins(
        view_of(workload, convert(Binding, {**BINDING, "spec": spec, "status": status}), [], Freshness(_NOW))
    )


def claimed() -> Any:  # noqa: ANN401 - a JSON value
    """Return which policies match a workload."""
    (workload,) = _world().workloads
    (written,) = PLAN["create"]
    policy = defaulted(convert(Policy, written))
    held = replace(workload, claims=(Claim(policy, MatchLevel.NAME),), why_not=("",), held_by=policy.reference)
    return builtins(claims_view(held, [], _VERSION, Freshness(_NOW)))


def not_there() -> Any:  # noqa: ANN401 - a JSON value
    """Return why a workload does not run on a cluster."""
    scheduler, (workload,) = _scheduler(), _placed_world().workloads
    found = why_not(scheduler, request_of(examine(scheduler, workload, _NOW)), "private-1")
    return builtins(why_not_view(found, [], _VERSION, Freshness(_NOW)))


def fleet() -> Any:  # noqa: ANN401 - a JSON value
    """Return the fleet, and what is assigned to it."""
    index, clusters = _placed_index(), [convert(Cluster, raw) for raw in CLUSTERS]
    rows = [cluster_row(each, index.use(each.name), reported=True) for each in clusters]
    return builtins(FleetView(rows, _VERSION, [], staleness_of(Freshness(_NOW))))


def workloads() -> Any:  # noqa: ANN401 - a JSON value
    """Return the page of all workloads."""
    return builtins(
        replace_fields(
            listed_workloads(_placed_index(), WorkloadQuery(), _NOW),
            version=_VERSION,
            staleness=staleness_of(Freshness(_NOW)),
        )
    )


def version() -> Any:  # noqa: ANN401 - a JSON value
    """Return the version of the state."""
    return builtins(StateVersion(_VERSION, staleness_of(Freshness(_NOW))))


def _placed_index() -> PlacedIndex:
    spec = {**BINDING["spec"], "clusters": [{"name": "private-1", "replicas": 6}]}
    status = {"schedulerObservingAffinityName": "private"}
    binding = convert(Binding, {**BINDING, "spec": spec, "status": status})
    return PlacedIndex([(("shop", "web-deployment"), placed_workload(binding))])


def _scheduler() -> Scheduler:
    return Scheduler(fleet_of([convert(Cluster, raw) for raw in CLUSTERS]), karmada_profile())


def _placed_world() -> World:
    """Return a world in which the workload runs and no policy holds it."""
    spec = {**BINDING["spec"], "clusters": [{"name": "private-1", "replicas": 6}]}
    template = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}}
    binding = convert(Binding, {**BINDING, "spec": spec})
    workload = SimulatedWorkload(binding.spec.resource, (), binding, template, present=True)
    return replace(_world(), workloads=[workload])


def _world() -> World:
    binding = convert(Binding, BINDING)
    clusters = {raw["metadata"]["name"]: convert(Cluster, raw) for raw in CLUSTERS}
    return World(clusters, [SimulatedWorkload(binding.spec.resource, (), binding)])
