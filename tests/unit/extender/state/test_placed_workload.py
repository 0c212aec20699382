"""Placed workloads and their index."""

from datetime import UTC, datetime, timedelta

from builders import binding, placement
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import cases

from berthmaster.deciding.writes import applied_affinity
from berthmaster.model import binding as bindings_model
from berthmaster.model.binding import AggregatedStatusItem, BindingStatus, Component, GracefulEvictionTask
from berthmaster.model.cluster import Condition
from berthmaster.model.move import APPLIED_AFFINITY, MOVE, MovePhase, MoveReason, MoveState, annotation_of
from berthmaster.model.policy import Suspension
from berthmaster.native_api.fleet import SortKey, WorkloadState
from extender.state.placed_index import ObservedIndex, PlacedIndex, WorkloadTotals
from extender.state.placed_workload import moving_between, not_running_yet, placed_workload, row_of

NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)
DIVIDED = placement(replicaScheduling={"replicaSchedulingType": "Divided"})
GROUPS = placement(clusterAffinities=[{"affinityName": name, "clusterNames": [name]} for name in ("own", "cloud")])


def scheduled(status: str, message: str = "", group: str = "") -> BindingStatus:
    conditions = (Condition("Scheduled", status, "Because", message),)
    return BindingStatus(scheduler_observing_affinity_name=group, conditions=conditions)


def moving(phase: MovePhase, **fields) -> dict[str, str]:
    state = MoveState(MoveReason.FAILBACK, phase, source={"b": 2}, target={"a": 2}, **fields)
    return {MOVE: annotation_of(state)}


@cases(
    ("stored", "state", "message"),
    {
        "an assignment": (binding(clusters={"a": 1}), "placed", ""),
        "refused": (binding(status=scheduled("False", "no cluster fits")), "nowhere", "no cluster fits"),
        "before the first decision": (binding(), "pending", ""),
        "an assignment that was removed": (binding(status=scheduled("True")), "pending", ""),
        "a scheduler that does not know": (binding(status=scheduled("Unknown", "?")), "unknown", "?"),
        "too few divided replicas": (
            binding(replicas=3, placement=DIVIDED, clusters={"a": 1, "b": 1}),
            "short",
            "2 of 3 replicas are assigned",
        ),
        "too few duplicated replicas": (
            binding(replicas=3, clusters={"a": 3, "b": 1}),
            "short",
            "1 of 2 clusters have fewer than 3 replicas",
        ),
        "more replicas than desired": (binding(replicas=3, placement=DIVIDED, clusters={"a": 4}), "placed", ""),
        "several pod templates": (
            binding(replicas=3, clusters={"a": 0}, components=(Component("x", 1), Component("y", 2))),
            "placed",
            "",
        ),
        "an old assignment that stays": (
            binding(replicas=2, clusters={"a": 2}, status=scheduled("False", "no cluster fits the new placement")),
            "placed",
            "no cluster fits the new placement",
        ),
        "suspended scheduling": (binding(suspension=Suspension(scheduling=True)), "suspended", ""),
    },
)
def test_the_state_follows_from_assignment_and_conditions(stored, state, message):
    row = row_of(placed_workload(stored), NOW)
    assert (row.state.value, row.message) == (state, message)


def test_a_binding_that_is_only_due_is_nowhere_yet():
    row = row_of(placed_workload(binding(clusters={"a": 1}), present=False), NOW)
    assert (row.state, row.message) == (WorkloadState.PENDING, "its binding does not exist yet")


@cases(
    ("group", "clusters", "expected"),
    {
        "the first group": ("own", {"own": 1}, ("own", 0, True)),
        "a later group": ("cloud", {"cloud": 1}, ("cloud", 1, False)),
        "a group that the placement no longer has": ("gone", {"cloud": 1}, ("gone", None, None)),
        "no assignment": ("own", {}, (None, None, None)),
    },
)
def test_the_group_is_that_of_the_assignment(group, clusters, expected):
    row = row_of(
        placed_workload(binding(placement=GROUPS, clusters=clusters, status=scheduled("True", "", group))), NOW
    )
    assert (row.group, row.group_index, row.preferred) == expected
    assert row.groups == 2


def test_a_placement_without_groups_has_no_preferred_one():
    row = row_of(placed_workload(binding(clusters={"a": 1})), NOW)
    assert (row.group, row.group_index, row.groups, row.preferred) == (None, None, 0, None)


def test_the_group_of_the_last_write_counts_while_the_status_is_stale():
    annotations = {APPLIED_AFFINITY: applied_affinity("cloud", {"cloud": 1})}
    stale = binding(
        placement=GROUPS, clusters={"cloud": 1}, annotations=annotations, status=scheduled("True", "", "own")
    )
    assert placed_workload(stale).group == "cloud"


def test_a_placement_without_groups_has_none_although_the_status_names_one():
    left = binding(placement={}, clusters={"a": 1}, status=scheduled("True", "", "own"))
    assert (placed_workload(left).group, placed_workload(left).preferred) == ("", None)


def test_a_dependency_is_where_its_workloads_are():
    snapshot = bindings_model.BindingSnapshot("web", "default", (bindings_model.TargetCluster("b", 2),))
    resource = bindings_model.ObjectReference("v1", "ConfigMap", "x")
    follower = bindings_model.Binding(bindings_model.BindingSpec(resource, required_by=(snapshot,)))
    row = row_of(placed_workload(follower), NOW)
    assert (row.clusters, row.state.value, row.scheduler) == ({"b": 0}, "placed", None)
    assert PlacedIndex([(("", "x"), placed_workload(follower))]).use("b").replicas == 0
    assert row.message == "it follows the workloads that need it"


def test_a_move_under_way_brings_and_removes_copies():
    stored = binding(replicas=2, clusters={"a": 2, "b": 2}, annotations=moving(MovePhase.SURGING))
    placed = placed_workload(stored)
    assert (placed.moving, placed.held_down(NOW)) == (True, False)
    assert moving_between(stored) == ({"a"}, {"b"})
    assert "a move (Failback) to a:2 is under way" in row_of(placed, NOW).message


def test_a_move_that_another_client_interrupted_brings_and_removes_nothing():
    stored = binding(replicas=2, clusters={"c": 2}, annotations=moving(MovePhase.SURGING))
    assert moving_between(stored) == (frozenset(), frozenset())


def test_an_eviction_removes_copies():
    stored = binding(clusters={"a": 1}, graceful_eviction_tasks=(GracefulEvictionTask("b"),))
    assert moving_between(stored)[1] == {"b"}


def test_a_hold_down_ends():
    until = NOW + timedelta(minutes=5)
    placed = placed_workload(
        binding(clusters={"b": 2}, annotations=moving(MovePhase.ROLLED_BACK, held_down_until=until))
    )
    assert (placed.held_down(NOW), placed.held_down(until), placed.moving) == (True, False, False)
    assert row_of(placed, NOW).message == "it does not move before 2026-01-15 12:05:00Z"
    assert row_of(placed, until).message == ""


def reports(*names: str, **fields) -> BindingStatus:
    return BindingStatus(aggregated_status=tuple(AggregatedStatusItem(name, **fields) for name in names))


@cases(
    ("stored", "expected"),
    {
        "one of two clusters runs it": (
            binding(replicas=3, requests={"cpu": "500m"}, clusters={"a": 1, "b": 2}, status=reports("a", applied=True)),
            {"b": {"cpu": 1000, "pods": 2}},
        ),
        "Karmada has sent it and the cluster has not applied it": (
            binding(requests={"cpu": 1}, clusters={"a": 1}, status=reports("a")),
            {"a": {"cpu": 1000, "pods": 1}},
        ),
        "an update failed, and the old copy runs": (
            binding(requests={"cpu": 1}, clusters={"a": 1}, status=reports("a", status={"replicas": 1})),
            {},
        ),
        "a workload without replicas": (binding(replicas=0, clusters={"a": 0}), {}),
        "several pod templates": (
            binding(
                clusters={"a": 0},
                components=(
                    Component("x", 2, binding(requests={"cpu": 1}).spec.replica_requirements),
                    Component("y", 1),
                ),
            ),
            {"a": {"cpu": 2000, "pods": 3}},
        ),
    },
)
def test_what_a_cluster_does_not_run_yet_counts_on_it(stored, expected):
    assert {name: dict(amounts) for name, amounts in not_running_yet(stored)} == expected


CLUSTERS = ("a", "b", "c")
INDEX_GROUPS = placement(clusterAffinities=[{"affinityName": name, "clusterNames": [name]} for name in CLUSTERS])
MOVING = MoveState(MoveReason.DRAIN, MovePhase.SURGING, source={"a": 1}, target={"b": 1})

assignments = st.dictionaries(st.sampled_from(CLUSTERS), st.integers(0, 3))
bindings = st.builds(
    lambda name, clusters, group, grouped, evicted, moves: binding(
        name,
        replicas=2,
        requests={"cpu": 1},
        placement=INDEX_GROUPS if grouped else None,
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
            each for each in index.by_name() if not {"a", "c"}.isdisjoint(each.binding.deployed)
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
    return binding(name, placement=INDEX_GROUPS, clusters={group: 1}, status=status)


def test_what_is_not_known_comes_last_in_both_directions():
    rows = [in_group("third", "c"), binding("none", clusters={"c": 1}), in_group("first", "a")]
    index = PlacedIndex((key_of(each), placed_workload(each)) for each in rows)

    def names(*, descending):
        return [each.binding.spec.resource.name for each in index.ordered(SortKey.GROUP, descending=descending)]

    assert names(descending=False) == ["first", "third", "none"]
    assert names(descending=True) == ["third", "first", "none"]
