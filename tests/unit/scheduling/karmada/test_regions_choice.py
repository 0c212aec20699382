import pytest

from berthmaster.scheduling.karmada.selection import MAX_COST, ClusterGroup, search_cost, select_groups


def groups(text):
    """Parse ``"a:2/5 b:1/0"``: a group a of 2 clusters with weight 5, and a group b of 1 cluster with weight 0."""
    parsed = (part.replace(":", "/").split("/") for part in text.split())
    return [ClusterGroup(name, int(value), int(weight)) for name, value, weight in parsed]


@pytest.mark.parametrize(
    ("given_groups", "shortest", "longest", "target", "expected"),
    [
        pytest.param("a:1/1 b:1/3 c:1/2", 1, 1, 0, "b", id="the heaviest group"),
        pytest.param("a:1/1 b:1/3 c:1/2", 2, 2, 0, "b c", id="the heaviest two groups"),
        pytest.param("a:2/5 b:3/5", 1, 1, 1, "b", id="of equal weights the group with more clusters"),
        pytest.param("b:2/5 a:2/5", 1, 1, 1, "a", id="of equal weights and sizes the first by name"),
        pytest.param("a:1/1 b:1/3 c:2/2", 1, 3, 4, "b c a", id="as many groups as needed to reach the target"),
        pytest.param("a:1/9 b:5/1", 1, 1, 5, "b", id="a light group that reaches the target alone"),
        pytest.param("a:5/1 b:1/9 c:1/8", 1, 3, 5, "b c a", id="a combination may be longer than needed"),
        pytest.param("a:2/9 b:3/8 c:4/7", 1, 3, 5, "a b", id="the order of the walk decides that 2+3 is recorded"),
        pytest.param("a:1/1 b:1/1", 3, 5, 0, "", id="fewer groups than the minimum"),
        pytest.param("a:1/1 b:1/1", 1, 0, 0, "", id="a maximum of 0 allows none"),
        pytest.param("a:1/1 b:1/1", 2, 1, 0, "", id="a maximum below the minimum allows none"),
        pytest.param("a:1/1 b:1/1", 1, 2, 3, "", id="fewer clusters than the target"),
        pytest.param("a:1/1 b:1/1 c:9/0", 1, 2, 11, "", id="the maximum number of groups cannot reach the target"),
        pytest.param("a:1/0 b:1/0", 1, 2, 0, "a", id="without weights the shortest combination"),
        pytest.param("", 1, 2, 0, "", id="no groups"),
    ],
)
def test_the_best_choice(given_groups, shortest, longest, target, expected):
    chosen = select_groups(groups(given_groups), shortest, longest, target)
    assert " ".join(group.name for group in chosen) == expected


def many(count, weight=1000):
    return [ClusterGroup(f"r{number}", 1 + number % 5, weight) for number in range(count)]


@pytest.mark.parametrize(
    ("given_groups", "shortest", "longest", "target", "cost"),
    [
        pytest.param(many(30), 10, 12, 30, 7674, id="at most regions x lengths x clusters"),
        pytest.param(many(30), 10, 30, 30, 6601, id="one length for all long enough sequences without an upper bound"),
        pytest.param(many(30), 10, 12, -1, 312, id="no minimum of clusters"),
        pytest.param(many(30, 2**60), 10, 12, 30, 7674 * 16, id="numbers beyond 64 bits cost more"),
        pytest.param(many(30), 31, 40, 30, 0, id="too few regions cost 0"),
        pytest.param(many(30), 10, 12, 91, 0, id="too few clusters cost 0"),
    ],
)
def test_the_cost_of_a_search_is_known_in_advance(given_groups, shortest, longest, target, cost):
    assert search_cost(given_groups, shortest, longest, target) == cost


def test_a_real_fleet_is_within_the_bound():
    assert search_cost(many(300), 100, 250, 900) < MAX_COST
