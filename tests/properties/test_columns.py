"""The two forms of every column, for all clusters and for one, agree, also after clusters change."""

import numpy as np
import oracle
import pytest
import strategies as draws
from hypothesis import given, settings
from hypothesis import strategies as st
from kubeadmiral_builders import term

from berthmaster.model.affinity import AffinityTerm
from berthmaster.model.decode import convert
from berthmaster.model.taint import Toleration, repelling_taints
from berthmaster.scheduling.candidates import Candidates, largest
from berthmaster.scheduling.compiled_placement import Affinities
from berthmaster.scheduling.filters import AnyAffinityColumn, KindColumn, TolerationColumn
from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.karmada.selection import StaticWeights
from berthmaster.scheduling.kubeadmiral.allocation import allocatable_column
from berthmaster.scheduling.kubeadmiral.filter_plugins import SelectorColumn, condition_column, mismatch
from berthmaster.scheduling.kubeadmiral.unit import UnitPlacement

NAMED = ("metadata.name", "In", "m1")
TOLERATIONS = tuple(
    convert(Toleration, each) for each in ({"key": "gpu", "operator": "Exists"}, {"effect": "NoExecute"})
)
WISH = frozenset({"PreferNoSchedule"})
PRODUCTION = term(("env", "In", "prod"))
SELECTORS = (
    UnitPlacement(cluster_selector={"env": "dev"}),
    UnitPlacement(required=()),
    UnitPlacement(required=(term(("tier", "Gt", "1")), term(("env", "NotIn", "dev"), fields=[NAMED]))),
    UnitPlacement(required=(term(), term(("env", "Exists"), fields=[("metadata.name", "NotIn", "m2")]))),
    UnitPlacement(required=(term(("tier", "Exists")), term(("env", "Near")), PRODUCTION)),
    UnitPlacement(required=(term(("tier", "Exists"), fields=[("metadata.name", "Gt", "1")]), PRODUCTION)),
    UnitPlacement(cluster_selector={"env": "prod"}, required=(term(fields=[("spec.region", "In", "")]),)),
)
REQUESTS = (None, (), (("cpu", 1000),), (("cpu", 500), ("memory", 1)), (("gold", 1), ("pods", 3)))


def truths(fleet, affinities):
    """Yield columns of every kind, each with its definition for one cluster."""
    sharing = Affinities(fleet)
    meant = [sharing.column(affinity) for affinity in affinities]
    terms = [AffinityTerm(affinity) for affinity in affinities]
    weights = [3, 1, 2][: len(affinities)]
    yield from zip(meant, [term.matches for term in terms], strict=True)
    yield AnyAffinityColumn(meant), lambda each: any(term.matches(each) for term in terms)
    yield (
        StaticWeights(fleet.structure, list(zip(meant, weights, strict=True))),
        lambda each: max(weight * term.matches(each) for weight, term in zip(weights, terms, strict=True)),
    )
    yield TolerationColumn(fleet, TOLERATIONS), lambda each: not repelling_taints(each.spec.taints, TOLERATIONS)
    yield (
        TolerationColumn(fleet, TOLERATIONS, WISH),
        lambda each: not repelling_taints(each.spec.taints, TOLERATIONS, WISH),
    )
    yield condition_column(fleet, "Ready"), lambda each: each.ready
    for placement in SELECTORS:
        yield SelectorColumn(fleet, placement), lambda each, asked=placement: mismatch(asked, each) is None
    for name in ("cpu", "memory", "gold"):
        yield allocatable_column(fleet, name), lambda each, name=name: allocatable_in(each, name)
    yield KindColumn(fleet, ("v1", "ConfigMap")), lambda each: ("v1", "ConfigMap") in set(each.enabled_kinds())
    for requests in REQUESTS:
        yield fleet.resources.estimate(requests), lambda each, requests=requests: fits(each, requests)


def allocatable_in(cluster, name):
    summary = cluster.status.resource_summary
    amount = summary.allocatable.get(name) if summary is not None else None
    return 0 if amount is None else amount.milli_value() if name == "cpu" else amount.value()


def fits(cluster, requests):
    amounts = None if requests is None else {name: Amount(amount) for name, amount in requests}
    return oracle.capacity(cluster, amounts)


class Amount:
    """A quantity that is already in the unit of its column."""

    def __init__(self, amount):
        self.nanos = amount

    def value(self):
        return self.nanos

    milli_value = value


@given(draws.fleets(), st.lists(draws.cluster_affinities, min_size=1, max_size=3), st.data())
def test_both_forms_of_a_column_agree(clusters, affinities, data):
    fleet = Fleet(clusters)
    columns = list(truths(fleet, affinities))
    for _ in range(data.draw(st.integers(1, 4))):
        for column, definition in columns:
            check(fleet, column, definition)
        name = data.draw(st.sampled_from(draws.NAMES))
        fleet.apply(data.draw(draws.clusters(name))) if data.draw(st.integers(0, 3)) else fleet.remove(name)


def check(fleet, column, definition):
    kept, anew = column.current(), column.compute()
    for name, row in fleet.row_of.items():
        expected = definition(fleet.get(name))
        found = kept[row], anew[row], column.compute_row(row)
        assert found == (expected, expected, expected), (type(column).__name__, name)


@given(draws.fleets())
def test_a_column_computes_a_new_array(clusters):
    fleet = Fleet(clusters)
    for column, _ in truths(fleet, [convert(oracle.ClusterAffinity, {})]):
        owned = fleet.occupied, fleet.resources.allowed_pods
        assert not any(np.shares_memory(column.compute(), each) for each in owned)


numbers = st.integers(0, 3) | st.sampled_from([2**31 - 1, 2**32 - 2])


@settings(max_examples=120)
@given(
    st.lists(st.tuples(numbers, numbers, st.sampled_from([0, 100, 200]), st.integers(0, 2)), min_size=1, max_size=90),
    st.integers(1, 100),
    st.sampled_from([(False, False), (True, False), (False, True), (True, True)]),
    st.sampled_from([1, 10**6, -1]),
)
def test_the_best_candidates_are_the_first_of_a_full_sort(drawn, count, given_parts, factor):
    scored, tiered = given_parts
    fleet = Fleet(convert(oracle.Cluster, {"metadata": {"name": f"m{index:03}"}}) for index in range(len(drawn)))
    allocatable, assigned, scores, tiers = (np.array(column, dtype=np.int64) for column in zip(*drawn, strict=True))
    assigned %= 2**31
    candidates = Candidates(
        fleet,
        np.arange(len(drawn)),
        allocatable % 2**31,
        assigned,
        scores * factor if scored else None,
        tiers if tiered else None,
    )
    names = candidates.names()

    def order(index):
        available = int(allocatable[index] % 2**31 + assigned[index])
        return (tiers[index] * tiered, -scores[index] * factor * scored, -available, names[index])

    assert candidates.best(count).tolist() == sorted(range(len(drawn)), key=order)[:count]


@pytest.mark.parametrize("count", [-1, 0, 1, 5, 63, 64, 65, 200, 500])
def test_the_largest_of_many_are_found_without_a_full_sort(count):
    keys = np.random.default_rng(1).permutation(200)
    assert keys[largest(keys, count)].tolist() == sorted(keys.tolist(), reverse=True)[: max(0, count)]
