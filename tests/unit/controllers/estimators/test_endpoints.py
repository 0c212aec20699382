import pytest
from estimator_server import Services, external

from berthmaster.controllers.estimators.endpoints import addresses
from berthmaster.controllers.settings import EstimatorSettings
from berthmaster.model.errors import ApiError, ServiceError

SERVICE = "karmada-scheduler-estimator-m1"


@pytest.mark.parametrize(
    ("service", "settings", "expected"),
    [
        pytest.param(
            404,
            EstimatorSettings(),
            [
                "karmada-scheduler-estimator-m1.karmada-system.svc.cluster.local:10352",
                "karmada-scheduler-estimator-m1.karmada-system.svc:10352",
            ],
            id="no Service: the estimator is in this cluster",
        ),
        pytest.param(
            404,
            EstimatorSettings("ns", "est", 7),
            ["est-m1.ns.svc.cluster.local:7", "est-m1.ns.svc:7"],
            id="names from the settings",
        ),
        pytest.param(
            external(4242, "est.example.com"),
            EstimatorSettings(),
            ["est.example.com:4242"],
            id="the address of an ExternalName",
        ),
        pytest.param(
            external(0, "h", ports=[{"port": 1, "targetPort": 2}, {"port": 10352, "targetPort": 3}]),
            EstimatorSettings(),
            ["h:3"],
            id="the target of the configured port",
        ),
    ],
)
def test_addresses_of_an_estimator(service, settings, expected):
    assert addresses(Services({SERVICE: service}), settings, "m1") == expected


def test_the_service_is_looked_up_by_name_in_the_namespace():
    server = Services()
    addresses(server, EstimatorSettings("ns", "est"), "m1")
    assert server.asked == ["/api/v1/namespaces/ns/services/est-m1"]


@pytest.mark.parametrize(
    ("service", "problem"),
    [
        pytest.param(
            external(1, type="ClusterIP"),
            "has the type 'ClusterIP'; accepted is ExternalName",
            id="a type without an address",
        ),
        pytest.param(
            external(1, ports=[{"port": 1, "targetPort": 1}]),
            "its port 10352 needs a targetPort",
            id="without the port",
        ),
        pytest.param(
            external(1, ports=[{"port": 10352, "targetPort": "grpc"}]),
            "a targetPort that is a number",
            id="a named targetPort",
        ),
        pytest.param(
            {"spec": {"ports": 3}},
            "Service karmada-system/karmada-scheduler-estimator-m1: spec.ports",
            id="an invalid Service",
        ),
        pytest.param(b"<html>", "not valid JSON", id="not a Service"),
    ],
)
def test_an_unusable_service_is_an_error(service, problem):
    with pytest.raises(ServiceError, match=problem):
        addresses(Services({SERVICE: service}), EstimatorSettings(), "m1")


def test_other_errors_of_the_api_server_are_raised():
    with pytest.raises(ApiError, match="403"):
        addresses(Services({SERVICE: 403}), EstimatorSettings(), "m1")
