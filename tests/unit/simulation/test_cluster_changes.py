"""Changes that take something from a cluster, or add and remove clusters."""

from datetime import UTC, datetime, timedelta

import msgspec.structs
import pytest
from builders import cluster, deployment, placement, policy
from switched_on import world_of
from tables import cases

from berthmaster.manifests import Document, Manifests
from berthmaster.model.cluster import Taint
from berthmaster.model.errors import InputError
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.simulation.changes import (
    AddCluster,
    AddTaint,
    Down,
    RemoveCluster,
    RemoveLabel,
    RemoveTaint,
    Up,
    apply,
)
from berthmaster.simulation.run import run
from berthmaster.simulation.world import World

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(seconds=1)
PROFILE = karmada_profile()
DIVIDED = {"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}}
PROD = {"clusterAffinity": {"labelSelector": {"matchLabels": {"env": "prod"}}}}
TAINT = Taint(key="drain", effect="NoExecute")


def world(*clusters, replicas: int = 4, **fields) -> World:
    document = Document("-", 1, "", deployment(replicas=replicas))
    return world_of(
        Manifests(clusters=list(clusters), policies=[policy(placement=placement(**fields))], templates=[document])
    )


def member(name, *taints, **labels):
    made = cluster(name, cpu="8", memory="8Gi")
    metadata = msgspec.structs.replace(made.metadata, labels=labels)
    return msgspec.structs.replace(
        made, metadata=metadata, spec=msgspec.structs.replace(made.spec, taints=tuple(taints))
    )


def results(before: World, *changes):
    then, (first,) = run(before, PROFILE, NOW)
    _, (second,) = run(apply(changes, then, LATER), PROFILE, LATER)
    return first, second


def test_a_duplicated_workload_goes_to_a_cluster_that_loses_its_taint():
    first, second = results(world(member("a"), member("b", TAINT)), RemoveTaint("b", "drain"))
    assert (first.assignment, second.assignment) == ({"a": 4}, {"a": 4, "b": 4})


def scheduled_after(*changes):
    """Return the world in which a divided workload was on the cluster a, after changes and what followed."""
    settled, _ = run(world(member("a"), member("b"), **DIVIDED), PROFILE, NOW)
    later = NOW + timedelta(seconds=1)
    return run(apply(changes, settled, later), PROFILE, later)[0]


def test_a_divided_workload_does_not_return_after_a_taint_is_removed():
    _, second = results(scheduled_after(AddTaint("a", TAINT)), RemoveTaint("a", "drain", "NoExecute"))
    assert second.assignment == {"b": 4}


@cases(("effect", "left"), {"every effect": ("", []), "one effect": ("NoSchedule", ["drain:NoExecute"])})
def test_which_taints_are_removed(effect, left):
    before = world(member("a", TAINT, Taint(key="drain", effect="NoSchedule")))
    after = apply([RemoveTaint("a", "drain", effect)], before, NOW)
    assert [str(each) for each in after.clusters["a"].spec.taints] == left


def test_a_duplicated_workload_leaves_a_cluster_that_loses_the_label_that_it_needs():
    first, second = results(world(member("a", env="prod"), member("b", env="prod"), **PROD), RemoveLabel("a", "env"))
    assert (first.assignment, second.assignment) == ({"a": 4, "b": 4}, {"b": 4})


def test_a_divided_workload_stays_on_a_cluster_that_loses_its_label():
    first, second = results(world(member("a", env="prod"), member("b"), **DIVIDED, **PROD), RemoveLabel("a", "env"))
    assert first.assignment == second.assignment == {"a": 4}


def test_only_duplicated_workloads_return_to_a_cluster_that_recovers():
    _, stays = results(scheduled_after(Down("a")), Up("a"))
    assert stays.assignment == {"b": 4}
    down = apply([Down("a")], world(member("a"), member("b")), NOW)
    first, second = results(down, Up("a"))
    assert (first.assignment, second.assignment) == ({"b": 4}, {"a": 4, "b": 4})
    recovered = apply([Up("a")], down, NOW).clusters["a"]
    assert (recovered.ready, recovered.spec.taints) == (True, ())


@cases(
    ("fields", "assignment"),
    {"a duplicated workload goes there": ({}, {"a": 4, "b": 4}), "a divided workload stays": (DIVIDED, {"a": 4})},
)
def test_a_cluster_that_joins(fields, assignment):
    _, second = results(world(member("a"), **fields), AddCluster(member("b")))
    assert second.assignment == assignment


@cases(
    ("change", "message"),
    {
        "an unknown cluster": (RemoveTaint("x", "k"), "there is no cluster 'x'; known are a, b"),
        "a taint that it does not have": (
            RemoveTaint("b", "k", "NoSchedule"),
            "the cluster b has no taint k:NoSchedule; its taints are drain:NoExecute",
        ),
        "an unknown label": (RemoveLabel("a", "x"), "the cluster a has no label x; its labels are env"),
        "a cluster that exists": (AddCluster(member("a")), "the cluster a exists"),
        "a similar cluster": (RemoveCluster("aa"), "did you mean a?"),
        "recovery of an unknown cluster": (Up("zzz"), "there is no cluster 'zzz'"),
    },
)
def test_a_change_of_what_is_not_there_is_an_error(change, message):
    with pytest.raises(InputError, match=r"the cluster|there is no cluster") as caught:
        apply([change], world(member("a", env="prod"), member("b", TAINT)), NOW)
    assert message in str(caught.value)


@cases(
    ("mode", "status", "key", "other"),
    {
        "Karmada does not reach it": ("Push", "False", "not-ready", "unreachable"),
        "its agent is silent": ("Pull", "Unknown", "unreachable", "not-ready"),
    },
)
def test_a_lost_cluster_gets_the_taint_of_its_condition(mode, status, key, other):
    before = member("a", Taint(f"cluster.karmada.io/{other}", "NoSchedule"))
    before = msgspec.structs.replace(before, spec=msgspec.structs.replace(before.spec, sync_mode=mode))
    lost = Down("a").applied(World({"a": before}, ()), NOW).clusters["a"]
    assert [each.status for each in lost.status.conditions if each.type == "Ready"] == [status]
    assert lost.spec.taints == (Taint(f"cluster.karmada.io/{key}", "NoSchedule"),)
