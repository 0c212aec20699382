"""Ranks by definition and ranks in columns are equal."""

from hypothesis import given
from hypothesis import strategies as st
from kube_scheduler_builders import node, pod

from berthmaster.model.cluster import Node, cluster_of_node
from berthmaster.model.decode import convert
from berthmaster.model.selector import parse_selector
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import karmada_profile
from extender.protocols.kube_scheduler.nodes import CachedNodes, RequestNodes, members_of
from extender.protocols.kube_scheduler.placements import PlacementFinder, request_of
from extender.protocols.kube_scheduler.wire import Pod

TAINT = {"key": "k", "effect": "NoSchedule"}
NAMES = [f"n{index}" for index in range(8)]

affinities = st.fixed_dictionaries(
    {},
    optional={
        "labelSelector": st.builds(lambda tier: {"matchLabels": {"tier": tier}}, st.sampled_from("abc")),
        "fieldSelector": st.builds(
            lambda region: {"matchExpressions": [{"key": "region", "operator": "In", "values": [region]}]},
            st.sampled_from(["eu", "us"]),
        ),
        "clusterNames": st.lists(st.sampled_from(NAMES), min_size=1, max_size=4),
        "exclude": st.lists(st.sampled_from(NAMES), max_size=2),
    },
)


def named(name, affinity, overflow):
    extra = {"overflowAffinities": [{"affinityName": f"o{i}", **each} for i, each in enumerate(overflow)]}
    return {"affinityName": name, **affinity, **(extra if overflow else {})}


groups = st.lists(st.tuples(affinities, st.lists(affinities, max_size=2)), max_size=4).map(
    lambda found: [named(f"g{index}", *each) for index, each in enumerate(found)]
)
weights = st.lists(st.tuples(affinities, st.integers(1, 9)), max_size=3).map(
    lambda found: [{"targetCluster": affinity, "weight": weight} for affinity, weight in found]
)


@st.composite
def placements(draw):
    return {
        "clusterAffinities": draw(groups),
        "clusterTolerations": draw(st.sampled_from([[], [{"key": "k", "operator": "Exists"}]])),
        "spreadConstraints": draw(st.sampled_from([[], [{"spreadByField": "region"}]])),
        "replicaScheduling": {"weightPreference": {"staticWeightList": draw(weights)}},
    }


@st.composite
def fleets(draw):
    made = []
    for name in NAMES[: draw(st.integers(0, len(NAMES)))]:
        labels = {"tier": draw(st.sampled_from("abc")), "type": draw(st.sampled_from(["member", "plain"]))}
        if draw(st.booleans()):
            labels["topology.kubernetes.io/region"] = draw(st.sampled_from(["eu", "us"]))
        taints, deleting = draw(st.sampled_from([[], [TAINT]])), draw(st.booleans()) and draw(st.booleans())
        cpu = draw(st.sampled_from(["1", "2", "16"]))
        made.append(cluster_of_node(convert(Node, node(name, taints=taints, deleting=deleting, cpu=cpu, **labels))))
    return made


@given(fleets(), placements(), st.sampled_from(["", "type=member"]))
def test_cached_nodes_and_request_nodes_have_the_same_ranks_scores_and_reasons(clusters, wanted, members):
    profile, who = karmada_profile(), members_of(parse_selector(members))
    asked = convert(Pod, pod(placement=wanted))
    request = request_of(asked, PlacementFinder().find(asked, []).placement)
    names = [cluster.name for cluster in clusters]
    known, shown = CachedNodes(Fleet(clusters), profile, who), RequestNodes(clusters, profile, who)
    by_columns, by_definition = known.ranked(request, names), shown.ranked(request)
    assert by_columns.ranks == by_definition.ranks
    assert known.scores(request, by_columns) == shown.scores(request, by_definition)
    for position in range(len(names)):
        assert known.rejection(by_columns, position) == shown.rejection(by_definition, position)
