"""The index of workloads: after any changes it is what a new index would be."""

from builders import binding, placement
from hypothesis import given, settings
from hypothesis import strategies as st

from berthmaster.model.binding import BindingStatus, GracefulEvictionTask
from berthmaster.model.move import MOVE, MovePhase, MoveReason, MoveState, annotation_of
from berthmaster.native_api.fleet import SortKey
from extender.state.placed_index import ObservedIndex, PlacedIndex
from extender.state.placed_totals import WorkloadTotals
from extender.state.placed_workload import clusters_of, placed_workload

CLUSTERS = ("a", "b", "c")
GROUPS = placement(clusterAffinities=[{"affinityName": name, "clusterNames": [name]} for name in CLUSTERS])
MOVING = MoveState(MoveReason.DRAIN, MovePhase.SURGING, source={"a": 1}, target={"b": 1})

assignments = st.dictionaries(st.sampled_from(CLUSTERS), st.integers(0, 3))
bindings = st.builds(
    lambda name, clusters, group, grouped, evicted, moves: binding(
        name,
        replicas=2,
        requests={"cpu": 1},
        placement=GROUPS if grouped else None,
        clusters={"a": 1, "b": 1} if moves else clusters,
        annotations={MOVE: annotation_of(MOVING)} if moves else {},
        status=BindingStatus(scheduler_observing_affinity_name=group),
        graceful_eviction_tasks=tuple(map(GracefulEvictionTask, evicted)),
    ),
    name=st.sampled_from(["w1", "w2", "w3"]),
    clusters=assignments,
    group=st.sampled_from(["", *CLUSTERS, "gone"]),
    grouped=st.booleans(),
    evicted=st.sets(st.sampled_from(CLUSTERS)),
    moves=st.booleans(),
)
changes = st.lists(st.tuples(bindings, st.booleans()), max_size=12)


def key_of(stored):
    return stored.metadata.key


def uses(index: PlacedIndex) -> dict[str, object]:
    return {
        name: (use.workloads, use.replicas, use.groups(), use.without_groups, use.arriving, use.leaving, +use.assumed)
        for name in CLUSTERS
        for use in [index.use(name)]
    }


def totals(index: PlacedIndex) -> list[object]:
    return [
        [getattr(found, name) for name in WorkloadTotals.__slots__]
        for visible in (None, frozenset({"default", "other"}))
        for found in [index.totals(visible)]
    ] + [index.sizes()]


@settings(max_examples=40, derandomize=True, deadline=None)
@given(changes=changes, reads=st.sets(st.integers(0, 12)))
def test_changes_lead_to_the_same_index_as_building_it_again(changes, reads):
    stored = {}
    observed = ObservedIndex(stored.get, lambda: list(stored.items()))
    for number, (each, deleted) in enumerate(changes):
        if number in reads:
            with observed.reading() as index:
                index.ordered(SortKey.NAME, descending=True)
        before = stored.pop(key_of(each), None)
        if not deleted:
            stored[key_of(each)] = each
        observed.changed(key_of(each), before, None if deleted else each)
    built = PlacedIndex((key, placed_workload(each)) for key, each in stored.items())
    with observed.reading() as index:
        assert (len(index), uses(index)) == (len(built), uses(built))
        for sort in SortKey:
            assert index.ordered(sort, descending=True) == built.ordered(sort, descending=True)
        assert totals(index) == totals(built)
        assert {each.binding.metadata.name for each in index.moves()} == {
            name for (_, name), each in stored.items() if MOVE in each.metadata.annotations
        }
        assert index.on_clusters(["a", "c"]) == [
            each for each in index.by_name() if not {"a", "c"}.isdisjoint(clusters_of(each.binding))
        ]


def test_few_workloads_on_a_cluster_are_in_the_order_by_name():
    stored = [binding(f"w{number}", clusters={"b" if number % 10 == 3 else "a": 1}) for number in range(40, 0, -1)]
    index = PlacedIndex((key_of(each), placed_workload(each)) for each in stored)
    assert [each.binding.spec.resource.name for each in index.on_clusters(["b", "none"])] == ["w13", "w23", "w3", "w33"]


def test_what_is_kept_is_forgotten_after_a_change():
    index, made = PlacedIndex(), []
    for _ in range(2):
        index.kept("question", lambda: made.append(len(index)))
    index.put(("default", "web"), placed_workload(binding("web")))
    index.kept("question", lambda: made.append(len(index)))
    assert made == [0, 1]


def test_an_index_is_built_again_after_an_error():
    stored, failing = {("default", "web"): binding("web", clusters={"a": 1})}, [True]

    def get(key):
        if failing.pop():
            raise ValueError("a bug")
        return stored.get(key)

    observed = ObservedIndex(get, lambda: list(stored.items()))
    with observed.reading():
        pass
    stored["default", "new"] = binding("new", clusters={"a": 1})
    observed.changed(("default", "new"), None, None)
    try:
        with observed.reading():
            raise AssertionError
    except ValueError:
        pass
    with observed.reading() as index:
        assert index.use("a").workloads == 2


def in_group(name, group):
    status = BindingStatus(scheduler_observing_affinity_name=group)
    return binding(name, placement=GROUPS, clusters={group: 1}, status=status)


def test_what_is_not_known_comes_last_in_both_directions():
    rows = [in_group("third", "c"), binding("none", clusters={"c": 1}), in_group("first", "a")]
    index = PlacedIndex((key_of(each), placed_workload(each)) for each in rows)

    def names(*, descending):
        return [each.binding.spec.resource.name for each in index.ordered(SortKey.GROUP, descending=descending)]

    assert names(descending=False) == ["first", "third", "none"]
    assert names(descending=True) == ["third", "first", "none"]
