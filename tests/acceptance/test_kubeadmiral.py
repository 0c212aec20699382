"""KubeAdmiral's scheduler asks Berthmaster's webhook plugin. There is no model of it, so this needs a real one."""

import time
import uuid
from collections.abc import Iterator

import pytest
from acceptance.federation import Federation, kubeconfig
from e2e.processes import Processes
from kube_store import JSON
from tables import cases

from berthmaster.kube.http_client import load_client

SETTLE_S = 5.0
TAINT = {"key": "maintenance", "effect": "NoSchedule"}


@pytest.fixture
def federation(processes: Processes) -> Iterator[Federation]:
    made = Federation(load_client(kubeconfig()), processes, uuid.uuid4().hex[:8])
    yield made
    made.close()


@cases(
    ("taints", "groups", "expected"),
    {
        "the first group": ([], {"near": ["m1"], "far": ["m2"]}, {"m1": 4}),
        "the second group if the first one is tainted": ([TAINT], {"near": ["m1"], "far": ["m2"]}, {"m2": 4}),
        "all clusters without groups": ([], {}, {"m1": 2, "m2": 2}),
    },
)
def test_a_workload_goes_to(
    federation: Federation, taints: list[JSON], groups: dict[str, list[str]], expected: dict[str, int]
):
    federation.cluster("m1", *taints)
    federation.cluster("m2")
    federation.policy("web")
    federation.deployment("web", **groups)
    federation.expect(expected)


def test_scaling_stays_in_the_group(federation: Federation):
    for name in ("m1", "m2", "m3"):
        federation.cluster(name)
    federation.policy("web")
    web = federation.deployment("web", near=["m1", "m2"], far=["m3"])
    federation.expect({"m1": 2, "m2": 2})
    federation.edit(web, spec={"replicas": 8})
    federation.expect({"m1": 4, "m2": 4})
    federation.edit(web, spec={"replicas": 2})
    federation.expect({"m1": 1, "m2": 1})


def test_a_policy_without_rescheduling_keeps_clusters_and_replicas(federation: Federation):
    federation.cluster("m1")
    federation.cluster("m2")
    federation.policy("web", reschedulePolicy={"disableRescheduling": True})
    web = federation.deployment("web", near=["m1"], far=["m2"])
    federation.expect({"m1": 4})
    federation.edit(web, metadata={"annotations": federation.groups(far=["m2"])})
    federation.edit(web, spec={"replicas": 6})
    federation.wait("the object has the new template", lambda: federation.template()["spec"]["replicas"] == 6)
    time.sleep(SETTLE_S)
    assert federation.placement() == {"m1": 4}
