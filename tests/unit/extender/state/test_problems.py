"""What is broken now, the worst first: what clusters stop, workloads without a place, moves, the control plane."""

import json
from datetime import timedelta

import pytest
from fake_clock import START
from karmada_plane import DIVIDED, binding, cluster, deployment, policy, resource, selector
from tables import cases

from berthmaster.deciding.lease_record import BrakeRecord, LeaseRecord, SourcesRecord
from berthmaster.deciding.running import hosts_of
from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import convert
from berthmaster.native_api.problems import MAX_PROBLEMS, Damage, Subject
from berthmaster.native_api.wire import Staleness
from berthmaster.views.move_rows import RowContext, moves_among, stated_moves
from extender.state.placed_index import PlacedIndex
from extender.state.placed_workload import placed_workload
from extender.state.problems import ProblemFacts, hurt_workloads, known_outages, problems_of

LATER = START + timedelta(hours=1)
FOUR_MINUTES_AGO = "2026-01-01T00:56:00Z"
GROUPS = {
    "clusterAffinities": [
        {"affinityName": "home", "clusterNames": ["a"]},
        {"affinityName": "away", "clusterNames": ["b"]},
    ]
}
DIVIDING = policy("web", selector(), placement={**DIVIDED, **GROUPS})
DUPLICATING = policy("web", selector(), placement={"clusterAffinity": {"clusterNames": ["a", "b"]}})


def member(name, *, ready=True, deleting=False):
    made = cluster(name)
    if not ready:
        made["status"]["conditions"] = [
            {"type": "Ready", "status": "False", "message": "timed out", "lastTransitionTime": FOUR_MINUTES_AGO}
        ]
    if deleting:
        made["metadata"].update(deletionTimestamp=FOUR_MINUTES_AGO, finalizers=["karmada.io/cluster"])
    return convert(Cluster, made)


def bound(name, replicas, by=DIVIDING, *, group="home", refused="", evicting=(), **clusters):
    """A binding with an assignment; ``refused`` is the message of a scheduler that found no place."""
    made = binding(deployment(name, replicas, by=by), by, **clusters)
    made["status"]["schedulerObservingAffinityName"] = group
    made["status"]["lastScheduledTime"] = "2026-01-01T00:30:00Z"
    status = ("False", "NoClusterFit", refused) if refused else ("True", "Success", "")
    made["status"]["conditions"] = [
        {"type": "Scheduled", **dict(zip(("status", "reason", "message"), status, strict=True)),
         "lastTransitionTime": FOUR_MINUTES_AGO}
    ]  # fmt: skip
    made["spec"]["gracefulEvictionTasks"] = [{"fromCluster": each, "replicas": replicas} for each in evicting]
    return made


def found(clusters=(), bindings=(), lease=None, staleness=None, now=LATER):
    fleet = {each.name: each for each in clusters or (member("a"), member("b"))}
    hosts, stored = hosts_of(fleet), [convert(Binding, each) for each in bindings]
    index = PlacedIndex((each.metadata.key, placed_workload(each)) for each in stored)
    moves = stated_moves(moves_among(stored), RowContext(now))
    stopped = known_outages(index, hosts)
    facts = ProblemFacts(
        fleet, hosts, hurt_workloads(index.by_name(), stopped), stopped, moves, lease,
        staleness or Staleness(now, None, ""), now,
    )  # fmt: skip
    return problems_of(facts)


def rows(problems):
    return [(each.damage, each.cluster or each.name, each.workloads, each.replicas) for each in problems]


LOST = (member("a", ready=False), member("b"))


@cases(
    ("clusters", "bindings", "expected"),
    {
        "nothing is wrong": ((), [bound("web", 2, a=2)], []),
        "a cluster is lost with the only copies": (
            LOST, [bound("web", 2, a=2)], [(Damage.NO_COPY, "a", 1, 2)],
        ),
        "a cluster is lost with some of the replicas": (
            LOST, [bound("web", 5, a=2, b=3)], [(Damage.SHORT, "a", 1, 2)],
        ),
        "another copy of a workload that is not divided runs": (
            LOST, [bound("web", 2, DUPLICATING, a=2, b=2)], [(Damage.NONE, "a", 0, 0)],
        ),
        "a copy that is being evicted still runs": (
            LOST, [bound("web", 2, evicting=["b"], a=2)], [(Damage.NONE, "a", 0, 0)],
        ),
        "a lost cluster without workloads": (LOST, [], [(Damage.NONE, "a", 0, 0)]),
        "a cluster that is being deleted is planned work": ((member("a", deleting=True), member("b")), [], []),
        "a cluster that is being deleted with the only copies": (
            (member("a", deleting=True), member("b")), [bound("web", 2, a=2)], [(Damage.NO_COPY, "a", 1, 2)],
        ),
        "a cluster that is gone": (
            (member("b"),), [bound("web", 2, a=2)], [(Damage.NO_COPY, "a", 1, 2)],
        ),
        "nowhere": ((), [bound("web", 4, refused="no room")], [(Damage.NO_COPY, "web", 1, 4)]),
        "a workload with fewer replicas than it asks for": (
            (), [bound("web", 4, a=3)], [(Damage.SHORT, "web", 1, 1)],
        ),
        "not in its first group": ((), [bound("web", 4, group="away", b=4)], [(Damage.NOT_PREFERRED, "web", 1, 4)]),
        "the worst first": (
            LOST,
            [
                bound("small", 1, a=1), bound("large", 9, refused="no room"), bound("away", 3, group="away", b=3),
                bound("other", 7, a=7),
            ],
            [(Damage.NO_COPY, "large", 1, 9), (Damage.NO_COPY, "a", 2, 8), (Damage.NOT_PREFERRED, "away", 1, 3)],
        ),
    },
)  # fmt: skip
def test_damage(clusters, bindings, expected):
    assert rows(found(clusters, bindings)[0]) == expected


def test_a_resource_without_replicas_is_no_workload_that_stops():
    settings = binding(resource("settings", "ConfigMap", namespace="shop", data={}), DIVIDING, a=0)
    settings["spec"].pop("replicaRequirements", None)
    assert rows(found(LOST, [settings])[0]) == [(Damage.NONE, "a", 0, 0)]


def test_each_problem_says_since_when():
    problems, _ = found(LOST, [bound("web", 4, refused="no room"), bound("away", 3, group="away", b=3)])
    assert {each.cluster or each.name: each.since and f"{each.since:%H:%M}" for each in problems} == {
        "a": "00:56", "web": "00:56", "away": "00:30",
    }  # fmt: skip
    assert {each.message for each in problems} == {"timed out", "no room", ""}


SILENT = LeaseRecord(BrakeRecord(), None, renewed_at=START)


@cases(
    ("lease", "staleness", "subject", "since"),
    {
        "no controller renews the lease": (SILENT, None, Subject.CONTROLLERS, START),
        "the storm brake": (
            LeaseRecord(BrakeRecord("3 clusters are lost", START), None), None, Subject.BRAKE, START,
        ),
        "an invalid configuration": (
            LeaseRecord(BrakeRecord(), SourcesRecord("On", "On", problem="budget")), None, Subject.CONFIGURATION, None,
        ),
        "a stale state": (None, Staleness(START, START, "refused"), Subject.STATE, START),
    },
)  # fmt: skip
def test_the_control_plane(lease, staleness, subject, since):
    (problem,) = found(lease=lease, staleness=staleness)[0]
    assert (problem.damage, problem.subject, problem.since) == (Damage.CONTROL, subject, since)


def test_a_move_past_its_deadline():
    move = {
        "reason": "Failback", "phase": "Surging", "source": {"a": 2}, "target": {"b": 2},
        "until": "2026-01-01T00:10:00Z",
    }  # fmt: skip
    made = bound("web", 2, a=2, b=2)
    made["metadata"]["annotations"]["policy.berthmaster.io/move"] = json.dumps(move)
    (problem,) = [each for each in found(bindings=[made])[0] if each.damage is Damage.MOVING]
    assert (problem.subject, problem.name, f"{problem.since:%H:%M}") == (Subject.MOVE, "web", "00:10")


@pytest.mark.parametrize("count", [MAX_PROBLEMS, MAX_PROBLEMS + 3])
def test_an_answer_has_a_bound_and_counts_all(count):
    problems, totals = found(bindings=[bound(f"web-{each}", each + 1, refused="no room") for each in range(count)])
    assert (len(problems), totals["no-copy"]) == (MAX_PROBLEMS, count)
    assert problems[0].replicas == count
