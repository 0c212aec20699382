"""Which clusters and regions the spread constraints select."""

from builders import cluster
from decisions import AGGREGATED, DUPLICATED, asked, outcome, schedule, spread
from tables import cases

from berthmaster.scheduling.karmada.selection import MAX_COST, ClusterGroup, search_cost


def fleet(**pods):
    return [cluster(name, pods=count) for name, count in pods.items()]


FIVE = fleet(a=5, b=4, c=4, d=9, e=1)


def test_a_spread_by_label_alone_fails():
    constraint = {"spreadByLabel": "team", "minGroups": 1, "maxGroups": 1}
    decision = schedule(FIVE, asked(spread=[constraint]))
    assert outcome(decision) == "SelectFailed"
    assert "label team" in decision.failure.message


def test_a_maximum_of_no_cluster_fails():
    asked_for = asked(replicas=3, scheduling=DUPLICATED, spread=[spread("cluster", 1, 0)])
    assert outcome(schedule(FIVE, asked_for)) == "SelectFailed"


def world(text):
    """Parse ``"r1:a5,b3 r2:c9"``: region r1 has a cluster a that holds 5 pods, and so on."""
    return [
        cluster(member[0], region=name, pods=int(member[1:]))
        for name, _, members in (part.partition(":") for part in text.split())
        for member in members.split(",")
    ]


def selected(text, /, **fields):
    decision = schedule(world(text), asked(**fields))
    return outcome(decision) if decision.failure else "".join(decision.attempts[0].selected.names())


def bounds(regions, clusters=None):
    constraints = [spread("region", *regions)]
    return constraints if clusters is None else [*constraints, spread("cluster", *clusters)]


def test_a_hundred_regions_need_no_enumeration():
    clusters = [cluster(f"m{index}", region=f"r{index % 100}", pods=index % 7 + 1) for index in range(300)]
    decision = schedule(clusters, asked(replicas=60, scheduling=AGGREGATED, spread=bounds((40, 50), (100, 120))))
    assert len(decision.attempts[0].selected) == 120
    assert sum(decision.assignment.values()) == 60


def test_a_search_that_is_too_large_fails_with_advice():
    clusters = [cluster(f"c{number}", region=f"r{number}") for number in range(1200)]
    decision = schedule(clusters, asked(scheduling=DUPLICATED, spread=bounds((600, 1100), (600, 9999))))
    assert outcome(decision) == "SelectFailed"
    assert "the choice of 600 to 1100 of 1200 regions" in decision.failure.message
    assert "lower maxGroups of the regions" in decision.failure.message


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
