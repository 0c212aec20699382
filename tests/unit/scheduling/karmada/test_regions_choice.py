import pytest

from berthmaster.scheduling.karmada.selection import MAX_COST, ClusterGroup, search_cost


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
