"""What a placement asks for, in sentences."""

import pytest
from tables import data

from berthmaster.model.affinity import ClusterAffinity
from berthmaster.model.decode import convert
from berthmaster.model.move import FAILBACK
from berthmaster.model.placement import Placement
from berthmaster.model.policy import Policy
from berthmaster.views import policy_words
from berthmaster.views.policy_words import failback_words, terms_of

WORDS = data("placement_words")
GROUPS = [{"affinityName": "home"}, {"affinityName": "away"}]
SAYS = {
    "affinity": lambda given: policy_words.affinity_words(convert(ClusterAffinity, given)),
    "spread": lambda given: policy_words.spread_words(convert(Placement, given)),
    "division": lambda given: policy_words.division_words(convert(Placement, given)),
    "tolerations": lambda given: policy_words.toleration_words(convert(Placement, given).cluster_tolerations),
}


@pytest.mark.parametrize(("part", "given", "words"), [(part, *row) for part in SAYS for row in WORDS[part]])
def test_a_part_of_a_placement_in_words(part, given, words):
    assert SAYS[part](given) == words


def policy_with(groups, annotation=None):
    metadata = {"name": "web", "annotations": {} if annotation is None else {FAILBACK: annotation}}
    spec = {"resourceSelectors": [], "placement": {"clusterAffinities": groups}}
    return convert(Policy, {"kind": "PropagationPolicy", "metadata": metadata, "spec": spec})


@pytest.mark.parametrize(("annotation", "default", "part"), WORDS["failback"])
def test_the_failback(annotation, default, part):
    assert part in failback_words(policy_with(GROUPS, annotation), default)


def test_one_group_has_no_failback():
    assert "There is no earlier group" in failback_words(policy_with(GROUPS[:1]), "On")


def test_the_groups_of_a_placement_in_order():
    wide = {"affinityName": "wide", "overflowAffinities": [{"affinityName": "spare"}]}
    found = terms_of(convert(Placement, {"clusterAffinities": [wide, {"affinityName": "last"}]}))
    assert [(name, extends) for name, extends, _ in found] == [("wide", ""), ("spare", "wide"), ("last", "")]
    single = {"clusterNames": ["a"]}
    both = terms_of(convert(Placement, {"clusterAffinity": single, "clusterAffinities": GROUPS}))
    assert [(name, each.cluster_names) for name, _, each in both] == [("home", ("a",)), ("away", ("a",))]
