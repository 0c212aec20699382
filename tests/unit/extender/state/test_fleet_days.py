"""How many workloads had which problem on each of the last days. A property compares the days with whole histories."""

from datetime import UTC, date, datetime

from decisions import AGGREGATED, asked
from ledger_histories import of_shop
from tables import cases

from berthmaster.ledger.outcomes import DecidedBinding, RecordOutcome
from berthmaster.ledger.times import microseconds
from berthmaster.model.binding import APPLIED_PLACEMENT, SCHEDULED, TargetCluster
from berthmaster.model.cluster import Condition
from berthmaster.model.decode import encode_json
from berthmaster.model.meta import with_metadata, with_spec, with_status
from berthmaster.native_api.fleet import Restriction
from extender.state.fleet_days import PlaceStep, WrongNow, fleet_days, step_of

TODAY = date(2026, 11, 21)
NOWHERE, SHORT, LATER = (Restriction.NOWHERE,), (Restriction.SHORT,), (Restriction.NOT_PREFERRED,)
GROUPS = [{"affinityName": name, "clusterNames": [name]} for name in ("home", "spare")]


def at_us(day, hour=12):
    return microseconds(datetime(2026, 11, day, hour, tzinfo=UTC))


def step(day, before, after, key="web", **changes):
    return PlaceStep(at_us(day), key, "shop", before, after, RecordOutcome.PLACED)._replace(**changes)


def days(steps=(), present=(), existing=("web",), first_us=0):
    found = fleet_days(steps, present, frozenset(existing), TODAY, first_us)
    return [(each.nowhere, each.short, each.not_preferred) for each in found]


@cases(
    ("history", "nowhere"),
    {
        "nothing on record": ({}, [0] * 7),
        "as the first decision found it": ({"steps": [step(19, NOWHERE, ())]}, [0, 0, 0, 1, 1, 1, 1]),
        "as the last decision left it": ({"steps": [step(18, (), NOWHERE)]}, [0, 1, 1, 1, 0, 0, 0]),
        "the present is not that of a decision": (
            {"steps": [step(18, (), NOWHERE)], "present": [WrongNow("web", "shop", NOWHERE, None)]},
            [1, 1, 1, 1, 0, 0, 0],
        ),
        "a workload that is gone counts up to its last decision": (
            {"steps": [step(17, (), NOWHERE), step(19, NOWHERE, NOWHERE)], "existing": []}, [0, 0, 0, 1, 1, 0, 0],
        ),
        "a workload that is made anew is another one": (
            {"steps": [step(17, (), NOWHERE, "web@1")], "existing": ["web@2"]}, [0] * 7,
        ),
        "without a decision: since its binding says so": (
            {"present": [WrongNow("web", "shop", NOWHERE, at_us(18))]}, [1, 1, 1, 1, 0, 0, 0],
        ),
        "without a decision and without a time": ({"present": [WrongNow("web", "shop", NOWHERE, None)]}, [1, *[0] * 6]),
        "a decision at midnight is one of the next day": (
            {"steps": [step(19, (), NOWHERE, at_us=at_us(19, 0))]}, [0, 1, 1, 0, 0, 0, 0],
        ),
        "days before the first record are left out": ({"first_us": at_us(19)}, [0, 0, 0]),
        "a ledger of a clock that is ahead": ({"first_us": at_us(25)}, [0]),
    },
)  # fmt: skip
def test_a_workload_is_nowhere_on(history, nowhere):
    assert [each for each, _, _ in days(**history)] == nowhere


def test_each_day_counts_its_decisions():
    lost = step(20, (), (), outcome=RecordOutcome.LOST)
    found = fleet_days([step(15, (), ()), lost, lost], [], frozenset(), TODAY, 0)
    assert [each.outcomes for each in found] == [{}, {"lost": 2}, {}, {}, {}, {}, {"placed": 1}]


def bound(replicas, succeeded, group="home", groups=GROUPS, applied=GROUPS, **clusters):
    made = of_shop("web", asked(groups=groups, scheduling=AGGREGATED, replicas=replicas, observed=group))
    made = with_spec(made, clusters=tuple(TargetCluster(name, count) for name, count in clusters.items()))
    then = asked(groups=applied, scheduling=AGGREGATED).spec.placement
    made = with_metadata(made, annotations={APPLIED_PLACEMENT: encode_json(then).decode()})
    return with_status(made, conditions=(Condition(SCHEDULED, "True" if succeeded else "False", "", "", None),))


@cases(
    ("found", "left", "before", "after"),
    {
        "a scale asks for more than there was": (
            bound(4, succeeded=True, home=2), bound(4, succeeded=False, home=2), (), SHORT,
        ),
        "it was short": (bound(4, succeeded=False, home=2), bound(4, succeeded=True, home=4), SHORT, ()),
        "it was nowhere": (bound(4, succeeded=False), bound(4, succeeded=True, home=4), NOWHERE, ()),
        "an edit reversed the groups": (
            *[bound(1, succeeded=True, groups=GROUPS[::-1], home=1)] * 2, (), LATER,
        ),
        "it is new": (with_status(bound(1, succeeded=True), conditions=()), bound(1, succeeded=False), (), NOWHERE),
    },
)  # fmt: skip
def test_what_was_wrong_before_a_decision_is_not_what_its_edit_asks_for(found, left, before, after):
    made = step_of(DecidedBinding(0, found, left, RecordOutcome.PLACED))
    assert (made.before, made.after) == (before, after)
