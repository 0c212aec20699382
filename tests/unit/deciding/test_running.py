"""Which copies exist, and which of them run."""

from builders import cluster
from decisions import DYNAMIC, asked
from msgspec.structs import replace
from tables import cases

from berthmaster.deciding.running import (
    FULLY_APPLIED,
    NotRunning,
    arriving_in_vain,
    existing,
    hosts_of,
    running,
    wants_copies,
)
from berthmaster.model.binding import AggregatedStatusItem, GracefulEvictionTask
from berthmaster.model.cluster import Condition
from berthmaster.model.meta import with_spec, with_status
from berthmaster.model.policy import SuspendClusters, Suspension

CLUSTERS = {each.name: each for each in (cluster("a"), cluster("b"), cluster("down", ready=False))}
BINDING = asked(name="web", requests={"cpu": 1}, replicas=4, scheduling=DYNAMIC, clusters={"a": 4})
ALL = Suspension(dispatching=True)
ON_B = Suspension(dispatching_on_clusters=SuspendClusters(("b",)))


@cases(
    ("purge_mode", "exists"),
    {
        "Gracefully keeps the copy": ("Gracefully", {"a": 4, "b": 2}),
        "Graciously is its former name": ("Graciously", {"a": 4, "b": 2}),
        "Never keeps it": ("Never", {"a": 4, "b": 2}),
        "Directly deletes it at once": ("Directly", {"a": 4}),
        "Immediately is its former name": ("Immediately", {"a": 4}),
    },
)
def test_the_copy_of_an_eviction_task_exists_by_its_purge_mode(purge_mode, exists):
    task = GracefulEvictionTask("b", purge_mode=purge_mode, reason="Test", producer="Test", replicas=2)
    binding = with_spec(BINDING, graceful_eviction_tasks=(task,))
    assert existing(binding, {"a": 4}) == exists


@cases(
    ("reports", "suspension", "exists"),
    {
        "each cluster reports what it has": ({"a": 3, "b": 2}, ALL, {"a": 3, "b": 2}),
        "a cluster has other replicas than assigned": ({"a": 5, "b": 2}, ALL, {"a": 5, "b": 2}),
        "a cluster has had no replicas": ({"a": 3, "b": 0}, ALL, {"a": 3}),
        "nothing was sent to a cluster": ({"a": 3, "b": None}, ALL, {"a": 3}),
        "a cluster has no report": ({"a": 3}, ALL, {"a": 3}),
        "dispatching is suspended elsewhere": ({"b": 1}, ON_B, {"a": 3, "b": 1}),
        "no report is known": ({}, ALL, {"a": 3, "b": 2}),
        "dispatching is not suspended": ({"a": 1}, None, {"a": 3, "b": 2}),
    },
)
def test_while_dispatching_is_suspended_a_copy_exists_by_its_report(reports, suspension, exists):
    items = tuple(
        AggregatedStatusItem(name) if replicas is None else AggregatedStatusItem(name, reported(replicas), applied=True)
        for name, replicas in reports.items()
    )
    binding = with_status(with_spec(BINDING, suspension=suspension), aggregated_status=items)
    assert existing(binding, {"a": 3, "b": 2}) == exists


@cases(("status", "exists"), {"not all": ("False", {}), "all": ("True", {"a": 3}), "not known": ("", {"a": 3})})
def test_without_reports_the_condition_says_whether_copies_exist(status, exists):
    conditions = (Condition(FULLY_APPLIED, status),) if status else ()
    binding = with_status(with_spec(BINDING, suspension=ALL), conditions=conditions)
    assert existing(binding, {"a": 3}) == exists


def reported(replicas):
    """Return the status of a Deployment. Go leaves out zeros."""
    return {"generation": 1, **({"replicas": replicas, "readyReplicas": 1} if replicas else {})}


@cases(
    ("assignment", "exist", "suspension", "lost", "runs", "in_vain"),
    {
        "ready clusters run it": ({"a": 2, "b": 2}, {"a": 4}, None, "", {"a": 2, "b": 2}, {}),
        "a lost cluster runs nothing": ({"a": 2, "b": 2}, {"a": 2, "b": 2}, None, "b", {"a": 2}, {}),
        "replicas arrive on a lost cluster": ({"a": 2, "b": 3}, {"a": 2, "b": 2}, None, "b", {"a": 2},
                                              {"b": NotRunning.LOST}),
        "replicas arrive on a cluster that is not ready": ({"a": 2, "down": 2}, {"a": 4}, None, "", {"a": 2},
                                                           {"down": NotRunning.NOT_READY}),
        "replicas arrive on a cluster that does not exist": ({"gone": 4}, {"a": 4}, None, "", {},
                                                             {"gone": NotRunning.NOT_READY}),
        "dispatching is suspended, and nothing changes": ({"a": 4}, {"a": 4}, ALL, "", {"a": 4}, {}),
        "dispatching is suspended, and replicas are added": ({"a": 6}, {"a": 4}, ALL, "", {"a": 4},
                                                             {"a": NotRunning.SUSPENDED}),
        "dispatching is suspended, and replicas are removed": ({"a": 1, "b": 3}, {"a": 4}, ALL, "", {"a": 4},
                                                               {"b": NotRunning.SUSPENDED}),
        "a copy arrives where dispatching is suspended": ({"b": 4}, {"a": 4}, ON_B, "", {},
                                                          {"b": NotRunning.SUSPENDED}),
        "dispatching is suspended elsewhere": ({"a": 4}, {}, ON_B, "", {"a": 4}, {}),
        "a cluster without replicas has no copy": ({"a": 4, "b": 0}, {}, None, "", {"a": 4}, {}),
        "no replicas arrive where dispatching is suspended": ({"a": 4, "b": 0}, {"a": 4}, ON_B, "", {"a": 4}, {}),
    },
)  # fmt: skip
def test_what_runs_of_an_assignment(assignment, exist, suspension, lost, runs, in_vain):
    binding = with_spec(BINDING, suspension=suspension)
    hosts = hosts_of(CLUSTERS, lost=frozenset(filter(None, [lost])))
    assert running(binding, assignment, hosts, exist) == runs
    assert arriving_in_vain(binding, assignment, hosts, exist) == in_vain


@cases(
    ("purge_mode", "cluster_name", "exist", "reports", "runs", "in_vain"),
    {
        "its copy on a lost cluster cannot go": (
            "Directly", "b", {"a": 1, "b": 3}, (), {"a": 1}, {"a": NotRunning.PURGE}
        ),
        "by the former name of the purge mode": (
            "Immediately", "b", {"a": 1, "b": 3}, (), {"a": 1}, {"a": NotRunning.PURGE}
        ),
        "nor on one that is not ready": ("Directly", "down", {}, ("down",), {}, {"a": NotRunning.PURGE}),
        "it is gone, since the cluster reports none": ("Directly", "down", {}, ("a",), {"a": 4}, {}),
        "the cluster does not exist": ("Directly", "gone", {"gone": 4}, (), {"a": 4}, {}),
        "the purge waits for new copies": ("Gracefully", "b", {"a": 1, "b": 3}, (), {"a": 4}, {}),
    },
)  # fmt: skip
def test_no_copy_is_written_before_one_is_purged(purge_mode, cluster_name, exist, reports, runs, in_vain):
    task = GracefulEvictionTask(cluster_name, purge_mode=purge_mode, reason="Test", producer="Test")
    items = tuple(AggregatedStatusItem(each) for each in reports)
    binding = with_status(with_spec(BINDING, graceful_eviction_tasks=(task,)), aggregated_status=items)
    hosts = hosts_of(CLUSTERS, lost=frozenset({"b"}))
    assert running(binding, {"a": 4}, hosts, exist) == runs
    assert arriving_in_vain(binding, {"a": 4}, hosts, exist) == in_vain


def test_copies_that_are_due_exist_when_a_purge_waits():
    task = GracefulEvictionTask("b", purge_mode="Directly", reason="Test", producer="Test")
    binding = with_spec(BINDING, graceful_eviction_tasks=(task,))
    hosts = hosts_of(CLUSTERS, lost=frozenset({"b"}))
    assert running(binding, {"a": 4}, hosts, {}, {"a": 2, "b": 2}) == {"a": 2}
    assert arriving_in_vain(binding, {"a": 4}, hosts, {}, {"a": 2, "b": 2}) == {"a": NotRunning.PURGE}


def test_a_purge_waits_for_a_work_that_was_never_applied():
    task = GracefulEvictionTask("b", purge_mode="Directly", reason="Test", producer="Test")
    binding = with_spec(BINDING, graceful_eviction_tasks=(task,))
    hosts = hosts_of(CLUSTERS, lost=frozenset({"b"}))
    assert running(binding, {"a": 4}, hosts, {}, {"a": 2}) == {"a": 4}
    assert running(binding, {"a": 4}, hosts, {}, {"a": 2}, ["a", "b"]) == {"a": 2}
    assert arriving_in_vain(binding, {"a": 4}, hosts, {}, {"a": 2}, ["a", "b"]) == {"a": NotRunning.PURGE}


@cases(
    ("replicas", "requirements", "kind", "wants"),
    {
        "replicas": (2, True, "Deployment", True),
        "none, with requests": (0, True, "Rollout", False),
        "none, of a kind that has replicas": (0, False, "StatefulSet", False),
        "a kind without replicas": (0, False, "ConfigMap", True),
    },
)
def test_a_workload_that_is_scaled_to_0_wants_no_copies(replicas, requirements, kind, wants):
    resource = replace(BINDING.spec.resource, kind=kind)
    kept = BINDING.spec.replica_requirements if requirements else None
    binding = with_spec(BINDING, replicas=replicas, replica_requirements=kept, resource=resource)
    assert wants_copies(binding) is wants


def test_a_cluster_that_is_being_deleted_runs_nothing():
    leaving = replace(
        CLUSTERS["a"], metadata=replace(CLUSTERS["a"].metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    )
    hosts = hosts_of({"a": leaving}, removed=frozenset({"a"}), before=CLUSTERS)
    assert (hosts.runs("a"), hosts.before.runs("a")) == (False, True)
