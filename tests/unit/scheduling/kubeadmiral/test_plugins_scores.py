import numpy as np
from kubeadmiral_builders import Decided, member, term, unit
from tables import cases

from berthmaster.scheduling.kubeadmiral.plugins import scaled_to_best
from berthmaster.scheduling.kubeadmiral.profile import PluginNames
from berthmaster.scheduling.request import FailureKind


def scores(name, *clusters, **fields):
    (attempt,) = Decided(unit(**fields), clusters, PluginNames((), (name,), ())).decision.attempts
    return attempt.candidates.scores.tolist()


@cases(
    ("preferred", "expected"),
    {
        "no term": ([], [0, 0]),
        "one term": ([(10, term(("az", "In", "a")))], [100, 0]),
        "weights add up": ([(10, term(("az", "In", "a"))), (30, term(("az", "Exists")))], [100, 75]),
        "an invalid term of weight 0 is ignored": ([(0, term(("az", "Near")))], [0, 0]),
        "a term with only fields matches nothing": ([(10, term(fields=[("metadata.name", "In", "a")]))], [0, 0]),
        "fields do not count": ([(10, term(("az", "In", "a"), fields=[("metadata.name", "In", "b")]))], [100, 0]),
        "an empty term matches no cluster": ([(10, term())], [0, 0]),
    },
)
def test_preferred_terms(preferred, expected):
    clusters = [member("a", labels={"az": "a"}), member("b", labels={"az": "b"})]
    assert scores("ClusterAffinity", *clusters, preferred=tuple(preferred)) == expected


def test_an_invalid_preferred_term_fails_the_attempt():
    asked = unit(preferred=((1, term(("az", "Near"))),))
    failure = Decided(asked, [member()], PluginNames((), ("ClusterAffinity",), ())).decision.failure
    assert failure.kind is FailureKind.SELECT_FAILED
    assert "unknown operator 'Near'" in failure.message


@cases(
    ("given", "expected"),
    {
        "only negative counts are not scaled": ([-3, -1], [-3, -1]),
        "with a positive count negative ones are rounded toward zero": ([-1, 3], [-33, 100]),
        "no taints": ([], []),
    },
)
def test_normalisation(given, expected):
    assert scaled_to_best(np.array(given, dtype=np.int64)).tolist() == expected
