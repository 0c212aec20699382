"""Records of moves and of the Lease that another client wrote decide about no other workload, and break nothing."""

import json
import random
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from karmada_model.stage import Stage
from karmada_plane import cluster, deployment, policy, selector
from kube_store import JSON
from move_plays import ON, SETTINGS, terms_of
from tables import cases

from berthmaster.deciding.lease_record import BRAKE, CONTROLLERS, SOURCES, LeaseRecord, lease_record
from berthmaster.model.binding import Binding
from berthmaster.model.decode import convert, encode_json
from berthmaster.model.move import DRAINING, MOVE
from berthmaster.views.move_budgets import KnownMoves, moves_report
from berthmaster.views.move_rows import moves_among

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FORGER = deployment("forged", 2)
BANK = deployment("ledger", 1, namespace="bank")
OWN = {"schedulerName": "berthmaster"}
TRUE: JSON = {
    "reason": "Failback", "phase": "Surging", "strategy": "MakeBeforeBreak", "source": {"m2": 2}, "target": {"m1": 2},
    "sourceGroup": "b", "targetGroup": "a", "startedAt": "2026-01-01T00:00:00Z", "since": "2026-01-01T00:00:00Z",
    "until": "2026-01-01T00:10:00Z", "failures": 1,
}  # fmt: skip
PIECES: list[Any] = [
    None, True, -1, 0, 10**30, 1.5, "", "x" * 100_000, "\x00\x1b[31m\u202e", [], {}, {"": 1}, {"m9": 2}, {"m2": -2},
    {"m1": 10**18}, {f"m{number}": 1 for number in range(5_000)}, "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z",
    "Released", "RolledBack", "Draining", "Soaking", "Eligible", "Drain", "Failover", "BreakBeforeMake", [[[[[]]]]],
]  # fmt: skip


def forged(draw: random.Random) -> str:
    """Return a record with some fields that its writer never writes, or no record."""
    if draw.random() < 0.15:
        return draw.choice(["", "null", "[]", "{", '"', "[" * 5_000, '{"reason": NaN}', "\ud800", json.dumps(TRUE) * 2])
    found = dict(TRUE)
    for name in draw.sample([*TRUE, "heldDownUntil", "overdue", "cause", "origin", "template", "unknown"], 3):
        found[name] = draw.choice(PIECES)
    return json.dumps(found)


def two_tenants() -> Stage:
    stage = Stage(
        *(cluster(name) for name in ("m1", "m2", "m3", "m4")),
        policy("shop", selector(), placement={"clusterAffinities": terms_of({"a": ["m1"], "b": ["m2"]})}, **OWN),
        policy(
            "bank", selector(namespace="bank"), namespace="bank", **OWN,
            placement={"clusterAffinities": terms_of({"a": ["m3"], "b": ["m4"]})},
        ),
        FORGER, BANK, settings=SETTINGS, moves=ON,
    )  # fmt: skip
    stage.run(60)
    assert stage.assignment(BANK).keys() == {"m3"}
    return stage


@pytest.mark.parametrize("seed", range(8))
def test_a_forged_record_of_a_move_stops_no_other_workload_and_ends(seed: int, caplog: pytest.LogCaptureFixture):
    draw, stage = random.Random(seed), two_tenants()
    records = [forged(draw).encode("utf-8", "replace").decode() for _ in range(10)]
    for number, record in enumerate(records):
        binding = stage.binding(FORGER)
        assert binding is not None
        stage.edit(binding, metadata={"annotations": {MOVE: record}})
        if number == len(records) // 2:
            stage.edit(cluster("m3"), spec={"taints": [{"key": DRAINING, "effect": "NoSchedule"}]})
        stage.run(20)
        stored = [convert(Binding, stage.binding(each)) for each in (FORGER, BANK)]
        known = KnownMoves(list(moves_among(stored)), lambda *_: None, None, stage.clock.now())
        assert encode_json(moves_report(known)[0])
    stage.run(900)
    assert stage.assignment(BANK).keys() == {"m4"}
    assert stage.model.members.healthy(BANK) == {"m4": 1}
    stage.run(3 * 86400)
    assert stage.assignment(FORGER) == {"m1": 2}, records
    assert not [each for each in caplog.records if each.exc_info], "nothing crashed"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.sampled_from(["2026-01-01T00:00:00Z", "On"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from([
    "reason", "since", "unready", "resumedAt", "failback", "drain", "pause", "problem", "moveBudgets", "scheduler",
    "brake", "rebalance", "strategy", "volumes", "rules", "failoverAfterS", "preempts", "gates",
])  # fmt: skip
RECORDS = st.dictionaries(FIELDS, VALUES, max_size=5).map(json.dumps) | st.text(max_size=30)


@given(st.dictionaries(st.sampled_from([BRAKE, SOURCES, CONTROLLERS]), RECORDS), VALUES, VALUES)
def test_a_forged_lease_is_read_as_what_is_known(annotations: dict[str, str], holder: Any, renewed: Any):
    lease = {"metadata": {"annotations": annotations}, "spec": {"holderIdentity": holder, "renewTime": renewed}}
    record = lease_record(lease)
    assert isinstance(record, LeaseRecord)
    record.running(NOW)
    known = KnownMoves([], lambda *_: None, record, NOW)
    assert encode_json(moves_report(known)[0])


@cases(
    "lease",
    {
        "no object": {"metadata": [], "spec": 1},
        "annotations that are no texts": {"metadata": {"annotations": {BRAKE: 1, SOURCES: {}}}, "spec": {}},
        "a time without a zone": {"metadata": {}, "spec": {"renewTime": "2026-01-01T00:00:00"}},
        "a very old time": {"metadata": {}, "spec": {"holderIdentity": "x", "renewTime": "0001-01-01T00:00:00Z"}},
        "a time at the end of time": {"spec": {"holderIdentity": "x", "renewTime": "9999-12-31T23:59:59Z"}},
    },
)
def test_a_lease_of_another_form_records_nothing(lease: JSON):
    record = lease_record(lease)
    assert record.sources is None
    assert record.controllers is None
    assert record.running(NOW) is None
