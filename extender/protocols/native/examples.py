"""The examples of the OpenAPI document. The handlers of the API answer them, about a small fleet."""

import logging
from datetime import UTC, datetime
from typing import Any, Final

from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import convert, encode_json, read_json
from berthmaster.runtime.clock import SystemClock
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.simulation.workload import SimulatedWorkload
from berthmaster.simulation.world import World
from extender.protocols.route import Route
from extender.protocols.services import Call, Services
from extender.state.state import State

_NOW: Final = datetime(2026, 1, 15, 12, tzinfo=UTC)
_LIMIT_S: Final = 10.0
_PATH_VALUES: Final = {"namespace": "shop", "name": "web-deployment"}
LOST_CLUSTER: Final = {"changes": [{"type": "down", "cluster": "private-1"}]}


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


CLUSTERS: Final = [_cluster("private-1", "private", "4"), _cluster("public-1", "public", "32")]


def _group(name: str) -> dict[str, Any]:
    return {"affinityName": name, "labelSelector": {"matchLabels": {"group": name}}}


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


class _ExampleClock(SystemClock):
    """The time of day of the examples. Deadlines follow the real clock."""

    def now(self) -> datetime:
        return _NOW


class _NoMetrics:
    """Counts nothing: an example is no request."""

    def __getattr__(self, _name: str) -> Any:  # noqa: ANN401 - each method of ServiceMetrics
        return lambda *_: None


def example_services() -> Services:
    """Return services that know the fleet of the examples: a workload in its first group, and no policy."""
    spec = {**BINDING["spec"], "clusters": [{"name": "private-1", "replicas": 6}]}
    status = {"schedulerObservingAffinityName": "private"}
    binding = convert(Binding, {**BINDING, "spec": spec, "status": status})
    template = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}}
    workload = SimulatedWorkload(binding.spec.resource, (), binding, template, present=True)
    state = State(karmada_profile())
    with state.updating(_NOW) as cache:
        state.fingerprint.set(encode_json(CLUSTERS))
        cache.replace(World({raw["metadata"]["name"]: convert(Cluster, raw) for raw in CLUSTERS}, [workload]))
    metrics: Any = _NoMetrics()
    return Services(state, metrics, logging.getLogger("berthmaster.examples"), _ExampleClock())


def answer_of(route: Route, services: Services) -> Any:  # noqa: ANN401 - a JSON value
    """Return the answer to the first example of a request; of a stream, to its first line."""
    operation = route.operation
    sent = encode_json(next(iter(operation.bodies.values()))) if operation is not None and operation.bodies else b""
    query = {name: each.schema["examples"][0] for name, each in (route.query or {}).items() if each.required}
    deadline_s = services.clock.monotonic_s() + _LIMIT_S
    answer = route.handler(services, Call("example", deadline_s, sent, query, _PATH_VALUES)).body
    return read_json(answer if isinstance(answer, bytes) else next(answer))
