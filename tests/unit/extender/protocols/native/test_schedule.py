"""Requests that would block other requests for too long are refused."""

import logging

import pytest
from builders import binding, cluster
from fake_clock import FakeClock
from fake_metrics import FakeMetrics

from berthmaster.model.decode import convert
from berthmaster.model.placement import Placement
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.simulation.world import World
from extender.protocols.native import schedule
from extender.protocols.native.schedule import decide, is_cheap
from extender.protocols.native.wire import ScheduleRequest
from extender.protocols.problem import Refusal
from extender.protocols.services import Services
from extender.state.state import State

CLUSTERS = tuple(cluster(name) for name in "abc")


@pytest.fixture
def services():
    clock, state = FakeClock(), State(karmada_profile())
    with state.updating(clock.now()) as cache:
        cache.replace(World({each.name: each for each in CLUSTERS}, ()))
    return Services(state, FakeMetrics(), logging.getLogger("test"), clock)


def grouped(groups):
    names = [{"affinityName": str(number), "clusterNames": ["nowhere"]} for number in range(groups)]
    return binding(placement=convert(Placement, {"clusterAffinities": names}))


@pytest.mark.parametrize("clusters", [None, CLUSTERS], ids=["on the service's fleet", "on the clusters of the request"])
def test_a_diagnosis_of_too_many_groups_and_clusters_is_refused(services, clusters, monkeypatch):
    monkeypatch.setattr(schedule, "MAX_EXPLAINED", 30)

    def explained(groups):
        return decide(services, ScheduleRequest(grouped(groups), clusters), size_bytes=1, diagnose=True)

    assert len(explained(10).diagnosis.groups) == 10
    with pytest.raises(
        Refusal, match="has 11 groups, and there are 3 clusters; a diagnosis has at most 30 pairs"
    ) as refused:
        explained(11)
    assert refused.value.status == 400


def test_a_large_request_must_contain_its_clusters(services):
    def decided(size_bytes, clusters=None):
        return decide(services, ScheduleRequest(grouped(1), clusters), size_bytes=size_bytes, diagnose=False)

    assert decided(3 * 2**20).message == "none of 3 clusters fits"
    assert decided(3 * 2**20 + 1, CLUSTERS).message == "none of 3 clusters fits"
    with pytest.raises(Refusal, match="the request has 3145729 bytes") as refused:
        decided(3 * 2**20 + 1)
    assert refused.value.status == 413


@pytest.mark.parametrize(
    ("body", "cheap"),
    [
        pytest.param(b'{"binding":{"spec":{"clusters":[{"name":"a"}]}}}', True, id="the fleet of the service"),
        pytest.param(b'{"clusters":null}', True, id="no clusters"),
        pytest.param(b'{"clusters":[]}', False, id="an empty fleet"),
        pytest.param(b'{"binding":{},"clusters":[{"a":1}]}', False, id="clusters of the request"),
        pytest.param(b'{"clust\\u0065rs":[{"a":1}]}', False, id="clusters under an escaped name"),
        pytest.param(b'{"binding":"' + b"x" * 20_000 + b'"}', False, id="a large body"),
        pytest.param(b"not JSON", True, id="an error"),
        pytest.param(b'{"a":' + b"[" * 5000, True, id="deep nesting"),
    ],
)
def test_only_small_requests_without_clusters_are_cheap(body, cheap):
    assert is_cheap(body) is cheap
