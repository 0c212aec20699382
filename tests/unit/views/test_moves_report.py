"""The report about moves: what each move waits for, and how much of each budget is in use."""

import json
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from karmada_plane import binding, deployment, policy, selector
from msgspec.structs import replace
from tables import DATA, cases

from berthmaster.controllers.moves.config_file import parse_moves_config
from berthmaster.deciding.lease_record import (
    BrakeRecord,
    LeaseRecord,
    SourcesRecord,
    budgets_of,
    records_of,
)
from berthmaster.model.binding import Binding
from berthmaster.model.decode import convert, decode_json, encode_json
from berthmaster.model.move import MOVE, PAUSE
from berthmaster.model.policy import PolicyReference
from berthmaster.views.move_budgets import KnownMoves, moves_report, percent_totals
from berthmaster.views.move_rows import MoveQuery, MoveSort, RowState, moves_among

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
ALL, SHOP = MoveQuery(), frozenset({"shop"})
WEB = PolicyReference("PropagationPolicy", "shop", "web")
CONFIG = (DATA / "budgets.yaml").read_text()


def at(seconds):
    return (NOW + timedelta(seconds=seconds)).isoformat()


SURGING = {"phase": "Surging", "source": {"a": 4}, "target": {"b": 4}}
WAITS = {"phase": "Stabilising", "source": {"a": 2}, "target": {"b": 2}, "until": at(-60)}


def moving(name, move=None, *, namespace="shop", labels=None, **clusters):
    by = policy("web", selector(), namespace=namespace, placement={})
    raw = binding(deployment(name, namespace=namespace, by=by), by, **(clusters or {"a": 4}))
    raw["metadata"]["labels"] |= labels or {}
    raw["spec"]["schedulerName"] = "berthmaster"
    if move is not None:
        raw["metadata"]["annotations"][MOVE] = json.dumps({"reason": "Failback", **move})
    return convert(Binding, raw)


def lease(config=CONFIG, *, brake="", pause="None"):
    budgets = records_of(parse_moves_config(config.encode(), "test").budgets)
    return LeaseRecord(BrakeRecord(reason=brake), SourcesRecord("On", "On", pause, "", budgets, "berthmaster"))


def report(*bindings, query=ALL, **known):
    fields = {"lease": lease(), "annotations": {}, **known}
    totals = partial(percent_totals, bindings=bindings)
    return moves_report(KnownMoves(list(moves_among(bindings)), totals, now=NOW, **fields), query)


def causes(*bindings, **known):
    found, _ = report(*bindings, **known)
    return {each.binding: [(why.cause, why.budget) for why in each.waits_for] for each in found.moves}


def test_budgets_survive_the_lease():
    budgets = parse_moves_config(CONFIG.encode(), "test").budgets
    assert records_of(budgets_of(records_of(budgets))) == records_of(budgets)
    assert records_of(budgets * 200) is None, "too large for a lease"


@cases(
    ("move", "known", "expected"),
    {
        "a move under way waits for nothing": (SURGING, {}, []),
        "the brake stops what is under way": (SURGING, {"lease": lease(brake="storm")}, [("brake", "")]),
        "the brake stops what waits": (WAITS, {"lease": lease(brake="storm")}, [("brake", "")]),
        "nothing else stops it": (WAITS, {}, [("controller", "")]),
        "its place must last": ({**WAITS, "until": at(60)}, {}, [("stabilising", "")]),
        "no place": ({**WAITS, "phase": "Eligible", "message": "full"}, {}, [("place", "")]),
        "it is held down": ({**WAITS, "heldDownUntil": at(60)}, {}, [("held-down", "")]),
        "the configuration pauses": (WAITS, {"lease": lease(pause="All")}, [("paused", "")]),
        "its policy pauses": (WAITS, {"annotations": {WEB: {PAUSE: "true"}}}, [("paused", "")]),
        "the lease is not known": (WAITS, {"lease": None}, []),
        "policies are not known": (WAITS, {"annotations": None}, []),
        "other namespaces are not known": (WAITS, {"complete": False}, []),
    },
)
def test_a_move_says_what_it_waits_for(move, known, expected):
    assert causes(moving("one", move), **known) == {"one-deployment": expected}


def test_a_full_budget_and_a_closed_window_are_named():
    waiting = moving("two", WAITS, labels={"tier": "web"})
    found, counts = report(moving("one", SURGING), waiting)
    assert counts == ({"moving": 1, "waiting": 1}, 2)
    (why, window) = found.moves[1].waits_for
    assert (why.cause, why.budget) == ("limit", "fleet")
    assert "at most 1" in why.message
    assert (window.cause, window.budget, window.until) == ("window", "nights", datetime(2026, 6, 1, 20, tzinfo=UTC))


def test_a_budget_says_how_much_is_in_use():
    found, _ = report(moving("one", SURGING), moving("two", WAITS), moving("three", labels={"tier": "web"}, a=6))
    fleet, nights = found.budgets
    assert (fleet.moves, fleet.max_moves, fleet.waiting, fleet.replicas_moving) == (1, 1, 1, 4)
    assert (fleet.by_policy, fleet.from_clusters, fleet.to_clusters) == ({"shop/web": 1}, {"a": 1}, {})
    assert (fleet.selects, fleet.opens_at, fleet.windows) == ("kind Deployment", None, [])
    assert (nights.moves, nights.replicas, nights.replicas_percent) == (0, 6, 50)
    assert nights.selects == "namespace shop; tier=web"
    (window,) = nights.windows
    assert (window.open, window.next_start, window.time_zone) == (False, nights.opens_at, "Europe/Berlin")
    assert decode_json(type(nights), encode_json(nights)) == nights


def test_a_leader_without_a_file_has_the_default_budget():
    found, _ = report(moving("one", SURGING), lease=LeaseRecord(BrakeRecord(), None))
    assert [(each.name, each.moves, each.max_moves) for each in found.budgets] == [("default", 1, 10)]
    assert found.gaps == []


@cases(
    ("sources", "gap"),
    {
        "an earlier version": (SourcesRecord("On"), "does not record their budgets"),
        "an unknown pause": (SourcesRecord("On", pause="Some", budgets=()), "is unknown"),
        "an invalid window": (
            SourcesRecord(budgets=({"name": "x", "windows": [{"schedule": "never", "duration": "60s"}]},)),
            "are invalid",
        ),
    },
)
def test_budgets_that_cannot_be_read_are_a_gap_and_not_nothing(sources, gap):
    found, _ = report(moving("one", WAITS), lease=LeaseRecord(BrakeRecord(), sources))
    assert found.budgets is None
    assert [each for each in found.gaps if gap in each]


def test_rows_are_limited_to_namespaces_and_a_number_and_budgets_are_not():
    bindings = [moving("one", SURGING), moving("two", SURGING, namespace="other"), moving("three", WAITS)]
    found, counts = report(*bindings, query=MoveQuery(namespaces=SHOP, limit=1))
    assert ([each.binding for each in found.moves], counts) == (["one-deployment"], ({"moving": 1, "waiting": 1}, 2))
    assert (found.budgets[0].moves, found.budgets[0].by_policy) == (
        2, {"shop/web": 1, "a policy in another namespace": 1},
    )  # fmt: skip


def test_a_reader_of_few_namespaces_gets_no_names_of_others_in_budgets_and_problems():
    config = CONFIG.replace("{namespaces: [shop],", "{namespaces: [shop, vault], policies: [vault/a, vault/b],")
    secret = lease(config)
    secret = secret._replace(sources=replace(secret.sources, problem="vault/a: no such policy"))
    found, _ = report(query=MoveQuery(namespaces=SHOP), lease=secret)
    assert (
        found.budgets[1].selects
        == "namespace shop and 1 that you may not see; 2 policies that you may not see; tier=web"
    )
    assert found.sources.problem == "the log of the controllers says why"
    everything, _ = report(lease=secret)
    assert everything.sources.problem == "vault/a: no such policy"


ROWS = [
    moving("late", {**SURGING, "until": at(-61)}), moving("soon", {**SURGING, "until": at(-59)}, namespace="bank"),
    moving("waits", {**WAITS, "target": {"c": 2}, "reason": "Drain", "since": at(-600)}),
]  # fmt: skip


@cases(
    ("query", "expected"),
    {
        "all, by state": (ALL, ["late", "soon", "waits"]),
        "past the deadline": (MoveQuery(state=RowState.OVERDUE), ["late"]),
        "a deadline just passed": (MoveQuery(state=RowState.MOVING), ["soon"]),
        "a reason": (MoveQuery(reason="Drain"), ["waits"]),
        "a cluster that it arrives at": (MoveQuery(cluster="b"), ["late", "soon"]),
        "a part of the name": (MoveQuery(q="BANK"), ["soon"]),
        "by name": (MoveQuery(sort=MoveSort.WORKLOAD, descending=True), ["waits", "late", "soon"]),
        "unknown times come last": (MoveQuery(sort=MoveSort.SINCE), ["waits", "late", "soon"]),
        "the second page": (MoveQuery(offset=1, limit=1), ["soon"]),
        "no such page": (MoveQuery(offset=9, limit=1), []),
    },
)
def test_a_query_filters_sorts_and_counts_all_moves(query, expected):
    found, counts = report(*ROWS, query=query)
    assert [each.binding.removesuffix("-deployment") for each in found.moves] == expected
    assert counts.states == {"overdue": 1, "moving": 1, "waiting": 1}
    assert counts.matched == (3 if query.offset else len(expected))
    assert found.budgets[0].waiting == 1, "budgets count the moves of all pages"


@pytest.mark.parametrize(("age_s", "silent"), [(59, False), (61, True), (None, False)])
def test_a_leader_that_does_not_renew_its_lease_is_silent(age_s, silent):
    renewed = None if age_s is None else NOW - timedelta(seconds=age_s)
    found, _ = report(lease=lease()._replace(renewed_at=renewed))
    assert (found.controllers.renewed_at, found.controllers.silent) == (renewed, silent)
