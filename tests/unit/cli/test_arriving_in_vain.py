"""Replicas that arrive where they do not run, workloads without room, and clusters that are gone: what commands say."""

import json

import pytest
from fleet_dump import RECORD
from karmada_plane import DIVIDED, binding, cluster, deployment, policy, selector
from tables import cases

SUSPENDED = {"suspension": {"dispatching": True}}
NOT_ON_B = {"suspension": {"dispatchingOnClusters": {"clusterNames": ["b"]}}}
PURGED_FIRST = {"failover": {"cluster": {"purgeMode": "Directly"}}}
WEB = "shop/Deployment/web"


def workload(replicas=4, *, scheduler="default-scheduler", placement=None, more=None, **clusters):
    """A policy, a Deployment and its binding. ``more``: fields of the policy."""
    held = policy("web", selector(name="web"), placement=placement or DIVIDED, schedulerName=scheduler, **(more or {}))
    template = deployment("web", replicas, by=held)
    bound = binding(template, held, **clusters)
    bound["spec"] |= {"schedulerName": scheduler, "replicas": replicas, **(more or {})}
    for number, each in enumerate((held, template, bound)):
        each["metadata"]["uid"] = f"web-{number}"
    return [held, template, bound]


def unready(name):
    made = cluster(name)
    made["status"]["conditions"][0]["status"] = "False"
    return made


def only(name):
    return {**DIVIDED, "clusterAffinity": {"clusterNames": [name]}}


READY = [cluster("a"), cluster("b")]


@cases(
    ("line", "clusters", "objects", "code", "why"),
    {
        "a failover to where dispatching is suspended": (
            "simulate --down a --failover=on --check", READY, workload(a=4, more=NOT_ON_B), 1,
            "replicas do not start on b: dispatching to it is suspended",
        ),
        "dispatching is suspended everywhere": (
            "simulate --down a --failover=on --check", READY, workload(a=4, more=SUSPENDED), 1,
            "replicas do not start on b: dispatching to it is suspended",
        ),
        "the same failure in a ranking": (
            "resilience --failover=on --check", READY, workload(a=4, more=NOT_ON_B), 1, "web"
        ),
        "a scale on a lost cluster": (
            "simulate --down a --scale shop/deploy/web=12 --check", READY, workload(a=2, b=2), 1,
            "replicas do not start on a: the cluster is lost",
        ),
        "a scale on a cluster that is not ready": (
            "simulate --scale shop/deploy/web=12 --check", [unready("a"), cluster("b")], workload(a=2, b=2), 1,
            "replicas do not start on a: the cluster is not ready",
        ),
        "a failover that purges first, from a cluster that is out of reach": (
            "simulate --down a --failover=on --check", READY, workload(a=4, more=PURGED_FIRST), 1,
            "replicas do not start on b: a copy on a cluster that is out of reach must be deleted first",
        ),
        "the same failover in a ranking": (
            "resilience --failover=on --check", READY, workload(a=4, more=PURGED_FIRST), 1, "web"
        ),
        "a lost cluster, and no replicas": (
            "simulate --down a --failover=on --check", [cluster("a")], workload(0, a=0), 0, "nothing stops"
        ),
        "a scale on ready clusters": (
            "simulate --scale shop/deploy/web=12 --check", READY, workload(a=2, b=2), 0,
            "its replicas change from 4 to 12",
        ),
        "a cluster that is gone, and Berthmaster's scheduler": (
            "simulate -o wide", READY, workload(a=2, ghost=2, scheduler="berthmaster"), 0,
            "Failover: now on a=2 ghost=2",
        ),
    },
)  # fmt: skip
def test_what_does_not_run_counts(on_objects, line, clusters, objects, code, why):
    assert why in on_objects(line, RECORD, *clusters, *objects, code=code).stdout


@cases(
    ("stored", "changed", "nowhere", "message"),
    {
        "a policy that moves it to where dispatching is suspended": (
            workload(a=4, placement=only("a"), more=NOT_ON_B), workload(placement=only("b"), more=NOT_ON_B)[:1], True,
            "replicas do not start on b: dispatching to it is suspended",
        ),
        "a template with more replicas where dispatching is suspended": (
            workload(a=4, placement=only("a"), more=SUSPENDED), workload(9, more=SUSPENDED)[1:2], False,
            "replicas do not start on a: dispatching to it is suspended",
        ),
    },
)  # fmt: skip
def test_a_plan_loses_what_does_not_start(on_objects, tmp_path, stored, changed, nowhere, message):
    file = tmp_path / "stored.json"
    file.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [RECORD, *READY, *stored]}))
    line = f"plan --against {file} --fail-on lost -o json"
    (row,) = json.loads(on_objects(line, *changed, code=3).stdout)["unplaced"]
    assert (row["resource"], row["nowhere"], row["byChange"], row["message"]) == (WEB, nowhere, True, message)


@cases(("replicas", "code"), {"a workload": (4, 3), "one that is scaled to 0": (0, 0)})
def test_a_placement_that_fits_no_cluster(on_objects, tmp_path, replicas, code):
    stored, changed = workload(replicas, a=replicas), workload(replicas, placement=only("c"))[:1]
    file = tmp_path / "stored.json"
    file.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [RECORD, *READY, *stored]}))
    plan = json.loads(on_objects(f"plan --against {file} --fail-on lost -o json", *changed, code=code).stdout)
    assert [each["resource"] for each in plan["unplaced"]] == ([WEB] if replicas else [])


@pytest.mark.parametrize("output", ["table", "markdown"])
def test_a_workload_that_finds_no_room_keeps_what_it_has(on_objects, tmp_path, output):
    full = cluster("b", 1)
    stored, file = workload(a=4, placement=only("a")), tmp_path / "stored.json"
    file.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [RECORD, cluster("a"), full, *stored]}))
    changed = workload(placement=only("b"))[:1]
    text = on_objects(f"plan --against {file} -o {output}", *changed).stdout
    assert "keeps what it has" in text
    assert "too few replicas" not in text
