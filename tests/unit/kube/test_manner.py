"""Requests as another user, within a time, and reported."""

import time
from contextlib import nullcontext

import pytest
import yaml
from click.testing import CliRunner
from tables import cases

from berthmaster.kube.http_client import connect
from berthmaster.kube.kubeconfig import find_access
from berthmaster.kube.manner import RequestManner
from berthmaster.kube.requests import APIRequest
from berthmaster.model.errors import ApiError
from berthmaster_cli.main import COMMANDS, main

READS_A_PLANE = {"simulate", "explain", "why-not", "plan", "test", "resilience", "drift", "lint", "moves", "drain"}


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


def test_each_command_that_reads_a_plane_has_the_options():
    found = {
        name
        for name in COMMANDS
        if {"--as", "--as-group", "--request-timeout", "-v"}
        <= {option for each in main.get_command(None, name).params for option in each.opts}
    }
    assert found >= READS_A_PLANE


@cases(
    ("words", "says"),
    {
        "a group alone": (["--as-group", "dev"], "--as-group needs --as"),
        "a word as a level": (["-v", "six"], "Invalid value for '-v'"),
    },
)
def test_wrong_values_are_refused(access, words, says):
    words = ["simulate", "--kubeconfig", str(access.files[0]), *words]
    assert says in CliRunner().invoke(main, words).output


def test_a_command_reports_its_requests(httpserver, access):
    httpserver.expect_request("/apis").respond_with_json({}, 500)
    result = CliRunner().invoke(main, ["simulate", "--kubeconfig", str(access.files[0]), "-v=6", "--as", "jane"])
    assert "berthmaster: GET /api" in result.output
    assert all(
        request.headers.get("Impersonate-User") == "jane" for request, _ in httpserver.log if request.path == "/api"
    )
