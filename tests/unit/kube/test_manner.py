"""Requests as another user, within a time, and reported."""

import time
from contextlib import nullcontext

import click
import pytest
import yaml
from click.testing import CliRunner
from tables import cases

from berthmaster.kube.http_client import connect
from berthmaster.kube.kubeconfig import find_access
from berthmaster.kube.manner import RequestManner
from berthmaster.kube.requests import APIRequest
from berthmaster.model.errors import ApiError
from berthmaster_cli.flags import options as flag_options
from berthmaster_cli.main import main
from berthmaster_cli.options import AccessFlags

SERVICES = {"webhook", "extender", "controllers", "console"}
"""They send requests as themselves."""
MANNER = {"--as", "--as-group", "--request-timeout", "-v"}


@pytest.fixture
def access(httpserver, tmp_path):
    content = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": httpserver.url_for("").rstrip("/")}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }  # fmt: skip
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(content))
    return find_access(path)


def test_requests_are_sent_as_a_user_with_all_its_groups(httpserver, access):
    httpserver.expect_request("/api/v1/nodes").respond_with_json({})
    manner = RequestManner("jane", ("dev", "ops"))
    with connect(access._replace(manner=manner)).send(APIRequest("/api/v1/nodes")):
        pass
    (request, _) = httpserver.log[-1]
    assert request.headers["Impersonate-User"] == "jane"
    assert request.headers["Impersonate-Group"] == "dev,ops"  # werkzeug joins the lines
    assert request.headers["Authorization"] == "Bearer t"


@cases(
    ("status", "reported"),
    {"a success": (200, "GET /api/v1/nodes?limit=1 200 in "), "an error": (403, "GET /api/v1/nodes?limit=1 403 in ")},
)
def test_each_request_is_reported(httpserver, access, status, reported):
    httpserver.expect_request("/api/v1/nodes").respond_with_json({}, status)
    lines = []
    client = connect(access._replace(manner=RequestManner(report=lines.append)))
    with nullcontext() if status == 200 else pytest.raises(ApiError):
        client.send(APIRequest("/api/v1/nodes", (("limit", "1"),))).__exit__(None, None, None)
    (line,) = lines
    assert line.startswith(reported)
    assert line.endswith(" ms")
    assert "Bearer" not in line


def test_a_request_waits_no_longer_than_it_may(httpserver, access):
    httpserver.expect_request("/api/v1/nodes").respond_with_handler(lambda _: time.sleep(5))
    client = connect(access._replace(manner=RequestManner(timeout_s=0.2)))
    since_s = time.monotonic()
    with pytest.raises(ApiError, match="before the read timeout"):
        client.send(APIRequest("/api/v1/nodes"))
    assert time.monotonic() - since_s < 4


@click.command
@flag_options(AccessFlags, server="the server")
def reference(_):
    """What each option says."""


def commands(group, name=""):
    """Each command with its full name."""
    if isinstance(group, click.Group):
        for each in group.list_commands(None):
            yield from commands(group.get_command(None, each), f"{name} {each}".strip())
    if name:
        yield name, {option: each for each in group.params for option in each.opts}


@pytest.mark.parametrize(("name", "options"), [pytest.param(*each, id=each[0]) for each in commands(main)])
def test_each_command_that_asks_an_api_server_has_the_options_with_one_meaning(name, options):
    asks = "--kubeconfig" in options and name not in SERVICES
    assert {each for each in MANNER if each in options} == (MANNER if asks else set())
    said = {option: each.help for each in reference.params for option in each.opts}
    for each in MANNER & options.keys():
        assert options[each].help.partition(" Default:")[0] == said[each].partition(" Default:")[0]


@cases(
    ("words", "says"),
    {
        "a group alone": (["--as-group", "dev"], "--as-group needs --as"),
        "a word as a level": (["-v", "six"], "'six' is no level; accepted is a number, such as 6 for requests"),
    },
)
def test_wrong_values_are_refused(access, words, says):
    words = ["simulate", "--kubeconfig", str(access.files[0]), *words]
    assert says in CliRunner().invoke(main, words).output


FILES = {
    "simulate": "-f {fleet}",
    "explain": "-f {fleet} deploy/nginx",
    "plan": "--against {fleet} -f {fleet}",
    "lint": "{fleet}",
    "moves": "-f {fleet}",
    "test": "examples/tests",
}


@pytest.mark.parametrize("name", FILES)
def test_another_user_of_files_is_refused(name):
    words = FILES[name].format(fleet="examples/karmada").split()
    result = CliRunner().invoke(main, [name, *words, "--as=jane"])
    assert "--as and --as-group ask a control plane, and only files are read; " in result.output
    assert result.exit_code == (1 if name == "plan" else 2)


def test_a_command_reports_its_requests(httpserver, access):
    httpserver.expect_request("/apis").respond_with_json({}, 500)
    result = CliRunner().invoke(main, ["simulate", "--kubeconfig", str(access.files[0]), "-v=6", "--as", "jane"])
    assert "berthmaster: GET /api" in result.output
    assert all(
        request.headers.get("Impersonate-User") == "jane" for request, _ in httpserver.log if request.path == "/api"
    )
