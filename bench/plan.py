"""Time plans: ``make bench-plan``; ``make bench-plan ARGS="--workloads 1000 --clusters 100"``.

The control plane has 10,000 Deployments with bindings on 1,000 clusters, held by policies of all strategies. Each
policy holds 100 of them. The figures: to build the index, to take a world in which one workload differs, to plan an
edit of one policy that moves what it holds, and to plan a policy that claims every workload and moves most.
"""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import click
from msgspec.structs import replace
from workloads import Scenario, generated_fleet

from berthmaster.manifests import Document, Manifests
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import convert
from berthmaster.model.policy import Policy
from berthmaster.model.policy_defaults import defaulted
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.simulation.change_set import ChangeSet, PlanIndex
from berthmaster.simulation.plan_answer import Plan
from berthmaster.simulation.planner import plan
from berthmaster.simulation.scheduling_cycle import run
from berthmaster.simulation.world import World, world_of

_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_LATER = datetime(2026, 1, 2, tzinfo=UTC)
_HELD = 100
_API = "policy.karmada.io/v1alpha1"
_STRATEGIES: tuple[dict[str, Any], ...] = (
    {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"},
    },
    {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"},
    {"replicaSchedulingType": "Duplicated"},
)
_SPREAD = [{"spreadByField": "cluster", "minGroups": 2, "maxGroups": 5}]


def policy(number: int, tier: int, selector: dict[str, Any], *, everywhere: bool = False, **spec: Any) -> Policy:  # noqa: ANN401
    """Return a policy that places what it selects on clusters of one tier."""
    metadata: dict[str, Any] = {"name": "all"} if everywhere else {"name": f"policy-{number}", "namespace": "default"}
    affinity = {"labelSelector": {"matchLabels": {"tier": str(tier)}}}
    placement = {
        "clusterAffinity": affinity, "spreadConstraints": _SPREAD,
        "replicaScheduling": _STRATEGIES[number % len(_STRATEGIES)],
    }  # fmt: skip
    raw = {
        "apiVersion": _API,
        "kind": "ClusterPropagationPolicy" if everywhere else "PropagationPolicy",
        "metadata": metadata,
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", **selector}],
            "placement": placement,
            **spec,
        },
    }
    return defaulted(convert(Policy, raw))


def owned(number: int) -> dict[str, Any]:
    """Return the selector of the workloads of one policy."""
    return {"labelSelector": {"matchLabels": {"owner": str(number)}}}


def templates(workloads: int) -> Iterator[Document]:
    """Yield Deployments, of which 100 each have the same owner."""
    for number in range(workloads):
        container = {"name": "app", "image": "app", "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}
        metadata = {"name": f"app-{number}", "namespace": "default", "labels": {"owner": str(number // _HELD)}}
        raw = {
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
            "spec": {"replicas": 1 + number % 20, "template": {"spec": {"containers": [container]}}},
        }  # fmt: skip
        yield Document("bench", number + 1, "", raw)


def settled_world(clusters: tuple[Cluster, ...], workloads: int) -> World:
    """Return a world in which every workload is scheduled."""
    policies = [policy(number, number % 5, owned(number)) for number in range((workloads + _HELD - 1) // _HELD)]
    manifests = Manifests(clusters=list(clusters), policies=policies, templates=list(templates(workloads)))
    world, _ = run(world_of(manifests), karmada_profile(), _NOW)
    return replace(world, workloads=[replace(each, present=True) for each in world.workloads])


def with_one_changed(world: World) -> World:
    """Return the world in which one workload is another object."""
    first, *others = world.workloads
    return replace(world, workloads=[replace(first, notes=("it differs",)), *others])


def timed(name: str, work: Callable[[], Plan | PlanIndex | None], limit_s: float | None = None) -> None:
    """Print the best time of three runs, and what a plan found."""
    best_s, found = float("inf"), None
    for _ in range(3):
        start = time.perf_counter()
        found = work()
        best_s = min(best_s, time.perf_counter() - start)
    moved = f"{found.summary.moved} of {found.summary.workloads} move" if isinstance(found, Plan) else ""
    limit = f"limit {limit_s:g} s" if limit_s is not None else ""
    print(f"{name:<52} {best_s * 1e3:>9.1f} ms   {moved:<24} {limit}")


@click.command()
@click.option("--workloads", default=10_000, show_default=True, help="The number of workloads.")
@click.option("--clusters", default=1000, show_default=True, help="The number of clusters.")
@click.option("--seed", default=1, show_default=True)
def main(workloads: int, clusters: int, seed: int) -> None:
    """Time plans of small and of large changes."""
    fleet: Scenario = generated_fleet(seed, clusters)
    world = settled_world(fleet.clusters, workloads)
    profile = karmada_profile()
    index = PlanIndex(world, profile)
    changed = with_one_changed(world)
    worlds = [world, changed]
    small = ChangeSet(policies=(policy(0, 3, owned(0)),))
    # The policies of the namespace go first, so that everything is free for the one that claims all.
    everything = ChangeSet(
        policies=(policy(1, 2, {}, everywhere=True),),
        deleted_policies=tuple(each.reference for each in world.policies),
    )

    def update() -> None:
        worlds.reverse()
        index.update(worlds[0])

    print(f"{workloads} workloads, {clusters} clusters, {len(world.policies)} policies")
    timed("build the index", lambda: PlanIndex(world, profile))
    timed("take a world in which one workload differs", update)
    timed(f"plan a policy that holds {_HELD} workloads", lambda: plan(index, small, _LATER), 1)
    timed("plan a policy that claims all workloads", lambda: plan(index, everything, _LATER), 10)


if __name__ == "__main__":
    main()
