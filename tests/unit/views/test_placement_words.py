"""What a placement asks for, in sentences."""

import pytest

from berthmaster.model.cluster import Toleration
from berthmaster.model.decode import convert
from berthmaster.model.move import FAILBACK
from berthmaster.model.policy import ClusterAffinity, Placement, Policy
from berthmaster.views.policy_rows import (
    affinity_words,
    division_words,
    failback_words,
    spread_words,
    terms_of,
    toleration_words,
)

GROUPS = [{"affinityName": "home"}, {"affinityName": "away"}]
STATIC = {
    "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
    "weightPreference": {"staticWeightList": [{"targetCluster": {"clusterNames": ["a"]}, "weight": 2}]},
}  # fmt: skip


@pytest.mark.parametrize(
    ("affinity", "words"),
    [
        ({}, "Every cluster."),
        ({"exclude": ["a"]}, "Every cluster, except a."),
        ({"clusterNames": ["a", "b"]}, "The clusters a, b."),
        (
            {"clusterNames": ["a"], "labelSelector": {"matchLabels": {"e": "p"}}},
            "Clusters with label e=p, of a.",
        ),
        (
            {"fieldSelector": {"matchExpressions": [
                {"key": "region", "operator": "In", "values": ["eu"]}, {"key": "zone", "operator": "Exists"}]}},
            "Clusters with region=eu and zone.",
        ),
        (
            {"labelSelector": {"matchExpressions": [{"key": "e", "operator": "Like"}]}},
            "No cluster: it has an invalid selector.",
        ),
    ],
)  # fmt: skip
def test_an_affinity(affinity, words):
    assert affinity_words(convert(ClusterAffinity, affinity)) == words


@pytest.mark.parametrize(
    ("placement", "words"),
    [
        ({}, ["It does not limit how many clusters are selected."]),
        (
            {"spreadConstraints": [{"spreadByField": "region", "minGroups": 2, "maxGroups": 2}]},
            ["Spread by region: exactly 2 regions."],
        ),
        (
            {"spreadConstraints": [{"spreadByLabel": "rack", "minGroups": 1}], "replicaScheduling": STATIC},
            [
                "Spread by the label rack: at least 1 group.",
                "The spread constraints have no effect, because the weights are fixed.",
            ],
        ),
    ],
)
def test_the_spread(placement, words):
    assert spread_words(convert(Placement, placement)) == words


@pytest.mark.parametrize(
    ("scheduling", "words"),
    [
        (None, ["Each selected cluster gets all replicas."]),
        (
            {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"},
            ["The replicas are divided among as few clusters as can hold them."],
        ),
        (
            STATIC,
            [
                "The replicas are divided by fixed weights; without any, each cluster weighs the same.",
                "Weight 2: The clusters a.",
            ],
        ),
    ],
)
def test_the_division(scheduling, words):
    assert division_words(convert(Placement, {"replicaScheduling": scheduling} if scheduling else {})) == words


def test_tolerations():
    given = [Toleration("disk", "", "slow", "NoSchedule"), Toleration("", "Exists", "", "", 300)]
    assert toleration_words(given) == ["disk=slow:NoSchedule", "every key:every effect, for 5m"]


@pytest.mark.parametrize(
    ("groups", "annotation", "default", "part"),
    [
        (None, None, "On", "There is no earlier group"),
        (GROUPS, None, "Off", "its default is Off."),
        (GROUPS, None, None, "its default is not known."),
        (GROUPS, "after=90s,headroom=5%", "Off", "could hold them for 1m30s, with 5 % to spare."),
        (GROUPS, "false", "On", "Workloads do not move back"),
        (GROUPS, "mode=DryRun", None, "are shown, and do not happen."),
        (GROUPS, "soon", None, "is invalid"),
    ],
)
def test_the_failback(groups, annotation, default, part):
    metadata = {"name": "web", "annotations": {} if annotation is None else {FAILBACK: annotation}}
    placement = {} if groups is None else {"clusterAffinities": groups}
    spec = {"resourceSelectors": [], "placement": placement}
    found = convert(Policy, {"kind": "PropagationPolicy", "metadata": metadata, "spec": spec})
    assert part in failback_words(found, default)


def test_the_groups_of_a_placement_in_order():
    wide = {"affinityName": "wide", "overflowAffinities": [{"affinityName": "spare"}]}
    found = terms_of(convert(Placement, {"clusterAffinities": [wide, {"affinityName": "last"}]}))
    assert [(name, extends) for name, extends, _ in found] == [("wide", ""), ("spare", "wide"), ("last", "")]
    single = {"clusterNames": ["a"]}
    both = terms_of(convert(Placement, {"clusterAffinity": single, "clusterAffinities": GROUPS}))
    assert [(name, each.cluster_names) for name, _, each in both] == [("home", ("a",)), ("away", ("a",))]
