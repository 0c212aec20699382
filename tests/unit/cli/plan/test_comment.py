"""A plan as a comment on a pull request or a merge request, beside servers that speak the APIs of GitHub and GitLab."""

import json

import pytest
from click.testing import CliRunner
from tables import cases
from werkzeug import Request, Response

from berthmaster_cli.main import main

PLAN = ("plan", "--against", "examples/karmada", "-f", "examples/plan/nginx.yaml", "-o", "markdown")
MARK = "<!-- berthmaster plan -->"


BOT, PROJECT = {"login": "github-actions[bot]"}, {"username": "project_12_bot"}


class Forge:
    """The comments of one request. It answers with at most 100 in a page, and lists the oldest first.

    Attributes:
        me: the author of new comments.
        refused: the comments that may not be changed.
    """

    def __init__(self, server, path, one, change, header, author, me):
        self.me = {author: me}
        self.comments = [{"id": number, "body": f"comment {number}", **self.me} for number in range(250)]
        self.credentials, self._header, self.refused = [], header, set()
        server.expect_request(path, method="GET").respond_with_handler(self._list)
        server.expect_request(path, method="POST").respond_with_handler(self._create)
        for number in range(251):
            server.expect_request(f"{one}/{number}", method=change).respond_with_handler(self._change)

    def _list(self, request: Request) -> Response:
        self.credentials.append(request.headers.get(self._header))
        size, page = int(request.args["per_page"]), int(request.args["page"])
        return Response(json.dumps(self.comments[(page - 1) * size : page * size]))

    def _create(self, request: Request) -> Response:
        self.comments.append({"id": len(self.comments), **request.get_json(), **self.me})
        return Response(json.dumps(self.comments[-1]), 201)

    def _change(self, request: Request) -> Response:
        number = int(request.path.rpartition("/")[2])
        if number in self.refused:
            return Response("{}", 403)
        self.comments[number] |= request.get_json()
        return Response("{}")


def github(server):
    issues = "/api/v3/repos/shop/fleet/issues"
    forge = Forge(server, f"{issues}/7/comments", f"{issues}/comments", "PATCH", "Authorization", "user", BOT)
    server.expect_request("/api/v3/user").respond_with_json({"message": "no user"}, 403)
    return forge, {
        "GITHUB_API_URL": server.url_for("/api/v3"), "GITHUB_REPOSITORY": "shop/fleet",
        "GITHUB_REF": "refs/pull/7/merge", "GITHUB_TOKEN": "secret",
    }  # fmt: skip


def gitlab(server):
    notes = "/api/v4/projects/12/merge_requests/3/notes"
    forge = Forge(server, notes, notes, "PUT", "PRIVATE-TOKEN", "author", PROJECT)
    server.expect_request("/api/v4/user").respond_with_json(PROJECT)
    return forge, {
        "CI_API_V4_URL": server.url_for("/api/v4"), "CI_PROJECT_ID": "12", "CI_MERGE_REQUEST_IID": "3",
        "GITLAB_TOKEN": "secret",
    }  # fmt: skip


def planned(service, environment, *options):
    return CliRunner().invoke(main, [*PLAN, "--comment", service, *options], env=environment)


@pytest.mark.parametrize("service", [github, gitlab])
def test_a_later_plan_replaces_the_comment(httpserver, service):
    forge, environment = service(httpserver)
    first = planned(service.__name__, environment)
    assert (first.exit_code, len(forge.comments)) == (0, 251)
    written = forge.comments[250]["body"]
    assert written.split("\n") == [MARK, *first.stdout.splitlines()]
    second = planned(service.__name__, environment, "--max-moves=0")
    assert (second.exit_code, len(forge.comments)) == (3, 251)
    assert forge.comments[250]["body"].splitlines()[1].startswith("**--max-moves 0&#58; 1 workload would move**")
    assert {each.removeprefix("Bearer ") for each in forge.credentials} == {"secret"}


@pytest.mark.parametrize("service", [github, gitlab])
def test_a_comment_of_another_author_stays_whatever_it_begins_with(httpserver, service):
    forge, environment = service(httpserver)
    (author,) = forge.me
    forged = {"id": 7, "body": f"{MARK}\nnothing moves", author: {"login": "mallory", "username": "mallory"}}
    forge.comments[7] = dict(forged)
    for _ in range(2):
        assert planned(service.__name__, environment).exit_code == 0
    assert forge.comments[7] == forged
    assert len(forge.comments) == 251


def test_the_token_of_a_user_replaces_the_comment_of_that_user(httpserver):
    forge, environment = github(httpserver)
    httpserver.expect_oneshot_request("/api/v3/user").respond_with_json({"login": "alice"})
    forge.comments[3] = {"id": 3, "body": MARK, "user": BOT}
    forge.comments[9] = {"id": 9, "body": MARK, "user": {"login": "alice"}}
    assert planned("github", environment).exit_code == 0
    assert (forge.comments[3]["body"], len(forge.comments)) == (MARK, 250)
    assert forge.comments[9]["body"].startswith(f"{MARK}\n###")


@pytest.mark.parametrize("service", [github, gitlab])
def test_a_comment_that_may_not_be_changed_gets_a_successor(httpserver, service):
    forge, environment = service(httpserver)
    forge.comments[7]["body"] = MARK
    forge.refused.add(7)
    assert planned(service.__name__, environment).exit_code == 0
    assert (forge.comments[7]["body"], len(forge.comments)) == (MARK, 251)


@cases(
    ("service", "changed", "problem"),
    {
        "no token": (github, {"GITHUB_TOKEN": ""}, "GITHUB_TOKEN is not set"),
        "no pull request": (github, {"GITHUB_REF": "refs/heads/main"}, "which is no pull request"),
        "no URL": (github, {"GITHUB_API_URL": "api.github.com"}, "is no URL of an API"),
        "a refusal": (github, {"GITHUB_REPOSITORY": "shop/other"}, "was answered with 500"),
        "no merge request": (gitlab, {"CI_MERGE_REQUEST_IID": ""}, "CI_MERGE_REQUEST_IID is not set"),
        "no server": (gitlab, {"CI_API_V4_URL": "http://127.0.0.1:1"}, "cannot be reached"),
    },
)
def test_a_comment_that_cannot_be_written_is_an_error(httpserver, service, changed, problem):
    forge, environment = service(httpserver)
    result = planned(service.__name__, environment | changed)
    assert result.exit_code == 1
    assert problem in result.stderr
    assert "secret" not in result.output
    assert len(forge.comments) == 250


def test_a_long_plan_is_cut_at_a_whole_line(httpserver, monkeypatch):
    forge, environment = github(httpserver)
    monkeypatch.setattr("berthmaster_cli.plan.review_comment._MAX_LENGTH", 300)
    planned("github", environment)
    lines = forge.comments[250]["body"].splitlines()
    assert lines[-1].startswith("The plan is longer than a comment may be.")
    assert sum(len(each) + 1 for each in lines[:-2]) <= 300
