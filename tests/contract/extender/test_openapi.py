"""The service conforms to its OpenAPI document for generated requests."""

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, assume, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance
from servers import FAST_ONLY, Wire, request

from extender.protocols.native import openapi, routes

LINES = "application/x-ndjson"
EXAMPLES = 6
FEWER_EXAMPLES = {"POST /v1/plan": 2}
"""Its changes and policies are those of a simulation, and invalid data for all of them take seconds to generate."""

DOCUMENT = openapi.description(routes())
OPERATIONS = [found.ok() for found in schemathesis.openapi.from_dict(DOCUMENT).get_all_operations()]


@schemathesis.serializer(LINES)
def as_line(_context, value):
    return value if isinstance(value, bytes) else msgspec.json.encode(value)


@schemathesis.deserializer(LINES)
def of_lines(_context, response):
    return msgspec.json.decode(response.content.splitlines()[0])


CASES = [
    pytest.param(operation, mode, id=f"{operation.label} {name}")
    for operation in OPERATIONS
    for mode, name in ((GenerationMode.POSITIVE, "with valid data"), (GenerationMode.NEGATIVE, "with invalid data"))
    # The handler of a cluster-scoped binding is the same. An operation that takes only strings has no invalid data.
    if not operation.definition.raw["operationId"].endswith("OfClusterBinding")
    if mode is GenerationMode.POSITIVE or operation.body or operation.label == "GET /v1/clusters"
]


@FAST_ONLY
@pytest.mark.parametrize(("operation", "mode"), CASES)
def test_generated_requests_get_answers_as_described(server, operation, mode):
    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=FEWER_EXAMPLES.get(operation.label, EXAMPLES),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def ask(case):
        # A request that fits the schema may name a cluster that does not exist.
        excluded = [positive_data_acceptance]
        if operation.body:
            # As in an API server null means absent, and a batch refuses single lines.
            excluded.append(negative_data_rejection)
        response = case.call(base_url=server.url)
        assume(response.status_code != 414)  # gunicorn refuses the longest queries before the service sees them
        case.validate_response(response, excluded_checks=excluded)

    ask()


def test_the_document_is_served(server):
    with Wire(server.port) as wire:
        wire.send(request("GET", "/openapi.json"))
        answer = wire.answer()
    assert msgspec.json.decode(answer.body) == msgspec.json.decode(msgspec.json.encode(DOCUMENT))
    assert msgspec.json.decode(answer.body)["openapi"] == "3.1.0"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("post", "/v1/schedule", id="a decision"),
        pytest.param("post", "/v1/schedule/batch", id="a line of a batch"),
        pytest.param("post", "/v1/simulate", id="a simulation"),
        pytest.param("post", "/v1/plan", id="a plan"),
        pytest.param("get", "/v1/clusters", id="the fleet"),
        pytest.param("get", "/v1/fleet", id="the fleet in use"),
        pytest.param("get", "/v1/workloads", id="workloads"),
        pytest.param("get", "/v1/bindings/{namespace}/{name}", id="a binding"),
        pytest.param("get", "/v1/bindings/{namespace}/{name}/decision", id="an explanation"),
        pytest.param("get", "/v1/bindings/{namespace}/{name}/why-not", id="why not a cluster"),
    ],
)
def test_the_document_has_an_example_of_each_answer(method, path):
    operation = DOCUMENT["paths"][path][method]
    (media,) = operation["responses"]["200"]["content"].values()
    assert "private-1" in msgspec.json.encode(media["example"]).decode()
