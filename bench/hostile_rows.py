"""The worst documents that a user of one namespace can write, and the work on each: the rows of ``make bench-hostile``.

A row is prepared once; its work is what the service does with the document.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

JSON = Any
KB, MIB = 1000, 2**20
Work = Callable[[], object]


class Row(NamedTuple):
    """One hostile document.

    Attributes:
        what: the document in words.
        body: makes the body of the request.
        path: the path that it is sent to.
        fleet: the number of clusters or nodes that the service knows.
        times: how often the service gets it; memory is measured after the last time.
    """

    what: str
    body: Callable[[], bytes]
    path: str
    fleet: int = 0
    times: int = 1

    @property
    def service(self) -> str:
        """The service that has the path."""
        return "webhook" if self.path.startswith(("/validate", "/mutate")) else "extender"


def rows() -> Iterator[Row]:
    """Yield all rows."""
    for size in (64 * KB, 512 * KB, 3 * MIB):
        for verb in ("mutate", "validate"):
            shape = f"{verb} a policy with n groups and n static weights, {_text(size)}"
            yield Row(shape, lambda size=size: _review(_groups_and_weights(size)), f"/{verb}-propagationpolicy")
    for size in (62 * KB, 970 * KB, 1460 * KB):
        yield Row(
            f"mutate a policy with spreadConstraints [{{}},...], {_text(size)}",
            lambda size=size: _review({"placement": {"spreadConstraints": [{}] * (size // 3)}}),
            "/mutate-propagationpolicy",
        )
    yield from _kube_scheduler_rows()
    yield from _kubeadmiral_rows()
    yield from _native_rows()


def _text(size: int) -> str:
    return f"{size // MIB} MiB" if size % MIB == 0 else f"{size // KB} kB"


def _encoded(value: JSON) -> bytes:
    return msgspec.json.encode(value)


def _review(spec: JSON) -> bytes:
    selector = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"}
    policy = {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {
            "name": "hostile",
            "namespace": "shop",
            "labels": {"propagationpolicy.karmada.io/permanent-id": "x"},
        },
        "spec": {"resourceSelectors": [selector], **spec},
    }
    request = {
        "uid": "705ab4f5",
        "kind": {"group": "policy.karmada.io", "version": "v1alpha1", "kind": "PropagationPolicy"},
        "namespace": "shop",
        "operation": "CREATE",
        "userInfo": {"username": "mallory"},
        "object": policy,
    }
    return _encoded({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


def _groups_and_weights(size: int) -> JSON:
    count = size // 130
    groups = [{"affinityName": f"g{each}", "clusterNames": [f"m{each}"]} for each in range(count)]
    weights = [{"targetCluster": {"clusterNames": [f"m{each}"]}, "weight": 1} for each in range(count)]
    strategy = {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {"staticWeightList": weights},
    }
    return {"placement": {"clusterAffinities": groups, "replicaScheduling": strategy}}


def _named_groups(count: int, name: str = "n{}", of: int = 0) -> list[JSON]:
    """Return groups of one cluster each. The names repeat after ``of``, and none exists if the pattern is another."""
    return [
        {"affinityName": f"g{each}", "clusterNames": [name.format(each % of if of else each)]} for each in range(count)
    ]


def _pod(groups: Sequence[JSON]) -> JSON:
    placement = _encoded({"clusterAffinities": groups}).decode()
    annotations = {"policy.berthmaster.io/placement": placement}
    return {"metadata": {"name": "web-1", "namespace": "shop", "uid": "u", "annotations": annotations}, "spec": {}}


def _node(number: int) -> JSON:
    return {"metadata": {"name": f"n{number}"}}


def _kube_scheduler_rows() -> Iterator[Row]:
    for verb in ("filter", "prioritize"):
        path = f"/kube-scheduler/{verb}"
        yield Row(
            f"kube-scheduler {verb}, 3,700 whole nodes and 3,700 groups by name",
            lambda: _encoded({"Pod": _pod(_named_groups(3700)), "Nodes": {"items": [_node(n) for n in range(3700)]}}),
            path,
        )
        yield Row(
            f"kube-scheduler {verb}, 3,700 names and 3,700 groups by name",
            lambda: _encoded({"Pod": _pod(_named_groups(3700)), "NodeNames": [f"n{n}" for n in range(3700)]}),
            path,
            fleet=5000,
        )
    yield Row(
        "kube-scheduler filter, 4,800 groups over 200 names",
        lambda: _encoded({"Pod": _pod(_named_groups(4800, "x{}", 200)), "NodeNames": [f"n{n}" for n in range(200)]}),
        "/kube-scheduler/filter",
        fleet=5000,
    )


def _unit(groups: Sequence[JSON]) -> JSON:
    annotations = {"policy.berthmaster.io/cluster-affinities": _encoded(groups).decode()}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "namespace": "shop",
        "name": "web",
        "annotations": annotations,
        "schedulingMode": "Divide",
        "desiredReplicas": 10**9,
        "resourceRequest": {"cpu": "1"},
    }


def _member(number: int) -> JSON:
    amounts = {"cpu": "4", "memory": "8Gi"}
    resources = {"schedulableNodes": 3, "allocatable": amounts, "available": amounts}
    return {"metadata": {"name": f"n{number}"}, "spec": {}, "status": {"resources": resources}}


def _select(groups: Sequence[JSON], clusters: int) -> bytes:
    scores = [{"cluster": _member(number), "score": 1} for number in range(clusters)]
    return _encoded({"schedulingUnit": _unit(groups), "clusterScores": scores})


def _kubeadmiral_rows() -> Iterator[Row]:
    prefix = "/kubeadmiral/v1alpha1"
    affinity = {"clusterNames": ["n0"]}
    overflow = [{"affinityName": f"o{each}", "clusterNames": [f"n{each}"]} for each in range(1500)]
    expressions = [{"key": f"k{each}", "operator": "DoesNotExist"} for each in range(1500)]
    branches = [{"affinityName": "g", "labelSelector": {"matchExpressions": expressions}}]
    yield Row(
        "KubeAdmiral select, 1,500 clusters and 1,500 groups",
        lambda: _select(_named_groups(1500), 1500),
        f"{prefix}/select",
    )
    yield Row(
        "KubeAdmiral select, 1,500 clusters and 1,500 overflow affinities",
        lambda: _select([{"affinityName": "g", **affinity, "overflowAffinities": overflow}], 1500),
        f"{prefix}/select",
    )
    yield Row(
        "KubeAdmiral select, 1,500 clusters and 1,500 expressions", lambda: _select(branches, 1500), f"{prefix}/select"
    )
    yield Row(
        "KubeAdmiral select, 700,000 clusters with a name only",
        lambda: _encoded({"schedulingUnit": _unit([]), "clusterScores": [{"cluster": {"metadata": {}}}] * 700_000}),
        f"{prefix}/select",
    )
    yield Row(
        "KubeAdmiral filter, 10,900 groups without a selector",
        lambda: _encoded({"schedulingUnit": _unit(_anywhere(10_900)), "cluster": _member(0)}),
        f"{prefix}/filter",
    )
    yield Row(
        "KubeAdmiral filter, an annotation of 262 kB with groups by name",
        lambda: _encoded({"schedulingUnit": _unit(_named_groups(5600, "elsewhere{}")), "cluster": _member(0)}),
        f"{prefix}/filter",
    )


def _binding(placement: JSON, replicas: int = 10) -> JSON:
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"}
    return {
        "metadata": {"name": "web-deployment"},
        "spec": {"resource": resource, "replicas": replicas, "placement": placement},
    }


def cluster(number: int, regions: int) -> JSON:
    """Return a cluster in one of so many regions."""
    enabled = [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}]
    return {
        "metadata": {"name": f"n{number}"},
        "spec": {"region": f"r{number % regions}"},
        "status": {"apiEnablements": enabled, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def _regions(least: int, most: int, clusters: int) -> JSON:
    return [
        {"spreadByField": "region", "minGroups": least, "maxGroups": most},
        {"spreadByField": "cluster", "minGroups": clusters, "maxGroups": clusters},
    ]


def _native_rows() -> Iterator[Row]:
    schedule = "/v1/schedule"
    spread = {"spreadConstraints": _regions(2, 200, 250)}
    hopeless = {"spreadConstraints": _regions(20, 49, 999)}
    yield Row(
        "POST /v1/schedule, own clusters in 300 regions",
        lambda: _encoded({"binding": _binding(spread), "clusters": [cluster(n, 300) for n in range(300)]}),
        schedule,
    )
    yield Row(
        "POST /v1/schedule, 2,754 groups on 1,000 clusters in 50 regions",
        lambda: _encoded({"binding": _binding(hopeless | {"clusterAffinities": _anywhere(2754)})}),
        schedule,
        fleet=1000,
    )
    yield Row(
        "POST /v1/schedule, 1,000 groups on 1,000 clusters in 50 regions",
        lambda: _encoded({"binding": _binding(hopeless | {"clusterAffinities": _anywhere(1000)})}),
        schedule,
        fleet=1000,
    )
    yield Row(
        "POST /v1/schedule, 300,000 groups and a cluster",
        lambda: _encoded({"binding": _binding({"clusterAffinities": _anywhere(300_000)}), "clusters": [cluster(0, 1)]}),
        schedule,
    )
    yield Row(
        "2 x POST /v1/schedule, 121,570 groups, 3 MB",
        lambda: _encoded({"binding": _binding({"clusterAffinities": _anywhere(121_570)})}),
        schedule,
        10,
        2,
    )
    yield Row(
        "POST /v1/plan, 29 MiB of namespaces",
        lambda: _encoded({"namespaces": [str(each) for each in range(3_200_000)]}),
        "/v1/plan",
    )
    yield Row("POST /v1/schedule, 29 MiB of labels", lambda: _labelled(1_700_000), schedule)
    yield Row("POST /v1/schedule, as many labels as are read", lambda: _labelled(590_000), schedule)
    yield Row('a body {"x":[{},...]} of 32 MiB', lambda: b'{"x":[' + b"{}," * (32 * MIB // 3 - 10) + b"{}]}", schedule)
    yield Row(
        'a review {"x":[{},...]} of 7 MiB',
        lambda: b'{"x":[' + b"{}," * (7 * MIB // 3 - 10) + b"{}]}",
        "/validate-propagationpolicy",
    )


def _labelled(labels: int) -> bytes:
    binding = _binding({})
    return _encoded({"binding": {**binding, "metadata": {"labels": {str(each): "1" for each in range(labels)}}}})


def _anywhere(count: int) -> list[JSON]:
    return [{"affinityName": f"g{each}"} for each in range(count)]
