"""What makes each scheduler look at a binding again."""

import pytest
from builders import cluster
from decisions import DYNAMIC, asked
from tables import cases

from berthmaster.deciding.decide import judge
from berthmaster.deciding.rules import BERTHMASTER, KARMADA, rules_of, trigger_by
from berthmaster.model.applied_placement import encoded_placement
from berthmaster.model.binding import APPLIED_PLACEMENT, NO_CLUSTER_FIT, SCHEDULED, Binding
from berthmaster.model.cluster import Condition
from berthmaster.model.meta import with_metadata, with_spec, with_status
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.scheduling.scheduler import Scheduler

AT = {"a": 2, "b": 2}


def settled(clusters: dict[str, int], replicas: int = 4) -> Binding:
    """A binding that was scheduled, and that nothing but its clusters concerns."""
    binding = asked(name="web", requests={"cpu": 1}, replicas=replicas, scheduling=DYNAMIC, clusters=clusters)
    return with_metadata(binding, annotations={APPLIED_PLACEMENT: encoded_placement(binding.spec.placement)})


def without_fit(binding: Binding) -> Binding:
    condition = Condition(SCHEDULED, "False", NO_CLUSTER_FIT, "none fits", "2026-01-01T00:00:00Z")
    return with_status(binding, conditions=(condition,))


@cases(
    ("binding", "members", "karmada", "berthmaster"),
    {
        "nothing is due": (settled(AT), "ab", Trigger.NONE, Trigger.NONE),
        "a cluster of the assignment does not exist": (settled(AT), "ac", Trigger.NONE, Trigger.FAILOVER),
        "no cluster of the assignment exists, and others do": (settled(AT), "c", Trigger.NONE, Trigger.FAILOVER),
        "there is no cluster at all": (settled(AT), "", Trigger.NONE, Trigger.NONE),
        "no cluster fitted a workload without replicas": (
            without_fit(settled({}, 0)), "ab", Trigger.NONE, Trigger.RECONCILE,
        ),
        "no cluster fitted, and replicas are missing": (
            without_fit(settled({}, 4)), "ab", Trigger.SCALE, Trigger.SCALE,
        ),
    },
)  # fmt: skip
def test_schedulers_differ_in_two_triggers(binding, members, karmada, berthmaster):
    fleet = Fleet([cluster(name, cpu=10) for name in members])
    assert trigger_by(KARMADA, binding, fleet) is karmada
    assert trigger_by(BERTHMASTER, binding, fleet) is berthmaster


@pytest.mark.parametrize(
    ("name", "own", "rules"),
    [
        pytest.param("berthmaster", "berthmaster", BERTHMASTER, id="Berthmaster's own name"),
        pytest.param("default-scheduler", "berthmaster", KARMADA, id="karmada-scheduler"),
        pytest.param("default-scheduler", "default-scheduler", BERTHMASTER, id="Berthmaster in its place"),
        pytest.param("third", "berthmaster", KARMADA, id="a third scheduler"),
    ],
)
def test_the_rules_follow_from_the_name_of_the_scheduler(name, own, rules):
    assert rules_of(with_spec(settled(AT), scheduler_name=name), own) is rules


def test_a_failover_comes_first_and_the_missing_cluster_goes_at_the_next_look():
    scheduler = Scheduler(
        Fleet([cluster("a", cpu=10, ready=False, taints=["x:NoSchedule"]), cluster("c", cpu=10)]), karmada_profile()
    )
    verdict = judge(scheduler, settled({"a": 2, "gone": 2}), BERTHMASTER, lost=frozenset({"a"}))
    assert (verdict.trigger, verdict.replaced.left) == (Trigger.FAILOVER, ("a",))
    after = settled(verdict.replaced.clusters)
    assert dict(judge(scheduler, after, BERTHMASTER).decision.assignment) == {"c": 4}
