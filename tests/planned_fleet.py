"""A fleet and a change for tests of plans: moves, a preemption, a workload without a place, and an override."""

from typing import Any

from builders import deployment
from fleet_dump import DIVIDED, members, stored_binding, stored_policy, stored_template

JSON = dict[str, Any]
AGGREGATED = DIVIDED


def template(name: str, by: JSON | None, replicas: int = 2, cpu: str = "100m") -> JSON:
    return stored_template(deployment(name, replicas=replicas, requests={"cpu": cpu}), held_by=by)


def bound(raw: JSON, by: JSON, clusters: dict[str, int], **fields: Any) -> JSON:
    return stored_binding(raw, clusters, policy=by, replicas=sum(clusters.values()), **fields)


def named(name: str) -> JSON:
    return {"target": {"name": name}}


def to(name: str, *clusters: str, **fields: Any) -> JSON:
    """A policy that places on some clusters what it names, by default the Deployment of its own name."""
    return stored_policy(name, to=clusters, placement=DIVIDED, **{**named(name), **fields})


def fleet() -> list[JSON]:
    """Four clusters; web and api on a, batch on b, stuck on c, and free without a policy."""
    web, api, batch, stuck = to("web", "a"), to("api", "a"), to("batch", "b"), to("stuck", "c")
    web_template, api_template = template("web", web, 4), template("api", api, 3)
    batch_template, stuck_template = template("batch", batch, 70), template("stuck", stuck, 1)
    return [
        *members("a", "b", "c", "d"),
        web, api, batch, stuck,
        web_template, bound(web_template, web, {"a": 4}),
        api_template, bound(api_template, api, {"a": 3}),
        batch_template, bound(batch_template, batch, {"b": 70}),
        stuck_template, bound(stuck_template, stuck, {"c": 1}),
        template("free", None, 2),
    ]  # fmt: skip


def change() -> list[JSON]:
    """The policies that are applied: web moves, api is taken over, stuck loses its place, free is claimed."""
    static = {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"staticWeightList": [{"targetCluster": {"clusterNames": ["d"]}, "weight": 1}]},
    }  # fmt: skip
    return [
        to("web", "b", "c"),
        to("taker", "c", priority=5, preemption="Always", new=True, **named("api")),
        to("stuck", "elsewhere"),
        stored_policy("batch", to=["d"], placement={"replicaScheduling": static}, **named("batch")),
        to("free", "d", new=True),
        {
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
            "metadata": {"name": "images", "namespace": "default"}, "spec": {"overrideRules": []},
        },
    ]  # fmt: skip
