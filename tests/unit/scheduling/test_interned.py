"""A long-lived fleet must not keep unused values."""

from builders import cluster

from berthmaster.scheduling.columns import InternedValues
from berthmaster.scheduling.fleet import Fleet


def test_equal_values_share_a_code_until_the_last_user_releases_it():
    interned = InternedValues()
    first, second, other = interned.take("a"), interned.take("a"), interned.take("b")
    assert first == second != other
    interned.release(first)
    assert interned.take("c") not in (first, other)
    interned.release(second)
    assert interned.take("d") == first


def test_a_fleet_with_many_changes_does_not_grow():
    fleet = Fleet([cluster("steady", region="r", labels={"k": "v"})])
    for number in range(50):
        fleet.apply(cluster("busy", region=f"r{number}", labels={f"k{number}": "v"}, taints=[f"t{number}:NoSchedule"]))
    fleet.remove("busy")
    assert len(fleet.regions.values) <= 3
    assert len(fleet.taints.values) <= 3
    assert set(fleet.labels._rows) == {"k"}
    assert list(fleet.region_code[[fleet.row_of["steady"]]]) == [fleet.regions.take("r")]
