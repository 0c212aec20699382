"""Every way in which a user's document enters the project: a valid document, and the code that works on it.

The documents are complete (``cost_samples.py``). Preparation builds the environment, such as the fleet; only the work
on the document counts. Each call of ``prepare`` starts with empty caches.
"""

import json
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime
from io import BytesIO
from typing import NamedTuple, get_args

import msgspec
from cost_growth import EMBEDDED
from cost_samples import JSON, OMITTED, sample
from fake_clock import FakeClock
from fake_metrics import FakeMetrics

from berthmaster.controllers.preemption.policy_index import PolicyIndex
from berthmaster.controllers.rebalancer import progress
from berthmaster.deciding.decide import ClusterState, decide
from berthmaster.deciding.failover import FailoverOptions
from berthmaster.deciding.writes import status_write
from berthmaster.manifests import load_manifests
from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.cluster_node import Node, cluster_of_node
from berthmaster.model.decode import convert, decode_json
from berthmaster.model.errors import InputError
from berthmaster.model.kubeadmiral.clusters import FederatedCluster
from berthmaster.model.kubeadmiral.policies import KubeAdmiralPolicy
from berthmaster.model.policy import Policy
from berthmaster.model.policy_defaults import defaulted
from berthmaster.model.policy_preemption import Resource
from berthmaster.model.rebalancer import WorkloadRebalancer
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.simulation.changes import WhatIf
from berthmaster.simulation.kubeadmiral.federation import federation_of, run_federation
from berthmaster.simulation.scheduling_cycle import run
from berthmaster.simulation.workload import SimulatedWorkload
from berthmaster.simulation.world import World, world_of
from extender.protocols import kube_scheduler, kubeadmiral, native
from extender.protocols.kube_scheduler.wire import Pod
from extender.protocols.kubeadmiral.wire import ClusterRequest, SelectRequest
from extender.protocols.problem import Refusal
from extender.protocols.services import Call, Services
from extender.state.state import State
from webhook.admission import wire
from webhook.admission.catalog import ROUTES
from webhook.admission.context import AdmissionContext
from webhook.admission.linting import lint
from webhook.admission.reviews import review
from webhook.admission.settings import AdmissionSettings, WebhookMode

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ALWAYS = 1e9
EVERYTHING = AdmissionSettings(mode=WebhookMode.STANDALONE, peer_checks=True)
_LOG = logging.getLogger("cost")
_LOG.setLevel(logging.CRITICAL)
_KARMADA, _KUBEADMIRAL = "policy.karmada.io/v1alpha1", "core.kubeadmiral.io/v1alpha1"
_KINDS: Mapping[tuple[str, str], tuple[type, str]] = {
    ("policy.karmada.io", "PropagationPolicy"): (Policy, _KARMADA),
    ("policy.karmada.io", "ClusterPropagationPolicy"): (Policy, _KARMADA),
    ("core.kubeadmiral.io", "PropagationPolicy"): (KubeAdmiralPolicy, _KUBEADMIRAL),
    ("core.kubeadmiral.io", "ClusterPropagationPolicy"): (KubeAdmiralPolicy, _KUBEADMIRAL),
    ("apps.karmada.io", "WorkloadRebalancer"): (WorkloadRebalancer, "apps.karmada.io/v1alpha1"),
}
_SERVES = {
    "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}]
}

BOUNDED = frozenset(
    {
        "clusterAffinities", "clusterTolerations", "matchExpressions", "matchFields", "overflowAffinities",
        "spreadConstraints", "staticWeightList", "tolerations", EMBEDDED,
    }
)  # fmt: skip
"""Lists that ``PlacementLimits`` bounds. A decision may look at each cluster for each entry: its steps have a limit."""
CORE = frozenset(
    {
        "create through /validate-propagationpolicy",
        "create through /validate-kubeadmiral-propagationpolicy",
        "create through /validate-workloadrebalancer",
        "POST /v1/schedule with clusters",
        "kube-scheduler filter, nodes",
        "KubeAdmiral filter",
        "KubeAdmiral select",
        "decide a binding",
        "rebalance",
    }
)
"""Inputs that together enter every package."""

Work = Callable[[], object]


class Input(NamedTuple):
    """A document and the code that works on it.

    Attributes:
        name: the entry, in words.
        document: a valid document.
        prepare: returns the work on a document.
        environment: the top fields that hold the clusters and the other objects. The result of a simulation has an
            entry for each pair of them. The limits of a placement bound its product with the clusters, see ``BOUNDED``.
    """

    name: str
    document: JSON
    prepare: Callable[[JSON], Work]
    environment: Collection[str] = ("fleet", "bindings", "policies", "clusters", "clusterScores")


def inputs() -> Iterator[Input]:
    yield from _reviews()
    yield from _manifests()
    yield from _extender()
    yield from _controllers()


def manifest(kind: type, api_version: str, name: str, **values: JSON) -> JSON:
    omitted = OMITTED - {"clusterAffinity"} if kind is KubeAdmiralPolicy else OMITTED
    return {**sample(kind, values, omitted), "apiVersion": api_version, "kind": name}


def cluster() -> JSON:
    """Return a Cluster that every affinity of the samples matches."""
    made = manifest(Cluster, "cluster.karmada.io/v1alpha1", "Cluster", **{"metadata.name": "member-0"})
    made["spec"] |= {"region": "region-0", "taints": []}
    made["status"] |= _SERVES | {"conditions": [{"type": "Ready", "status": "True"}]}
    return made


def binding(**values: JSON) -> JSON:
    made = manifest(Binding, "work.karmada.io/v1alpha2", "ResourceBinding", **values)
    made["spec"]["resource"] |= {"apiVersion": "apps/v1", "kind": "Deployment"}
    return made


def _reviews() -> Iterator[Input]:
    for path, route in ROUTES.items():
        kind, api_version = _KINDS[route.group, route.kind]
        written = manifest(kind, api_version, route.kind)
        yield Input(f"create through {path}", {"object": written}, lambda given, path=path: _review(path, given))
        yield Input(
            f"update through {path}", {"object": written, "oldObject": written},
            lambda given, path=path: _review(path, given),
        )  # fmt: skip
    for (group, kind_name), (kind, api_version) in _KINDS.items():
        yield Input(f"lint {kind_name} of {group}", manifest(kind, api_version, kind_name), _lint)


def _review(path: str, given: JSON) -> Work:
    route = ROUTES[path]
    request = {
        "uid": "u", "kind": {"group": route.group, "kind": route.kind}, "namespace": "namespace-0",
        "operation": "UPDATE" if "oldObject" in given else "CREATE", **given,
    }  # fmt: skip
    body = msgspec.json.encode({"apiVersion": wire.API_VERSION, "kind": wire.KIND, "request": request})
    context = AdmissionContext(EVERYTHING, lambda: "id")

    def work() -> bytes:
        asked = wire.decode(body)
        return wire.encode(asked.uid, review(route, asked, context))

    return work


def _lint(given: JSON) -> Work:
    context = AdmissionContext(EVERYTHING, lambda: "id")
    return lambda: lint(given, context, "default")


def _manifests() -> Iterator[Input]:
    deployment = {
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "name-0", "namespace": "namespace-0", "labels": {"key-0": "value-0"}},
        "spec": {"replicas": 2, "template": {"spec": {"containers": [_container()]}}},
    }  # fmt: skip
    policy = manifest(Policy, _KARMADA, "PropagationPolicy")
    yield Input(
        "simulate manifests of Karmada", {"fleet": [cluster()], "objects": [policy, binding(), deployment]}, _simulate
    )
    member = manifest(FederatedCluster, _KUBEADMIRAL, "FederatedCluster", **{"metadata.name": "member-0"})
    bound = {**deployment["metadata"]["labels"], "kubeadmiral.io/propagation-policy-name": "name-0"}
    yield Input(
        "simulate manifests of KubeAdmiral",
        {
            "fleet": [member],
            "objects": [
                manifest(KubeAdmiralPolicy, _KUBEADMIRAL, "PropagationPolicy"),
                {**deployment, "metadata": {**deployment["metadata"], "labels": bound}},
            ],
        },
        _simulate_federation,
    )  # fmt: skip


def _container() -> JSON:
    return {"name": "main-0", "image": "nginx", "resources": {"requests": {"cpu": "100m"}}}


def _stream(given: JSON) -> BytesIO:
    return BytesIO(
        "\n---\n".join(msgspec.json.encode(each).decode() for each in (*given["fleet"], *given["objects"])).encode()
    )


def _simulate(given: JSON) -> Work:
    return lambda: run(world_of(load_manifests(["-"], stdin=_stream(given))), karmada_profile(), NOW, diagnose="all")


def _simulate_federation(given: JSON) -> Work:
    return lambda: run_federation(federation_of(load_manifests(["-"], stdin=_stream(given))), NOW, diagnose=True)


def _extender() -> Iterator[Input]:
    schedule = {"binding": binding(), "clusters": [cluster()]}
    yield Input("POST /v1/schedule with clusters", schedule, lambda given: _call("/v1/schedule", given))
    yield Input(
        "POST /v1/schedule with clusters, explained", schedule,
        lambda given: _call("/v1/schedule", given, query={"explain": "true"}),
    )  # fmt: skip
    shared = {"fleet": [cluster()], "request": {"binding": binding()}}
    yield Input("POST /v1/schedule", shared, lambda given: _call("/v1/schedule", given["request"], given["fleet"]))
    lost = {
        "fleet": [cluster()], "bindings": [binding()], "policies": [manifest(Policy, _KARMADA, "PropagationPolicy")],
        "request": {"changes": [sample(each, {"resource": "Deployment/name-0"}) for each in get_args(WhatIf)]},
    }  # fmt: skip
    yield Input("POST /v1/plan with changes", lost, _plan_request)
    pod = sample(Pod, {"annotations": {"policy.berthmaster.io/placement": json.dumps(_placement())}})
    node = sample(Node, {"metadata.name": "member-0"})
    for verb in ("filter", "prioritize"):
        path = f"/kube-scheduler/{verb}"
        yield Input(
            f"kube-scheduler {verb}, nodes", {"Pod": pod, "Nodes": {"items": [node]}, "NodeNames": None},
            lambda given, path=path: _call(path, given),
        )  # fmt: skip
        yield Input(
            f"kube-scheduler {verb}, names", {"fleet": [node], "request": {"Pod": pod, "NodeNames": ["member-0"]}},
            lambda given, path=path: _call(path, given["request"], given["fleet"], kind=Node),
        )  # fmt: skip
    victims = {"Pod": pod, "NodeNameToMetaVictims": {"member-0": {"Pods": [{"UID": "uid-0"}], "NumPDBViolations": 1}}}
    yield Input(
        "kube-scheduler preempt", {"fleet": [node], "request": victims},
        lambda given: _call("/kube-scheduler/preempt", given["request"], given["fleet"], kind=Node),
    )  # fmt: skip
    groups = {"policy.berthmaster.io/cluster-affinities": json.dumps(_placement()["clusterAffinities"])}
    values = {"schedulingUnit.annotations": groups, "metadata.name": "member-0"}
    omitted = OMITTED - {"clusterAffinity"}
    for verb, kind in (("filter", ClusterRequest), ("score", ClusterRequest), ("select", SelectRequest)):
        path = f"/kubeadmiral/v1alpha1/{verb}"
        document = sample(kind, values, omitted)
        yield Input(f"KubeAdmiral {verb}", document, lambda given, path=path: _call(path, given))


def _placement() -> JSON:
    affinity = {
        "affinityName": "group-0", "clusterNames": ["member-0"], "exclude": ["elsewhere-0"],
        "labelSelector": {"matchExpressions": [{"key": "key-0", "operator": "Exists"}]},
    }  # fmt: skip
    return {"clusterAffinities": [{**affinity, "overflowAffinities": [{**affinity, "affinityName": "more-0"}]}]}


def _services(fleet: JSON = (), kind: type = Cluster, bindings: JSON = (), policies: JSON = ()) -> Services:
    state = State(karmada_profile())
    with state.updating(NOW) as cache:
        clusters = [cluster_of_node(convert(Node, each)) if kind is Node else convert(kind, each) for each in fleet]
        listed = [convert(Binding, each) for each in bindings]
        stored = tuple(defaulted(convert(Policy, each)) for each in policies)
        cache.replace(World({each.name: each for each in clusters}, _workloads(listed), stored))
    return Services(state, FakeMetrics(), _LOG, FakeClock())


def _workloads(bindings: list[Binding]) -> list[SimulatedWorkload]:
    return [SimulatedWorkload(each.spec.resource, (), each) for each in bindings]


def _call(
    path: str, given: JSON, fleet: JSON = (), *, kind: type = Cluster, query: Mapping[str, str] | None = None
) -> Work:
    services = _services(fleet, kind)
    call = Call("request", ALWAYS, msgspec.json.encode(given), query=query or {})
    return _answering(path, services, call)


def _answering(path: str, services: Services, call: Call) -> Work:
    routes = [*native.routes(), *kubeadmiral.routes(), *kube_scheduler.routes()]
    (route,) = [each for each in routes if each.path == path and each.method == "POST"]

    def work() -> bytes:
        try:
            reply = route.handler(services, call)
        except (InputError, Refusal) as error:
            return str(error).encode()
        return reply.body if isinstance(reply.body, bytes) else b"".join(reply.body)

    return work


def _plan_request(given: JSON) -> Work:
    services = _services(given["fleet"], bindings=given["bindings"], policies=given["policies"])
    call = Call("request", ALWAYS, msgspec.json.encode(given["request"]))
    return _answering("/v1/plan", services, call)


def _controllers() -> Iterator[Input]:
    yield Input("decide a binding", {"fleet": [cluster()], "binding": binding()}, _decide)
    yield Input("observe policies", [manifest(Policy, _KARMADA, "PropagationPolicy")], _observe)
    yield Input("rebalance", manifest(WorkloadRebalancer, "apps.karmada.io/v1alpha1", "WorkloadRebalancer"), _rebalance)


def _decide(given: JSON) -> Work:
    fleet = Fleet([convert(Cluster, each) for each in given["fleet"]])
    state = ClusterState(Scheduler(fleet, karmada_profile()), {}, FailoverOptions())
    body = msgspec.json.encode(given["binding"])

    def work() -> object:
        found = decode_json(Binding, body)
        decided = decide(state, found, 0.0, explain=True)
        written = decided.write.patch(found) if decided.write is not None else None
        return written, status_write(found, decided.result, NOW, refresh=True).patch(found)

    return work


def _observe(given: JSON) -> Work:
    policies = [convert(Policy, each) for each in given]
    resource = Resource("apps/v1", "Deployment", "namespace-0", "name-0")

    def work() -> None:
        index = PolicyIndex()
        for each in policies:
            index.update(None, each)
        index.naming(resource)
        for each in policies:
            index.update(each, None)

    return work


def _rebalance(given: JSON) -> Work:
    body = msgspec.json.encode(given)

    def work() -> object:
        rebalancer = decode_json(WorkloadRebalancer, body)
        return progress.decide_progress(rebalancer, {}, NOW)

    return work
