import pytest
from builders import cluster, placement
from msgspec.structs import replace
from tables import cases

from berthmaster.model.affinity import ClusterAffinity
from berthmaster.model.cluster import Condition
from berthmaster.model.errors import InputError
from berthmaster.scheduling import fleet as module
from berthmaster.scheduling.compiled_placement import Affinities, AffinityColumn
from berthmaster.scheduling.fleet import Fleet

FREE, FULL = cluster("a", cpu=8), cluster("a", cpu=1)
AT_REST = cluster("a", labels={"env": "prod"}, region="eu", taints=["gpu:NoSchedule"], cpu=4)


def versions(fleet):
    return fleet.structure.version, fleet.resources.journal.version


def test_applying_the_same_cluster_again_changes_nothing():
    fleet = Fleet([AT_REST])
    before = versions(fleet)
    fleet.apply(cluster("a", labels={"env": "prod"}, region="eu", taints=["gpu:NoSchedule"], cpu=4))
    assert versions(fleet) == before


def test_changed_numbers_do_not_change_the_structure():
    fleet = Fleet([FREE])
    structure, resources = versions(fleet)
    fleet.apply(FULL)
    assert versions(fleet) == (structure, resources + 1)


def with_metadata(**fields):
    return replace(AT_REST, metadata=replace(AT_REST.metadata, **fields))


@cases(
    "changed",
    {
        "a label": with_metadata(labels={"env": "dev"}),
        "an annotation, which third-party plugins may read": with_metadata(annotations={"price": "7"}),
        "a region": replace(AT_REST, spec=replace(AT_REST.spec, region="us")),
        "a taint": replace(AT_REST, spec=replace(AT_REST.spec, taints=())),
        "the served kinds": replace(AT_REST, status=replace(AT_REST.status, api_enablements=())),
        "a condition, which third-party plugins may read": replace(
            AT_REST, status=replace(AT_REST.status, conditions=(Condition(type="Ready", status="False"),))
        ),
        "a deletion": cluster("a", labels={"env": "prod"}, deleting=True),
    },
)
def test_all_other_changes_change_the_structure(changed):
    fleet = Fleet([AT_REST])
    structure = fleet.structure.version
    fleet.apply(changed)
    assert fleet.structure.version == structure + 1
    assert fleet.get("a") is changed


def test_a_status_update_of_numbers_recomputes_no_affinity(monkeypatch):
    fleet = Fleet([FREE, cluster("b", cpu=8)])
    column = Affinities(fleet).column(ClusterAffinity(cluster_names=("a",)))
    column.current()
    monkeypatch.setattr(AffinityColumn, "compute", lambda _: pytest.fail("all rows were computed"))
    monkeypatch.setattr(AffinityColumn, "compute_row", lambda _, row: pytest.fail(f"row {row} was computed"))
    fleet.apply(FULL)
    assert column.current()[fleet.row_of["a"]]


def test_equal_affinities_with_different_names_share_a_column():
    affinities = Affinities(Fleet())
    groups = placement(
        clusterAffinities=[
            {"affinityName": "x", "clusterNames": ["a"], "overflowAffinities": [{"affinityName": "y"}]},
            {"affinityName": "z", "clusterNames": ["a"]},
        ]
    ).cluster_affinities
    assert affinities.column(groups[0]) is affinities.column(groups[1])
    assert affinities.column(groups[0]) is not affinities.column(ClusterAffinity())


def test_rows_of_removed_clusters_are_reused():
    fleet = Fleet([cluster(name) for name in "abc"])
    row, capacity = fleet.row_of["b"], fleet.capacity
    fleet.remove("b")
    assert (len(fleet), fleet.get("b"), bool(fleet.occupied[row])) == (2, None, False)
    fleet.apply(cluster("z", cpu=3))
    assert (fleet.row_of["z"], fleet.capacity, len(fleet)) == (row, capacity, 3)


def test_a_reused_row_has_no_values_of_its_previous_cluster():
    fleet = Fleet([cluster("a", region="eu", provider="aws", zones=["z"], labels={"env": "prod"}, cpu=9)])
    fleet.remove("a")
    fleet.apply(cluster("b"))
    column = Affinities(fleet).column(
        placement(clusterAffinity={"labelSelector": {"matchLabels": {"env": "prod"}}}).cluster_affinity
    )
    row = fleet.row_of["b"]
    assert not column.current()[row]
    assert fleet.regions.values[fleet.region_code[row]] == ""
    assert fleet.resources.estimate(()).current()[row] == 0


def test_removing_an_unknown_cluster_does_nothing():
    fleet = Fleet([AT_REST])
    before = versions(fleet)
    fleet.remove("b")
    assert versions(fleet) == before


def test_growth_keeps_all_values():
    fleet = Fleet()
    affinity = Affinities(fleet).column(ClusterAffinity(exclude=("m3",)))
    estimate = fleet.resources.estimate((("cpu", 1000),))
    for index in range(100):
        fleet.apply(cluster(f"m{index}", cpu=index, pods=200))
        assert affinity.current()[fleet.row_of[f"m{index}"]] == (index != 3)
    rows = [fleet.row_of[f"m{index}"] for index in range(100)]
    assert estimate.current()[rows].tolist() == list(range(100))
    assert [fleet.names(fleet.name_rank()[rows].argsort())[0]] == ["m0"]


def test_names_are_ranked_in_byte_order():
    fleet = Fleet([cluster(name) for name in ("b", "a10", "a-1", "a2", "a.1")])
    fleet.remove("a2")
    ranked = sorted(fleet.row_of, key=lambda name: fleet.name_rank()[fleet.row_of[name]])
    assert ranked == ["a-1", "a.1", "a10", "b"]


def test_a_full_fleet_rejects_new_clusters_and_accepts_updates(monkeypatch):
    monkeypatch.setattr(module, "MAX_CLUSTERS", 2)
    fleet = Fleet([FREE, cluster("b")])
    with pytest.raises(InputError, match="at most 2 clusters"):
        fleet.apply(cluster("c"))
    fleet.apply(FULL)
    assert (len(fleet), "c" in fleet.row_of) == (2, False)
