"""Works, evictions, clusters, members and statuses of the model keep to karmada-moves.md."""

import random
from datetime import timedelta
from typing import Any

import pytest
from fake_clock import START
from karmada_model.evictions import assessed, evict
from karmada_model.model import Settings
from karmada_model.objects import stamp
from karmada_model.stage import Stage
from karmada_plane import cluster, deployment, policy, selector
from kube_store import JSON

WEB = deployment("web", 4)
WEB_POLICY = policy("p", selector(name="web"), schedulerName="berthmaster")
SETTLED_S = 60.0


def placed(*names: str, **spec: Any) -> Stage:
    stage = Stage(*(cluster(name) for name in names), {**WEB_POLICY, "spec": {**WEB_POLICY["spec"], **spec}}, WEB)
    stage.run(SETTLED_S)
    assert sum(stage.model.members.healthy(WEB).values()) == 4
    return stage


def assign(stage: Stage, clusters: dict[str, int], **spec: Any) -> None:
    """Write an assignment, as any scheduler would."""
    wanted = [{"name": name, "replicas": replicas} for name, replicas in clusters.items()]
    binding = stage.binding(WEB)
    assert binding is not None
    stage.edit(binding, spec={"clusters": wanted, "schedulerName": "another-scheduler", **spec})


def task(name: str, **fields: Any) -> JSON:
    return {"fromCluster": name, "reason": "Test", "producer": "Test", "purgeMode": "Gracefully", **fields}


@pytest.mark.parametrize(
    ("clusters", "spec", "works"),
    [
        pytest.param({"m1": 2, "m2": 2}, {}, {"m1": 2, "m2": 2}, id="each entry gets a Work with its replicas"),
        pytest.param({"m1": 4, "m2": 4}, {}, {"m1": 4, "m2": 4}, id="the sum may exceed the replicas"),
        pytest.param({"m2": 4}, {}, {"m2": 4}, id="a cluster that left the assignment loses its Work at once"),
        pytest.param(
            {"m2": 4}, {"gracefulEvictionTasks": [task("m1")]}, {"m1": 2, "m2": 4}, id="a task keeps the Work"
        ),
        pytest.param(
            {"m2": 4},
            {"gracefulEvictionTasks": [task("m1", purgeMode="Never")]},
            {"m1": 2, "m2": 4},
            id="so does a task of the purge mode Never",
        ),
        pytest.param(
            {"m2": 4},
            {"gracefulEvictionTasks": [task("m1", purgeMode="Directly")]},
            {"m2": 4},
            id="not a task of the purge mode Directly",
        ),
        pytest.param(
            {"m1": 4},
            {"requiredBy": [{"namespace": "shop", "name": "a", "clusters": [{"name": "m2"}]}]},
            {"m1": 4, "m2": 0},
            id="what requires the resource adds clusters",
        ),
    ],
)
def test_the_works_of_an_assignment(clusters, spec, works):
    stage = placed("m1", "m2")
    assign(stage, clusters, **spec)
    stage.run(10)
    found = {name: work["spec"]["workload"]["manifests"][0]["spec"] for name, work in stage.works(WEB).items()}
    assert {name: found_spec["replicas"] for name, found_spec in found.items()} == works


def test_a_copy_that_is_only_in_a_task_is_frozen():
    stage = placed("m1", "m2")
    assign(stage, {"m2": 4}, gracefulEvictionTasks=[task("m1", suppressDeletion=True)])
    stage.edit(WEB, spec={"paused": True})
    stage.run(SETTLED_S)
    manifests = {name: work["spec"]["workload"]["manifests"][0] for name, work in stage.works(WEB).items()}
    assert ("paused" in manifests["m1"]["spec"], "paused" in manifests["m2"]["spec"]) == (False, True)


def test_a_direct_purge_goes_before_new_copies():
    stage = placed("m1", "m2")
    assign(stage, {"m3": 4}, gracefulEvictionTasks=[task("m1", purgeMode="Directly"), task("m2")])
    stage.put(cluster("m3"))
    stage.settle()
    assert "m3" not in stage.works(WEB), "m1 still has its copy"
    stage.run(SETTLED_S)
    assert stage.works(WEB).keys() == {"m2", "m3"}


def test_plain_rescheduling_deletes_old_copies_before_new_ones_are_healthy():
    stage = placed("m1", "m2")
    stage.put(cluster("m3"))
    assign(stage, {"m3": 4})
    stage.run(5)
    assert stage.model.members.healthy(WEB) == {}
    stage.run(SETTLED_S)
    assert stage.model.members.healthy(WEB) == {"m3": 4}


OLD = stamp(START - timedelta(seconds=601))
YOUNG = stamp(START - timedelta(seconds=60))


@pytest.mark.parametrize(
    ("given", "health", "observed", "kept"),
    [
        pytest.param(task("a"), "Unhealthy", 2, True, id="a new task stays and gets its time"),
        pytest.param(
            task("a", creationTimestamp=YOUNG), "Unhealthy", 2, True, id="it stays while something is unhealthy"
        ),
        pytest.param(task("a", creationTimestamp=YOUNG), "Healthy", 2, False, id="it ends once all are healthy"),
        pytest.param(task("a", creationTimestamp=YOUNG), "Healthy", 1, True, id="unless the scheduler is behind"),
        pytest.param(task("a", creationTimestamp=OLD), "Unhealthy", 2, False, id="it ends after the timeout"),
        pytest.param(
            task("a", creationTimestamp=OLD, gracePeriodSeconds=900), "Unhealthy", 2, True, id="its own grace counts"
        ),
        pytest.param(
            task("a", creationTimestamp=OLD, suppressDeletion=True), "Healthy", 2, True, id="a suppressed one stays"
        ),
        pytest.param(
            task("a", creationTimestamp=YOUNG, suppressDeletion=False), "Unhealthy", 1, False, id="a confirmed one ends"
        ),
    ],
)
def test_an_eviction_task_is_assessed(given, health, observed, kept):
    binding: JSON = {
        "metadata": {"generation": 2},
        "spec": {"clusters": [{"name": "b"}], "gracefulEvictionTasks": [given]},
        "status": {
            "schedulerObservedGeneration": observed,
            "aggregatedStatus": [{"clusterName": "b", "health": health}],
        },
    }
    expected = [{"creationTimestamp": stamp(START), **given}] if kept else []
    assert assessed(binding, START) == expected


def begin_eviction(stage: Stage, name: str) -> None:
    """Evict a cluster, as Karmada's taint manager does."""
    binding = stage.binding(WEB)
    assert binding is not None
    stage.api.change(stage.api.served.path(binding), lambda content: evict(content, name))


def test_a_graceful_eviction_ends_too_early_if_a_stale_report_says_that_the_rest_is_healthy():
    """The controller compares health, not replicas: the remaining cluster was healthy with the replicas it had."""
    stage = placed("m1", "m2")
    begin_eviction(stage, "m1")
    stage.run(5)
    assert stage.works(WEB).keys() == {"m2"}
    assert stage.model.members.healthy(WEB) == {"m2": 2}


def test_a_number_that_falls_takes_effect_at_once_and_one_that_grows_needs_time():
    stage = placed("m1", "m2")
    assign(stage, {"m1": 1, "m2": 3})
    stage.run(5)
    assert stage.model.members.healthy(WEB) == {"m1": 1, "m2": 2}
    stage.run(SETTLED_S)
    assert stage.model.members.healthy(WEB) == {"m1": 1, "m2": 3}


def health(stage: Stage) -> dict[str, str]:
    binding = stage.binding(WEB)
    return {each["clusterName"]: each["health"] for each in binding["status"].get("aggregatedStatus", ())}


def test_the_status_of_a_binding_lags_behind():
    stage = placed("m1", "m2")
    stage.model.members.break_workload("m1", "web")
    stage.run(1)
    assert stage.model.members.healthy(WEB) == {"m2": 2}
    assert health(stage)["m1"] == "Healthy"
    stage.run(10)
    assert health(stage)["m1"] == "Unhealthy"
    stage.model.members.mend()
    stage.run(SETTLED_S)
    assert health(stage) == {"m1": "Healthy", "m2": "Healthy"}


def test_a_broken_image_keeps_the_old_pods_and_reports_the_new_generation_unhealthy():
    stage = placed("m1")
    stage.model.members.break_image("registry.example/web:2")
    template = WEB["spec"]["template"]
    broken = {**template["spec"]["containers"][0], "image": "registry.example/web:2"}
    stage.edit(WEB, spec={"template": {"spec": {"containers": [broken]}}})
    stage.run(2)
    status = (stage.binding(WEB) or {})["status"]["aggregatedStatus"][0]
    assert (status["health"], status["status"]["resourceTemplateGeneration"]) == ("Healthy", 1), "of the old generation"
    stage.run(SETTLED_S)
    status = (stage.binding(WEB) or {})["status"]["aggregatedStatus"][0]
    assert (status["health"], status["status"]["resourceTemplateGeneration"]) == ("Unhealthy", 2)
    assert stage.model.members.healthy(WEB) == {"m1": 4}


@pytest.mark.parametrize(
    ("status", "taint"), [("Unknown", "cluster.karmada.io/unreachable"), ("False", "cluster.karmada.io/not-ready")]
)
def test_a_lost_cluster_is_tainted_and_its_last_report_stays(status, taint):
    stage = placed("m1", "m2")
    stage.model.members.lose("m1", status)
    stage.run(30)
    lost = stage.get(cluster("m1"))
    assert "taints" not in lost["spec"], "not detected yet"
    stage.run(30)
    lost = stage.get(cluster("m1"))
    assert lost["spec"]["taints"] == [{"key": taint, "effect": "NoSchedule"}]
    assert health(stage)["m1"] == "Healthy"
    assert stage.model.members.healthy(WEB) == {"m2": 2}
    stage.model.members.recover("m1")
    stage.run(SETTLED_S)
    back = stage.get(cluster("m1"))
    assert "taints" not in back["spec"]
    assert stage.model.members.healthy(WEB) == {"m1": 2, "m2": 2}


def test_a_lost_cluster_cannot_delete_its_copy():
    stage = placed("m1", "m2")
    stage.model.members.lose("m1")
    assign(stage, {"m2": 4})
    stage.run(SETTLED_S)
    assert "deletionTimestamp" in stage.works(WEB)["m1"]["metadata"]
    stage.model.members.recover("m1")
    stage.run(SETTLED_S)
    assert stage.works(WEB).keys() == {"m2"}


def test_members_report_the_resources_that_their_copies_use():
    karmada = Settings(reports_resources=True)
    stage = Stage(cluster("m1", cpu=3), WEB_POLICY, WEB, karmada=karmada)
    stage.run(SETTLED_S)
    reported = stage.get(cluster("m1"))
    assert reported["status"]["resourceSummary"]["allocated"] == {"cpu": "2", "pods": "4"}
    stage.scale(WEB, 1)
    stage.run(SETTLED_S)
    reported = stage.get(cluster("m1"))
    assert reported["status"]["resourceSummary"]["allocated"] == {"cpu": "500m", "pods": "1"}


@pytest.mark.parametrize("seed", range(5))
def test_any_order_of_turns_comes_to_the_same_rest(seed):
    stage = Stage(*(cluster(f"m{number}") for number in range(3)), WEB_POLICY, WEB, chance=random.Random(seed))
    stage.run(SETTLED_S)
    stage.scale(WEB, 7)
    stage.model.members.lose("m0")
    stage.run(2 * SETTLED_S)
    assert sum(stage.assignment(WEB).values()) == 7
    assert stage.assignment(WEB).keys() == stage.works(WEB).keys()
