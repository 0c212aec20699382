"""A client that a generator makes from the OpenAPI document asks the service, and reads its answers as types."""

import importlib
import subprocess
import sys

import msgspec
import pytest
from servers import FAST_ONLY

from extender.protocols.native import examples, openapi, routes

DOCUMENT = openapi.description(routes())
STREAMED = "scheduleBatch"
"""The only operation that generators leave out: its bodies are JSON Lines."""


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
    assert done.stderr.count("WARNING") == 1, done.stderr
    assert "POST /v1/schedule/batch" in done.stderr
    sys.path.insert(0, str(folder))
    yield lambda name: importlib.import_module(f"generated_berthmaster.{name}")
    sys.path.remove(str(folder))


@FAST_ONLY
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
        if operation["operationId"] != STREAMED:
            name = "".join(f"_{each.lower()}" if each.isupper() else each for each in operation["operationId"])
            assert client(f"api.default.{name}").sync_detailed
