"""Prices of clusters: which one a cluster has, the score that they give, and what moves cost."""

import pytest
from builders import cluster
from decisions import asked, outcome, schedule, spread
from msgspec.structs import replace
from tables import cases

from berthmaster.model.errors import FieldError
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.profile import built_in, karmada_profile
from berthmaster.scheduling.prices import (
    MAX_ENTRIES,
    PRICE,
    ClusterCost,
    CostChange,
    Costs,
    Price,
    PriceEntry,
    Prices,
    change_of,
    price_errors,
    total_of,
)
from berthmaster.scheduling.profile import Plugins
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.scheduler import Scheduler

CHEAP, DEAR = PriceEntry(1.0, 0.1, {"tier": "cheap"}), PriceEntry(2.0, 0.5)
PRICES = Prices(prices=(CHEAP, DEAR))
REQUESTS = {"cpu": "500m", "memory": "2Gi"}


def priced(name, text, **fields):
    found = cluster(name, **fields)
    return replace(found, metadata=replace(found.metadata, annotations={PRICE: text}))


@pytest.mark.parametrize(
    ("prices", "member", "price"),
    [
        pytest.param(PRICES, cluster("a", labels={"tier": "cheap"}), Price(1.0, 0.1), id="by labels"),
        pytest.param(PRICES, cluster("a"), Price(2.0, 0.5), id="an entry for all clusters"),
        pytest.param(Prices(prices=(DEAR, CHEAP)), cluster("a", labels={"tier": "cheap"}), Price(2.0, 0.5),
                     id="the first entry that matches"),
        pytest.param(PRICES, priced("a", "cpu=0.03,memory=4"), Price(0.03, 4.0), id="the annotation goes before"),
        pytest.param(Prices(prices=(CHEAP,)), cluster("a"), None, id="no entry matches"),
        *(
            pytest.param(PRICES, priced("a", text), None, id=f"an invalid annotation: {text}")
            for text in ("", "0.03", "cpu=0.03", "cpu=-1,memory=1", "cpu=nan,memory=1", "cpu=1000001,memory=1")
        ),
    ],
)  # fmt: skip
def test_the_price_of_a_cluster(prices, member, price):
    assert prices.of(member) == price


def test_an_invalid_annotation_is_named_with_what_is_accepted():
    (problem,) = price_errors([cluster("a"), priced("b", "cpu=1,memory=1"), priced("c", "free")])
    assert problem.startswith(
        f"cluster c: metadata.annotations[{PRICE}]: 'free' is not a price; accepted is cpu=NUMBER"
    )


@cases(
    ("entries", "problem"),
    {
        "<0": ((DEAR, PriceEntry(-0.5, 0)), r"prices\[1\].cpu: -0.5 is not a price; accepted .* 0 to 1,000,000"),
        "too high": ((PriceEntry(0, 1e7),), r"prices\[0\].memory: 1e\+07 is not a price"),
        "not a number": ((PriceEntry(float("nan"), 0),), r"prices\[0\].cpu: nan is not"),
        "too many": ((DEAR,) * (MAX_ENTRIES + 1), "has 257 entries; accepted are at most 256"),
    },
)
def test_an_invalid_file_is_refused_with_field_and_value(entries, problem):
    with pytest.raises(FieldError, match=problem):
        Prices(prices=entries).check()


def profile(weight=100, prices=PRICES, *switches):
    known = built_in()
    plugins = Plugins(known.filters, (*known.scores, ClusterCost(prices, weight)))
    return karmada_profile(plugins.selected(["*", *switches]), prices=prices)


def scores(clusters, weight=100, **spec):
    found = schedule(clusters, asked(**spec), profile(weight)).attempts[0].candidates
    return dict(zip(found.names_at(range(len(clusters))), found.scores.tolist(), strict=True))


CPU, MIXED, MEMORY = (
    priced("cpu", "cpu=1,memory=9"),
    priced("mixed", "cpu=5,memory=5"),
    priced("memory", "cpu=9,memory=1"),
)


@cases(
    ("clusters", "weight", "spec", "expected"),
    {
        "a workload of CPU": ([CPU, MIXED, MEMORY], 100, {"requests": {"cpu": "1"}}, [100, 50, 0]),
        "of memory, by a weight": ([CPU, MIXED, MEMORY], 40, {"requests": {"memory": "1Gi"}}, [0, 20, 40]),
        "without requests, equal for one CPU and one GiB": ([CPU, MIXED, MEMORY], 100, {}, [100, 100, 100]),
        "one without a price": ([CPU, priced("bad", "free")], 100, {"requests": {"cpu": "1"}}, [100, 0]),
        "none has a price": ([priced("bad", "free")], 100, {"requests": {"cpu": "1"}}, [0]),
        "nothing costs anything": ([CPU], 100, {"requests": {"cpu": "0"}}, [100]),
    },
)
def test_the_score_is_a_share_of_the_weight(clusters, weight, spec, expected):
    assert list(scores(clusters, weight, **spec).values()) == expected


def test_a_change_of_a_price_changes_the_score():
    one = asked(spread=[spread("cluster", 1, 1)], requests={"cpu": "1"})
    scheduler = Scheduler(Fleet([priced("a", "cpu=1,memory=1"), priced("b", "cpu=2,memory=1")]), profile())
    assert outcome(scheduler.schedule(Request.of(one))) == {"a": 1}
    scheduler.fleet.apply(priced("a", "cpu=3,memory=1"))
    assert outcome(scheduler.schedule(Request.of(one))) == {"b": 1}


def test_the_cheaper_cluster_is_selected_only_if_the_score_is_on():
    clusters = [priced("cheap", "cpu=1,memory=1", pods=5), priced("dear", "cpu=2,memory=1", pods=99)]
    one = asked(spread=[spread("cluster", 1, 1)])
    assert outcome(schedule(clusters, one, profile())) == {"cheap": 1}
    assert outcome(schedule(clusters, one, profile(100, PRICES, "-ClusterCost"))) == {"dear": 1}
    assert outcome(schedule(clusters, one)) == {"dear": 1}


MEMBERS = {
    each.name: each for each in (cluster("cheap", labels={"tier": "cheap"}), cluster("dear"), priced("none", "x"))
}
WEB = Request.of(asked(replicas=4, requests=REQUESTS))
HOUR_CHEAP, HOUR_DEAR = 0.5 * 1.0 + 2 * 0.1, 0.5 * 2.0 + 2 * 0.5


@cases(
    ("before", "after", "cost"),
    {
        "to a dearer cluster": ({"cheap": 4}, {"dear": 4}, CostChange(4 * 730 * (HOUR_DEAR - HOUR_CHEAP))),
        "saves": ({"dear": 4}, {"dear": 1, "cheap": 3}, CostChange(3 * 730 * (HOUR_CHEAP - HOUR_DEAR))),
        "new replicas": ({}, {"cheap": 2}, CostChange(2 * 730 * HOUR_CHEAP)),
        "nothing changes": ({"cheap": 4}, {"cheap": 4}, None),
        "to a cluster without a price": ({"cheap": 4}, {"none": 4}, CostChange(0.0, 4)),
        "no cluster has a price": ({"none": 4}, {"gone": 4}, None),
    },
)
def test_what_a_move_costs_each_month(before, after, cost):
    found = change_of([Costs(PRICES, MEMBERS.get).of(WEB, before, after)])
    assert (found is None) is (cost is None)
    assert cost is None or (found.monthly, found.unpriced) == (pytest.approx(cost.monthly), cost.unpriced)


def test_costs_add_up():
    assert total_of([CostChange(1.5, 2), None, CostChange(-4.0, 1)]) == CostChange(-2.5, 3)
    assert total_of([None]) is None
