"""Filters by workload affinity: the rows that pass are those without a reason."""

from dataclasses import replace

from builders import cluster
from decisions import asked
from hypothesis import given
from hypothesis import strategies as st

from berthmaster.scheduling.filters import Filter
from berthmaster.scheduling.fleet import Affinities, CompiledPlacement, Fleet
from berthmaster.scheduling.karmada.profile import WorkloadAffinityFilter, WorkloadAntiAffinityFilter
from berthmaster.scheduling.request import Context, Peers, Request

NAMES = ["a", "b", "c", "d"]
ASSIGNED = st.lists(st.sampled_from(NAMES), max_size=4, unique=True)


def peer(name, clusters=()):
    current = dict.fromkeys(clusters, 1)
    request = Request.of(asked(name=name))
    return replace(request, name=name, affinity_group="g=1", anti_affinity_group="h=1", current=current)


@given(st.lists(st.tuples(st.sampled_from(["me", "x", "y", "z"]), ASSIGNED), max_size=8), ASSIGNED)
def test_the_rows_that_pass_are_those_without_a_reason(placed, current):
    fleet, peers = Fleet([cluster(name) for name in NAMES]), Peers()
    for name, clusters in placed:
        peers.place(peer(name), clusters)
    request = peer("me", current)
    compiled = CompiledPlacement(request.placement, Affinities(fleet))
    context = Context(fleet, request, compiled, compiled.groups[0], peers)
    rows = fleet.occupied.nonzero()[0]
    for plugin in (WorkloadAffinityFilter(), WorkloadAntiAffinityFilter()):
        assert plugin.prune(context, rows).tolist() == Filter.prune(plugin, context, rows).tolist()
