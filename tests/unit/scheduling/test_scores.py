import pytest
from builders import cluster
from decisions import asked, outcome, schedule, spread

from berthmaster.model.errors import PluginError
from berthmaster.scheduling.filters import Score
from berthmaster.scheduling.karmada.profile import ClusterLocalityScore, karmada_profile
from berthmaster.scheduling.profile import Plugins


def total(clusters, workload, *plugins):
    """Return the sum of the scores by cluster, or None if all are 0."""
    candidates = schedule(clusters, workload, karmada_profile(Plugins((), plugins))).attempts[0].candidates
    scores = candidates.scores
    return None if scores is None else dict(zip(candidates.names(), scores.tolist(), strict=True))


class Fixed(Score):
    """The same score for every cluster except b, which gets 0."""

    name = "Fixed"

    def __init__(self, given):
        self.given = given

    def score(self, context, cluster):  # noqa: ARG002 - as the interface says
        return 0 if cluster.name == "b" else self.given


def test_scores_of_all_plugins_add_up():
    found = total([cluster("a"), cluster("b")], asked(clusters={"b": 1}), ClusterLocalityScore(), Fixed(30), Fixed(7))
    assert found == {"a": 37, "b": 100}


@pytest.mark.parametrize("bad", [-1, 101, 0.5, "50", None])
def test_a_score_that_is_no_integer_from_0_to_100_is_an_error_that_names_the_plugin(bad):
    with pytest.raises(PluginError, match="score plugin Fixed gave"):
        total([cluster("a")], asked(), Fixed(bad))


def test_scores_beyond_the_sort_key_are_ordered_correctly():
    many = karmada_profile(Plugins((), tuple(Fixed(100) for _ in range(30))))
    clusters = [cluster("a", pods=1), cluster("b", pods=99), cluster("c", pods=2)]
    assert outcome(schedule(clusters, asked(spread=[spread("cluster", 1, 2)]), many)) == {"a": 1, "c": 1}
