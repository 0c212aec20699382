"""The state of a move on its binding, and the binding with and without the move."""

from datetime import UTC, datetime
from typing import Any

import msgspec.structs
import pytest
from builders import binding

from berthmaster.model.binding import Binding, GracefulEvictionTask
from berthmaster.model.move import (
    APPLIED_AFFINITY,
    MOVE,
    MovePhase,
    MoveReason,
    MoveState,
    MoveStrategy,
    annotation_of,
    as_before,
    as_moved,
    both,
    move_of,
    move_problem,
    union,
    written_clusters,
)

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def state(**changed: Any) -> MoveState:
    values = {
        "reason": MoveReason.FAILBACK,
        "phase": MovePhase.SURGING,
        "source": {"old": 4},
        "target": {"new": 4},
        "source_group": "g2",
        "target_group": "g1",
        "since": T0,
    }
    return MoveState(**{**values, **changed})


def moving(move: MoveState, clusters: dict[str, int], **fields: Any) -> Binding:
    return binding(replicas=4, clusters=clusters, annotations={MOVE: annotation_of(move), "a": "b"}, **fields)


def clusters_of(given: Binding) -> dict[str, int]:
    return {each.name: each.replicas for each in given.spec.clusters}


def test_a_state_survives_its_annotation():
    full = state(until=T0, failures=3, held_down_until=T0, template="7", returning=True, message="m", started_at=T0)
    assert move_of(moving(full, {"old": 4, "new": 4})) == full


def test_the_annotation_is_small_json_with_camel_case_names():
    assert annotation_of(state()) == (
        '{"reason":"Failback","phase":"Surging","source":{"old":4},"target":{"new":4},"sourceGroup":"g2",'
        '"targetGroup":"g1","since":"2026-01-01T00:00:00Z"}'
    )


def test_unknown_fields_of_a_newer_version_are_ignored():
    given = binding(annotations={MOVE: annotation_of(state())[:-1] + ',"newer":1}'})
    assert move_of(given) == state()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{", id="no JSON"),
        pytest.param('{"reason":"Failback"}', id="no phase"),
        pytest.param('{"reason":"Whim","phase":"Surging"}', id="an unknown reason"),
        pytest.param('{"reason":"Drain","phase":"Surging","source":{"a":-1}}', id="negative replicas"),
        pytest.param('{"reason":"Drain","phase":"Surging","since":"yesterday"}', id="an invalid time"),
    ],
)
def test_an_invalid_annotation_does_not_count_and_is_reported(text: str):
    given = binding(clusters={"old": 4}, annotations={MOVE: text})
    assert move_of(given) is None
    assert MOVE in move_problem(given)
    assert as_moved(given) is given


def test_a_binding_without_the_annotation_has_no_move():
    given = binding(clusters={"old": 4})
    assert (move_of(given), move_problem(given)) == (None, "")
    assert as_moved(given) is given
    assert as_before(given) is given


@pytest.mark.parametrize(
    ("source", "target", "joined", "common"),
    [
        pytest.param({"a": 4}, {"b": 4}, {"a": 4, "b": 4}, {}, id="whole clusters"),
        pytest.param({"a": 8}, {"a": 4, "b": 4}, {"a": 8, "b": 4}, {"a": 4}, id="a part"),
        pytest.param({"a": 2, "b": 6}, {"a": 6, "b": 2}, {"a": 6, "b": 6}, {"a": 2, "b": 2}, id="an exchange"),
        pytest.param({"a": 0}, {"b": 0}, {"a": 0, "b": 0}, {}, id="no replicas"),
    ],
)
def test_what_old_and_new_copies_have_in_sum_and_in_common(
    source: dict[str, int], target: dict[str, int], joined: dict[str, int], common: dict[str, int]
):
    assert union(source, target) == joined
    assert both(source, target) == common


@pytest.mark.parametrize(
    ("phase", "strategy", "expected"),
    [
        pytest.param(MovePhase.SURGING, MoveStrategy.MAKE_BEFORE_BREAK, {"a": 8, "b": 4}, id="both run"),
        pytest.param(MovePhase.SOAKING, MoveStrategy.MAKE_BEFORE_BREAK, {"a": 8, "b": 4}, id="both run while soaking"),
        pytest.param(MovePhase.ADMITTED, MoveStrategy.BREAK_BEFORE_MAKE, {"a": 4}, id="only what stays"),
        pytest.param(MovePhase.SURGING, MoveStrategy.BREAK_BEFORE_MAKE, {"a": 4, "b": 4}, id="only the new ones"),
    ],
)
def test_the_clusters_that_a_move_writes(phase: MovePhase, strategy: MoveStrategy, expected: dict[str, int]):
    given = state(phase=phase, strategy=strategy, source={"a": 8}, target={"a": 4, "b": 4})
    assert written_clusters(given) == expected


def test_a_binding_in_a_move_is_read_with_its_target_or_its_source():
    given = moving(state(), {"old": 4, "new": 4})
    given = msgspec.structs.replace(
        given,
        metadata=msgspec.structs.replace(
            given.metadata, annotations={**given.metadata.annotations, APPLIED_AFFINITY: "g2@1"}
        ),
    )
    after, before = as_moved(given), as_before(given)
    assert (clusters_of(after), after.status.scheduler_observing_affinity_name) == ({"new": 4}, "g1")
    assert (clusters_of(before), before.status.scheduler_observing_affinity_name) == ({"old": 4}, "g2")
    assert after.metadata.annotations == before.metadata.annotations == {"a": "b"}


@pytest.mark.parametrize(
    "phase",
    [MovePhase.ELIGIBLE, MovePhase.STABILISING, MovePhase.RELEASED, MovePhase.ROLLED_BACK, MovePhase.HELD_DOWN],
)
def test_a_move_that_is_not_under_way_changes_nothing(phase: MovePhase):
    given = moving(state(phase=phase), {"old": 4})
    assert as_moved(given) is given
    assert as_before(given) is given


def test_a_binding_that_another_client_changed_is_read_as_it_is():
    given = moving(state(), {"old": 4, "new": 4, "other": 1})
    assert as_moved(given) is given


def test_an_evicted_cluster_may_lack_and_is_in_neither_assignment():
    given = moving(
        state(source={"old": 2, "gone": 2}),
        {"old": 2, "new": 4},
        graceful_eviction_tasks=(GracefulEvictionTask("gone", producer="x"),),
    )
    assert clusters_of(as_moved(given)) == {"new": 4}
    assert clusters_of(as_before(given)) == {"old": 2}


@pytest.mark.parametrize(
    ("source", "target", "leaving", "arriving"),
    [
        pytest.param({"a": 4}, {"b": 4}, {"a": 4}, {"b": 4}, id="whole clusters"),
        pytest.param({"a": 8}, {"a": 4, "b": 4}, {"a": 4}, {"b": 4}, id="a part"),
        pytest.param({"a": 0}, {"b": 0}, {"a": 0}, {"b": 0}, id="without replicas clusters count"),
    ],
)
def test_what_leaves_and_what_arrives(
    source: dict[str, int], target: dict[str, int], leaving: dict[str, int], arriving: dict[str, int]
):
    given = state(source=source, target=target)
    assert (given.leaving, given.arriving) == (leaving, arriving)
