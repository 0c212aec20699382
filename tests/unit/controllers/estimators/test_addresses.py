import pytest
from estimator_server import Services, external

from berthmaster.controllers.estimators.addresses import Naming, addresses
from berthmaster.model.errors import ApiError, ServiceError

SERVICE = "karmada-scheduler-estimator-m1"


@pytest.mark.parametrize(
    ("service", "naming", "expected"),
    [
        pytest.param(
            404,
            Naming(),
            [
                "karmada-scheduler-estimator-m1.karmada-system.svc.cluster.local:10352",
                "karmada-scheduler-estimator-m1.karmada-system.svc:10352",
            ],
            id="no Service: it is in this cluster",
        ),
        pytest.param(
            404,
            Naming("ns", "est", 7),
            ["est-m1.ns.svc.cluster.local:7", "est-m1.ns.svc:7"],
            id="by the names that the options give",
        ),
        pytest.param(
            external(4242, "est.example.com"), Naming(), ["est.example.com:4242"], id="an ExternalName leads away"
        ),
        pytest.param(
            external(0, "h", ports=[{"port": 1, "targetPort": 2}, {"port": 10352, "targetPort": 3}]),
            Naming(),
            ["h:3"],
            id="by the port of that number, among several",
        ),
    ],
)
def test_where_an_estimator_is(service, naming, expected):
    assert addresses(Services({SERVICE: service}), naming, "m1") == expected


def test_the_service_is_looked_up_by_name_in_the_namespace():
    server = Services()
    addresses(server, Naming("ns", "est"), "m1")
    assert server.asked == ["/api/v1/namespaces/ns/services/est-m1"]


@pytest.mark.parametrize(
    ("service", "told"),
    [
        pytest.param(
            external(1, type="ClusterIP"),
            "has the type 'ClusterIP'; accepted is ExternalName",
            id="of a type that leads nowhere",
        ),
        pytest.param(
            external(1, ports=[{"port": 1, "targetPort": 1}]),
            "its port 10352 needs a targetPort",
            id="without the port",
        ),
        pytest.param(
            external(1, ports=[{"port": 10352, "targetPort": "grpc"}]),
            "a targetPort that is a number",
            id="with a named target",
        ),
        pytest.param(
            {"spec": {"ports": 3}},
            "Service karmada-system/karmada-scheduler-estimator-m1: spec.ports",
            id="that cannot be read",
        ),
        pytest.param(b"<html>", "not valid JSON", id="that is none"),
    ],
)
def test_a_service_that_cannot_be_used_is_told(service, told):
    with pytest.raises(ServiceError, match=told):
        addresses(Services({SERVICE: service}), Naming(), "m1")


def test_other_refusals_of_the_api_server_are_passed_on():
    with pytest.raises(ApiError, match="403"):
        addresses(Services({SERVICE: 403}), Naming(), "m1")
