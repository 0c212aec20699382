"""Which workloads need a resource in a cluster."""

import random

import pytest
from builders import binding
from tables import cases

from berthmaster.controllers.binding_scheduler.need_index import NeedIndex
from berthmaster.model.binding import Binding, BindingSnapshot, GracefulEvictionTask, TargetCluster
from berthmaster.model.meta import with_spec

CONFIG = binding("settings", namespace="shop", kind="ConfigMap", api_version="v1")
INGRESS = binding("web", namespace="shop", kind="Ingress", api_version="networking.k8s.io/v1")
EXPORT = binding("web", namespace="shop", kind="ServiceExport", api_version="multicluster.x-k8s.io/v1alpha1")
ROLE = binding("reader", namespace="", kind="ClusterRole", api_version="rbac.authorization.k8s.io/v1")
CRD = binding(
    "basins.example.org", namespace="", kind="CustomResourceDefinition", api_version="apiextensions.k8s.io/v1"
)
WEB = binding("web", namespace="shop", clusters={"c1": 2})
BASIN = binding("north", namespace="water", kind="Basin", api_version="example.org/v1", clusters={"c1": 0})
TASK = GracefulEvictionTask("c1")
LEADER = BindingSnapshot("web-deployment", "shop", (TargetCluster("c1"),))


@cases(
    ("asked", "defines", "others", "expected"),
    {
        "a workload of the namespace": (CONFIG, "", [WEB], ("shop/Deployment/web",)),
        "of another namespace": (CONFIG, "", [BASIN], ()),
        "another ConfigMap runs nothing": (
            CONFIG, "", [with_spec(CONFIG, clusters=(TargetCluster("c1"),))], (),
        ),
        "an Ingress sends requests to it": (INGRESS, "", [WEB], ("shop/Deployment/web",)),
        "it is exported to other clusters": (EXPORT, "", [WEB], ("shop/Deployment/web",)),
        "an Ingress runs nothing": (CONFIG, "", [with_spec(INGRESS, clusters=(TargetCluster("c1"),))], ()),
        "in another cluster": (CONFIG, "", [binding("web", namespace="shop", clusters={"c2": 2})], ()),
        "it is being evicted there": (
            CONFIG, "", [with_spec(WEB, clusters=(), graceful_eviction_tasks=(TASK,))], ("shop/Deployment/web",),
        ),
        "it follows another workload there": (
            CONFIG, "", [with_spec(WEB, clusters=(), required_by=(LEADER,))], ("shop/Deployment/web",),
        ),
        "without a namespace": (ROLE, "", [WEB, BASIN], ("shop/Deployment/web", "water/Basin/north")),
        "a definition": (CRD, "Basin.example.org", [WEB, BASIN], ("water/Basin/north",)),
        "a definition of another kind": (CRD, "Lake.example.org", [WEB, BASIN], ()),
        "a workload is needed by nothing": (WEB, "", [WEB, BASIN], ()),
    },
)  # fmt: skip
def test_who_needs_a_resource(asked: Binding, defines: str, others: list[Binding], expected: tuple[str, ...]):
    index = NeedIndex()
    for each in others:
        index.changed(each.metadata.key, None, each)
    assert index.needing(asked, "c1", defines) == expected


@pytest.mark.parametrize("seed", range(20))
def test_the_index_answers_as_all_bindings_do(seed: int):
    chance = random.Random(seed)
    index, known = NeedIndex(), dict[str, Binding]()
    for _ in range(200):
        name = chance.choice("abcdef")
        clusters = dict.fromkeys(chance.sample(["c1", "c2", "c3"], chance.randint(0, 3)), 1)
        after = None if chance.random() < 0.2 else binding(name, namespace="shop", clusters=clusters)
        index.changed(("shop", name), known.get(name), after)
        known = {key: each for key, each in known.items() if key != name} | ({} if after is None else {name: after})
    for cluster in ("c1", "c2", "c3"):
        plain = sorted(f"shop/Deployment/{name}" for name, each in known.items() if cluster in each.assignment)
        assert index.needing(CONFIG, cluster, "") == tuple(plain[:4])
