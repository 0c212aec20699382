"""The description of the API, and a client made from it."""

import importlib
import subprocess
import sys

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, assume, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance
from servers import Wire, request

from extender.protocols.native import examples, openapi, routes

LINES = "application/x-ndjson"
EXAMPLES = 6
FEWER_EXAMPLES = {"POST /v1/plan": 2, "POST /v1/plan/progress": 2}
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
            # As in an API server null means absent.
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
    "operation",
    ["post /v1/schedule", "post /v1/plan", "get /v1/clusters",
     "get /v1/fleet", "get /v1/workloads", "get /v1/bindings/{namespace}/{name}",
     "get /v1/bindings/{namespace}/{name}/decision", "get /v1/bindings/{namespace}/{name}/why-not"],
)  # fmt: skip
def test_the_document_has_an_example_of_each_answer(operation):
    method, path = operation.split()
    operation = DOCUMENT["paths"][path][method]
    (media,) = operation["responses"]["200"]["content"].values()
    assert "private" in msgspec.json.encode(media["example"]).decode()


STREAMED = {"planWithProgress": "/v1/plan/progress"}
"""The operations that generators leave out: their answers are JSON Lines."""


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("client")
    document, config = folder / "openapi.json", folder / "config.yaml"
    document.write_bytes(msgspec.json.encode(DOCUMENT))
    config.write_text("post_hooks: []\n")
    target = folder / "generated_berthmaster"
    done = subprocess.run(  # noqa: S603 - a tool of the development environment
        [sys.executable, "-m", "openapi_python_client", "generate", f"--path={document}", f"--config={config}",
         f"--output-path={target}", "--meta=none"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.count("WARNING") == len(STREAMED), done.stderr
    assert all(f"POST {path}" in done.stderr for path in STREAMED.values())
    sys.path.insert(0, str(folder))
    yield lambda name: importlib.import_module(f"generated_berthmaster.{name}")
    sys.path.remove(str(folder))


def test_the_generated_client_asks_and_decodes(client, server):
    api, models = lambda name: client(f"api.default.{name}").sync, client("models")
    with client("client").Client(base_url=server.url) as service:
        clusters = api("list_clusters")(client=service)
        assert [each.name for each in clusters.items] == [f"member{number}" for number in range(1, 6)]
        request = models.ScheduleRequest.from_dict(examples.SCHEDULE_OWN_FLEET)
        decided = api("schedule")(client=service, body=request, explain=True)
        assert decided.clusters.to_dict() == {"private-1": 6}
        explained = api("explain_binding")("default", "nginx-deployment", client=service)
        assert isinstance(explained, models.BindingExplanation)
        assert explained.clusters.to_dict() == {"member1": 2}
        refused = api("get_binding")("default", "absent-deployment", client=service)
        assert (type(refused), refused.status) == (models.Problem, 404)


def test_a_generator_makes_a_function_for_every_operation_that_is_not_streamed(client):
    found = [each for path in DOCUMENT["paths"].values() for each in path.values()]
    for operation in found:
        if operation["operationId"] not in STREAMED:
            name = "".join(f"_{each.lower()}" if each.isupper() else each for each in operation["operationId"])
            assert client(f"api.default.{name}").sync_detailed
