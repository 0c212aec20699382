import numpy as np
import pytest
from kubeadmiral_builders import Decided, member, term, unit

from berthmaster.model.cluster import Toleration
from berthmaster.scheduling.decision import FailureKind
from berthmaster.scheduling.kubeadmiral.plugins import DEFAULT_SCORES, PreferredTerms
from berthmaster.scheduling.kubeadmiral.profile import PluginNames

GPU = "nvidia.com/gpu"
ROOM = {"cpu": "4000m", "memory": 10000}
ROOM_WITH_GPU = {**ROOM, GPU: 20000}
REQUEST = {"cpu": "3000m", "memory": 5000}


def scores(name, *clusters, **fields):
    """What a score alone gives clusters that all fit."""
    (attempt,) = Decided(unit(**fields), clusters, PluginNames((), (name,), ())).decision.attempts
    return attempt.candidates.scores.tolist()


def test_the_default_scores_in_their_order():
    assert DEFAULT_SCORES == (
        "TaintToleration",
        "ClusterResourcesBalancedAllocation",
        "ClusterResourcesLeastAllocated",
        "ClusterAffinity",
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param([1, 2, 3], [33, 66, 100], id="the best is 100, others are rounded down"),
        pytest.param([0, 0], [0, 0], id="nothing to scale by"),
        pytest.param([-3, -1], [-3, -1], id="negative scores alone stay as they are"),
        pytest.param([-1, 3], [-33, 100], id="beside a positive one they are rounded toward zero"),
        pytest.param([], [], id="none"),
    ],
)
def test_normalisation(given, expected):
    assert PreferredTerms().normalised(np.array(given, dtype=np.int64)).tolist() == expected


@pytest.mark.parametrize(
    ("name", "room", "requests", "expected"),
    [
        pytest.param("ClusterResourcesBalancedAllocation", ROOM, REQUEST, 87, id="balanced, of two resources"),
        pytest.param("ClusterResourcesLeastAllocated", ROOM, REQUEST, 37, id="least, of two resources"),
        pytest.param("ClusterResourcesMostAllocated", ROOM, REQUEST, 62, id="most, of two resources"),
        pytest.param(
            "ClusterResourcesBalancedAllocation", ROOM_WITH_GPU, {**REQUEST, GPU: 5000}, 79, id="balanced, with GPUs"
        ),
        pytest.param(
            "ClusterResourcesLeastAllocated", ROOM_WITH_GPU, {**REQUEST, GPU: 5000}, 62, id="GPUs weigh four times"
        ),
        pytest.param(
            "ClusterResourcesMostAllocated", ROOM_WITH_GPU, {**REQUEST, GPU: 5000}, 37, id="in most allocated too"
        ),
        pytest.param("ClusterResourcesLeastAllocated", ROOM_WITH_GPU, REQUEST, 37, id="GPUs that nobody requests"),
        pytest.param("ClusterResourcesBalancedAllocation", ROOM, {"cpu": 4}, 0, id="a resource used in full"),
        pytest.param("ClusterResourcesLeastAllocated", ROOM, {"cpu": 5}, 50, id="more than there is scores 0 for it"),
        pytest.param("ClusterResourcesMostAllocated", ROOM, {"cpu": 5}, 0, id="and in most allocated as well"),
        pytest.param("ClusterResourcesBalancedAllocation", {}, {}, 0, id="balanced, of nothing at all"),
        pytest.param("ClusterResourcesLeastAllocated", {}, {}, 0, id="least, of nothing at all"),
        pytest.param("ClusterResourcesMostAllocated", {}, {}, 0, id="most, of nothing at all"),
        pytest.param(
            "ClusterResourcesLeastAllocated",
            {**ROOM, "ephemeral-storage": 100},
            {**REQUEST, "ephemeral-storage": 50},
            41,
            id="storage counts where it is requested",
        ),
        pytest.param(
            "ClusterResourcesLeastAllocated",
            {**ROOM, "ephemeral-storage": 100},
            {**REQUEST, "ephemeral-storage": 0},
            37,
            id="and not where none is",
        ),
    ],
)
def test_resource_scores(name, room, requests, expected):
    assert scores(name, member(allocatable=room), requests=requests) == [expected]


@pytest.mark.parametrize(
    ("available", "expected"),
    [
        pytest.param({"cpu": 2, "memory": 5000}, 50, id="half of it used"),
        pytest.param({"cpu": 2}, 25, id="a resource of which nothing is said to be available is used up"),
        pytest.param({"cpu": 5, "memory": 5000}, 25, id="more available than there is counts as used up"),
        pytest.param({"cpu": -1, "memory": 5000}, 25, id="an overcommitted resource scores 0"),
    ],
)
def test_what_is_used_counts(available, expected):
    assert scores("ClusterResourcesLeastAllocated", member(allocatable=ROOM, available=available)) == [expected]


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        pytest.param([], [100, 67, 0], id="the more taints the less"),
        pytest.param([Toleration(key="a", operator="Exists")], [100, 100, 0], id="a tolerated one does not count"),
        pytest.param(
            [Toleration(operator="Exists", effect="NoSchedule")], [100, 67, 0], id="for another effect it does"
        ),
        pytest.param(
            [Toleration(operator="Exists", effect="PreferNoSchedule")], [100, 100, 100], id="all are tolerated"
        ),
    ],
)
def test_taints_that_are_not_preferred(tolerations, expected):
    clusters = [
        member("none", taints=["a:NoSchedule"]),
        member("one", taints=["a:PreferNoSchedule"]),
        member("three", taints=["a:PreferNoSchedule", "b:PreferNoSchedule", "c:PreferNoSchedule"]),
    ]
    assert scores("TaintToleration", *clusters, tolerations=tuple(tolerations)) == expected


@pytest.mark.parametrize(
    ("preferred", "expected"),
    [
        pytest.param([], [0, 0], id="no term"),
        pytest.param([(10, term(("az", "In", "a")))], [100, 0], id="one term"),
        pytest.param([(10, term(("az", "In", "a"))), (30, term(("az", "Exists")))], [100, 75], id="weights add up"),
        pytest.param([(0, term(("az", "Near")))], [0, 0], id="no weight, and it is not even looked at"),
        pytest.param([(10, term(fields=[("metadata.name", "In", "a")]))], [0, 0], id="fields alone mean nothing"),
        pytest.param(
            [(10, term(("az", "In", "a"), fields=[("metadata.name", "In", "b")]))],
            [100, 0],
            id="fields beside labels play no part",
        ),
        pytest.param([(10, term())], [0, 0], id="an empty term means no cluster"),
    ],
)
def test_preferred_terms(preferred, expected):
    clusters = [member("a", labels={"az": "a"}), member("b", labels={"az": "b"})]
    assert scores("ClusterAffinity", *clusters, preferred=tuple(preferred)) == expected


def test_an_invalid_preferred_term_fails_the_attempt():
    asked = unit(preferred=((1, term(("az", "Near"))),))
    failure = Decided(asked, [member()], PluginNames((), ("ClusterAffinity",), ())).decision.failure
    assert failure.kind is FailureKind.SELECT_FAILED
    assert "unknown operator 'Near'" in failure.message
