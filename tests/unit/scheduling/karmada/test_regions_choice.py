from tables import cases

from berthmaster.scheduling.karmada.selection import MAX_COST, ClusterGroup, search_cost


def many(count, weight=1000):
    return [ClusterGroup(f"r{number}", 1 + number % 5, weight) for number in range(count)]


@cases(
    ("given_groups", "shortest", "longest", "target", "cost"),
    {
        "at most regions x lengths x clusters": (many(30), 10, 12, 30, 7674),
        "one length for all long enough sequences without an upper bound": (many(30), 10, 30, 30, 6601),
        "no minimum of clusters": (many(30), 10, 12, -1, 312),
        "numbers beyond 64 bits cost more": (many(30, 2**60), 10, 12, 30, 7674 * 16),
        "too few regions cost 0": (many(30), 31, 40, 30, 0),
        "too few clusters cost 0": (many(30), 10, 12, 91, 0),
    },
)
def test_the_cost_of_a_search_is_known_in_advance(given_groups, shortest, longest, target, cost):
    assert search_cost(given_groups, shortest, longest, target) == cost


def test_a_real_fleet_is_within_the_bound():
    assert search_cost(many(300), 100, 250, 900) < MAX_COST
