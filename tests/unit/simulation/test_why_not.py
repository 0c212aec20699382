"""The smallest change under which a cluster gets a workload, confirmed by deciding again."""

from datetime import UTC, datetime

import pytest
import strategies as draws
from builders import cluster
from decisions import AGGREGATED, asked, spread
from hypothesis import given, settings
from tables import cases, data

from berthmaster.model.binding import APPLIED_PLACEMENT, Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import encode_json
from berthmaster.model.meta import with_metadata
from berthmaster.scheduling import Context, Filter, LabelRemedy
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import built_in, karmada_profile
from berthmaster.scheduling.profile import Plugins, Profile
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster.simulation.scheduling_cycle import schedule_one
from berthmaster.simulation.why_not import Search, WhyNot, WhyNotQuestion, question_of, why_not
from berthmaster.simulation.workload import SimulatedWorkload
from berthmaster.simulation.world import World

ROWS = data("simulation/smallest_changes")
NOW = datetime(2026, 6, 1, tzinfo=UTC)

NAMED = {"clusterAffinity": {"clusterNames": ["a"]}}


def question(binding: Binding, *clusters: Cluster, profile: Profile | None = None) -> WhyNotQuestion:
    """The question about a workload without a policy, after what is due for it."""
    scheduler = Scheduler(Fleet(clusters), profile or karmada_profile())
    world = World({each.name: each for each in clusters}, ())
    workload = SimulatedWorkload(binding.spec.resource, (), binding, present=True)
    return question_of(scheduler, world, workload, schedule_one(scheduler, workload, NOW, world), NOW)


def answer(name: str, *clusters: Cluster, **fields: object) -> WhyNot:
    return why_not(question(asked(**fields), *clusters), name)


def groups(*names: str) -> list[dict[str, object]]:
    return [{"affinityName": name, "clusterNames": [name]} for name in names]


@cases(("clusters", "fields", "changes"), ROWS["smallest changes"])
def test_the_smallest_change_is(clusters, fields, changes):
    found = answer("a", *(cluster(**each) for each in clusters), **fields)
    assert found.changes == changes
    assert "a" in found.clusters
    assert found.taken is (not changes)


def test_a_cluster_that_is_being_deleted_has_no_remedy():
    found = answer("a", cluster("a", deleting=True))
    assert (found.changes, found.unknown) == ([], ["a is being deleted; no change helps"])


def test_a_workload_with_0_replicas_goes_nowhere_before_it_is_scaled_up():
    found = answer("a", cluster("a"), cluster("b"), replicas=0, requests={"cpu": 1}, scheduling=AGGREGATED, **NAMED)
    assert found.changes == []
    assert found.unknown == ["the workload has 0 replicas; no cluster gets one before it is scaled up"]


class Approved(Filter):
    """A filter of a third party."""

    name = "Approved"

    def reason(self, _context: Context, cluster: Cluster) -> str | None:
        return None if cluster.metadata.labels.get("approved") == "yes" else "is not approved"


class ApprovedByLabel(Approved):
    def remedies(self, _context: Context, _cluster: Cluster) -> list[LabelRemedy]:
        return [LabelRemedy("approved", "yes")]


@pytest.mark.parametrize(
    ("plugin", "changes"),
    [
        pytest.param(ApprovedByLabel(), ["label a with approved=yes"], id="names its remedy"),
        pytest.param(Approved(), [], id="names none"),
    ],
)
def test_the_filter_of_a_third_party_that(plugin, changes):
    plugins = built_in()
    profile = karmada_profile(Plugins((*plugins.filters, plugin), plugins.scores))
    found = why_not(question(asked(), cluster("a"), cluster("b", labels={"approved": "yes"}), profile=profile), "a")
    assert (found.changes, found.reasons) == (changes, ["a is not approved"])


@settings(max_examples=8)
@given(draws.fleets(min_size=2, max_size=4), draws.bindings())
def test_the_changes_are_confirmed_and_the_fleet_stays_as_it_was(clusters, binding):
    asks = question(binding, *clusters)
    before = dict(asks.decides(asks.world))
    found = why_not(asks, clusters[0].name)
    assert found.taken is (clusters[0].name in before)
    assert (clusters[0].name in found.clusters) is (found.taken or bool(found.changes))
    assert asks.decides(asks.world) == before


IN_REGION = {"clusterAffinity": {"labelSelector": {"matchLabels": {"region": "r"}}}}
RESCHEDULE = "reschedule the workload, for example by a WorkloadRebalancer"


def settled(name: str, *clusters: Cluster, **fields: object) -> WhyNot:
    """The answer for a workload that has its replicas, so that nothing triggers scheduling."""
    binding = asked(scheduling=AGGREGATED, **fields)
    applied = {APPLIED_PLACEMENT: encode_json(binding.spec.placement).decode()}
    return why_not(question(with_metadata(binding, annotations=applied), *clusters), name)


def test_a_cluster_that_only_a_rescheduling_takes_is_not_taken():
    members = cluster("a", labels={"region": "r"}, pods=9), cluster("b", pods=9)
    found = settled("a", *members, clusters={"b": 2}, replicas=2, **IN_REGION)
    assert (found.taken, found.changes, found.clusters) == (False, [RESCHEDULE], {"a": 2})
    assert found.reasons[0] == "nothing triggers scheduling: the workload stays on b"
    assert settled("b", *members, clusters={"b": 2}, replicas=2).taken


def test_a_change_of_a_cluster_that_triggers_no_scheduling_is_complete_with_a_rescheduling():
    members = cluster("a", pods=9), cluster("b", pods=9)
    found = settled("a", *members, clusters={"b": 2}, replicas=2, **IN_REGION)
    assert (found.changes, found.unknown) == (["label a with region=r", RESCHEDULE], [])


@cases(
    ("scheduler", "says_it"), {"deducts what it has decided": ("berthmaster", True), "counts reports only": ("", False)}
)
def test_other_workloads_can_take_the_room_of_a_cluster_that_a_change_opens_if_a_scheduler(scheduler, says_it):
    fields = {"scheduler_name": scheduler} if scheduler else {}
    found = settled(
        "a", cluster("a", pods=9), cluster("b", pods=9), clusters={"b": 2}, replicas=2, **IN_REGION, **fields
    )
    assert found.changes == ["label a with region=r", RESCHEDULE]
    assert [each.partition(", and ")[0] for each in found.unknown] == [
        "the changes let other workloads use a, too"
    ] * says_it


TIERS = [
    {"affinityName": "best", "clusterNames": ["a"], "labelSelector": {"matchLabels": {"tier": "gold"}}},
    {"affinityName": "rest", "clusterNames": ["b"]},
    {"affinityName": "any"},
]


def test_each_group_has_its_reason_in_order():
    members = cluster("a", labels={"tier": "silver"}, pods=100), cluster("b", labels={"tier": "gold"}, pods=100)
    found = settled("a", *members, clusters={"b": 2}, replicas=2, groups=TIERS, observed="rest")
    _, best, rest, last = found.reasons
    assert best.startswith("group best: a label tier=gold does not match (it is 'silver') (not tried:")
    assert rest == "group rest: a is not among the named clusters"
    assert last.startswith("group any:")
    assert last.endswith("(not tried: group rest fits)")
    assert found.changes == ["label a with tier=gold", RESCHEDULE]


def test_each_alternative_is_complete():
    members = cluster("a", labels={"tier": "silver"}, pods=100), cluster("b", labels={"tier": "gold"}, pods=100)
    asks = question(
        asked(clusters={"b": 2}, replicas=2, groups=TIERS, observed="rest", scheduling=AGGREGATED), *members
    )
    search = Search(asks, members[0])
    found = search.smallest()
    assert len(found) > 1
    for each in found:
        assert "a" in search.assignment(each), [remedy.text for remedy in each]


@cases(
    ("cluster_fields", "fields"),
    {
        "twice the replicas are too few": ({"pods": 9}, {"replicas": 2, "spread": [spread("cluster", 1, 1)]}),
        "half the replicas are too many": ({"cpu": 2, "pods": 9}, {"replicas": 30, "requests": {"cpu": 1}}),
        "half the request is too large": ({"cpu": 1, "pods": 9}, {"replicas": 1, "requests": {"cpu": 3}}),
        "a resource that no node has": ({"pods": 9}, {"replicas": 1, "requests": {"gpu": 1}}),
    },
)
def test_no_number_becomes_more_than_twice_or_less_than_half_the_present_one(cluster_fields, fields):
    found = answer("a", cluster("a", **cluster_fields), cluster("b", cpu=99, pods=999), scheduling=AGGREGATED, **fields)
    for text in (*found.changes, *(each for other in found.alternatives for each in other)):
        assert not text.startswith(("set ", "request ", "add ")), text


def test_no_small_change_is_an_answer():
    found = answer("a", cluster("a", cpu=2, pods=9), scheduling=AGGREGATED, replicas=30, requests={"cpu": 1})
    assert (found.changes, found.alternatives) == ([], [])
    assert found.unknown[0].startswith("no small change would")


def test_less_is_requested_before_replicas_and_capacity_change():
    found = answer("a", cluster("a", cpu=2, pods=9), scheduling=AGGREGATED, replicas=3, requests={"cpu": 1})
    assert [found.changes, *found.alternatives] == [
        ["request 666m cpu for each replica instead of 1"], ["set 2 replicas instead of 3"], ["add 1 cpu to a"],
    ]  # fmt: skip


def test_a_lost_cluster_is_brought_back():
    found = answer("a", cluster("a", taints=["cluster.karmada.io/not-ready:NoSchedule"]))
    assert found.changes == ["bring a back: it has the taint cluster.karmada.io/not-ready:NoSchedule"]


def test_the_same_part_of_a_cluster_is_changed_once():
    twice = {"matchLabels": {"tier": "gold"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]}
    found = answer("a", cluster("a"), clusterAffinity={"labelSelector": twice})
    assert found.changes == ["label a with tier=gold"]


def test_a_cluster_that_has_the_workload_and_would_not_get_it_again():
    found = answer("b", cluster("a"), cluster("b"), replicas=4, clusters={"b": 4}, **NAMED)
    assert found.reasons == [
        "b has the workload now (replicas: 4), and the next scheduling removes it",
        "b is not among the named clusters",
    ]  # fmt: skip


@settings(max_examples=100)
@given(draws.fleets(min_size=2, max_size=5), draws.bindings())
def test_one_less_of_a_number_does_not_help(clusters, binding):
    search = Search(question(binding, *clusters), clusters[0])
    if clusters[0].name in search.assignment([]):
        return
    for remedies in search.smallest():
        for index, remedy in enumerate(remedies):
            nearer = [remedy.field.at(remedy.distance - 1)] if remedy.field is not None and remedy.distance > 1 else []
            others = [*remedies[:index], *remedies[index + 1 :]]
            assert clusters[0].name not in search.assignment([*others, *nearer]), remedy.text
