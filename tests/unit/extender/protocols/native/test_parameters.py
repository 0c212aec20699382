"""Values of query parameters that are refused, with what is accepted."""

import pytest
from extender_services import asked, refusing, route_of, services_of

from berthmaster.simulation.world import World

OF_DRIFT, OF_HISTORY, OF_POLICIES, OF_WORKLOADS = "/v1/drift", "/v1/history", "/v1/policies", "/v1/workloads"
OF_FAILURES = "/v1/resilience"


@pytest.mark.parametrize(
    ("path", "name", "value", "accepted"),
    [
        (OF_DRIFT, "tolerance", "-1", "a number from 0 to 100"),
        (OF_DRIFT, "tolerance", "101", "a number from 0 to 100"),
        (OF_DRIFT, "limit", "1001", "a number from 0 to 1000"),
        (OF_DRIFT, "kind", "weights", "NotFirstGroup, .*Weights"),
        (OF_DRIFT, "sort", "size", "moves, -moves, fullMoves"),
        (OF_DRIFT, "stale", "1", "true or false"),
        (OF_FAILURES, "by", "", "cluster, region, zone, provider"),
        (OF_FAILURES, "by", "planet", "cluster, region, zone, provider"),
        (OF_FAILURES, "by", "cluster,planet", "cluster, region, zone, provider"),
        (OF_HISTORY, "since", "yesterday", "a time with its offset"),
        (OF_HISTORY, "since", "2026-01-01T00:00:00", "a time with its offset"),
        (OF_HISTORY, "limit", "1001", "a number from 1 to 1000"),
        (OF_POLICIES, "kind", "Deployment", "PropagationPolicy, ClusterPropagationPolicy"),
        (OF_POLICIES, "only", "all", "findings, takeovers, drops"),
        (OF_POLICIES, "limit", "0", "a number from 1 to 1000"),
        (OF_POLICIES, "sort", "age", "name, -name, priority"),
        (OF_WORKLOADS, "sort", "size", "name"),
        (OF_WORKLOADS, "only", "moving,lost", "not-preferred"),
        (OF_WORKLOADS, "limit", "1001", "a number from 1 to 1000"),
        (OF_WORKLOADS, "offset", "-1", "a number from 0 to 10000000"),
    ],
)
def test_an_invalid_value_is_refused_with_what_is_accepted(path, name, value, accepted):
    with refusing(400, rf"query parameter {name}: .* is not accepted; accepted is {accepted}"):
        asked(services_of(World({}, ())), route_of(path), **{name: value})
