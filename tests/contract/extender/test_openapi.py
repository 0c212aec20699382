"""The service keeps to its own description, whatever is thrown at it."""

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance
from servers import FAST_ONLY, Wire, request

from extender.protocols.native import openapi

LINES = "application/x-ndjson"
EXAMPLES = 10

OPERATIONS = [found.ok() for found in schemathesis.openapi.from_dict(openapi.description()).get_all_operations()]


@schemathesis.serializer(LINES)
def as_line(_context, value):
    return value if isinstance(value, bytes) else msgspec.json.encode(value)


@schemathesis.deserializer(LINES)
def of_lines(_context, response):
    return msgspec.json.decode(response.content.splitlines()[0])


CASES = [
    pytest.param(operation, mode, id=f"{operation.label} {told}")
    for operation in OPERATIONS
    for mode, told in ((GenerationMode.POSITIVE, "as described"), (GenerationMode.NEGATIVE, "otherwise"))
    # Where all that is asked for is a text, there is nothing else to say.
    if mode is GenerationMode.POSITIVE or operation.body or operation.label == "GET /v1/clusters"
]


@FAST_ONLY
@pytest.mark.parametrize(("operation", "mode"), CASES)
def test_whatever_is_asked_it_does_not_fail_and_answers_as_described(server, operation, mode):
    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    def ask(case):
        # What fits the schema may still name a cluster that is not there.
        passed_over = [positive_data_acceptance]
        if operation.body:
            # Null stands for absent where an API server takes it so, and a batch refuses line by line.
            passed_over.append(negative_data_rejection)
        case.call_and_validate(base_url=server.url, excluded_checks=passed_over)

    ask()


def test_the_document_is_served_as_it_is_made(server):
    with Wire(server.port) as wire:
        wire.send(request("GET", "/openapi.json"))
        answer = wire.answer()
    assert answer.body == openapi.document()
    assert msgspec.json.decode(answer.body)["openapi"] == "3.1.0"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("post", "/v1/schedule", id="a decision"),
        pytest.param("post", "/v1/schedule/batch", id="a line of a batch"),
        pytest.param("post", "/v1/simulate", id="a simulation"),
        pytest.param("get", "/v1/clusters", id="the fleet"),
        pytest.param("get", "/v1/bindings/{namespace}/{name}/decision", id="an explanation"),
    ],
)
def test_an_answer_is_shown_as_it_would_be_given(method, path):
    operation = openapi.description()["paths"][path][method]
    (media,) = operation["responses"]["200"]["content"].values()
    assert "private-1" in msgspec.json.encode(media["example"]).decode()
