"""The comment with a plan on a pull request of GitHub or a merge request of GitLab.

A later plan replaces the comment, if it is our own. The variables that each CI system sets name the request. The API of
both is that of GitHub 2022-11-28 and GitLab v4.
"""

import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlsplit

from berthmaster.model.decode import decode_json
from berthmaster.model.errors import FieldError, InputError
from berthmaster.native_api.connection import Answer, WebClient

_REFUSED: Final = frozenset({403, 404})
"""The statuses of a comment that our token may not change, or that was deleted just now."""
_PULL: Final = re.compile(r"refs/pull/([0-9]+)/")
SERVICES: Final = ("github", "gitlab")
_MARK: Final = "<!-- berthmaster plan -->"
"""The first line of our comments. It is not shown."""
_MAX_LENGTH: Final = 60_000
"""GitHub refuses more than 65,536 characters."""
_PER_PAGE: Final = 100
_MAX_PAGES: Final = 30
_TIMEOUT_S: Final = 30.0
_MAX_ANSWER_BYTES: Final = 32 * 2**20


class _Thread(NamedTuple):
    """The comments of a request.

    Attributes:
        comments, comment: the path of all comments, and of one without its id.
        user: the path that says whose token it is. ``author`` and ``login`` are the keys of a comment's author.
        robot: the author if the token is none of a user.
    """

    server: str
    comments: str
    comment: str
    change: str
    headers: Mapping[str, str]
    user: str
    author: str
    login: str
    robot: str = ""


def write_comment(service: str, lines: Iterable[str], environment: Mapping[str, str] = os.environ) -> None:
    """Write a comment on the request that the CI job is for. Replace the comment of an earlier plan."""
    thread = _github(environment) if service == "github" else _gitlab(environment)
    body = json.dumps({"body": _cut(lines)}).encode()
    with WebClient(thread.server, _TIMEOUT_S) as client:
        own = _own_comment(client, thread)
        if own is None or not _is_changed(client, thread, own, body):
            _ask(client, thread, "POST", thread.comments, body)


def _github(environment: Mapping[str, str]) -> _Thread:
    token = _variable(environment, "GITHUB_TOKEN", "the token of the job: ${{ github.token }}")
    reference = _variable(environment, "GITHUB_REF", "set by GitHub Actions")
    pull = _PULL.match(reference)
    if pull is None:
        raise InputError(f"--comment github: GITHUB_REF is {reference}, which is no pull request; run on pull_request")
    repository = quote(_variable(environment, "GITHUB_REPOSITORY", "set by GitHub Actions"))
    server, root = _address(environment.get("GITHUB_API_URL") or "https://api.github.com")
    issues = f"{root}/repos/{repository}/issues"
    headers = {"Authorization": f"Bearer {token}", "X-GitHub-Api-Version": "2022-11-28"}
    return _Thread(
        server, f"{issues}/{pull[1]}/comments", f"{issues}/comments", "PATCH", headers,
        user=f"{root}/user", author="user", login="login", robot="github-actions[bot]",
    )  # fmt: skip


def _gitlab(environment: Mapping[str, str]) -> _Thread:
    token = _variable(environment, "GITLAB_TOKEN", "a project access token with the scope api")
    server, root = _address(_variable(environment, "CI_API_V4_URL", "set by GitLab CI"))
    project = quote(_variable(environment, "CI_PROJECT_ID", "set by GitLab CI"), safe="")
    request = quote(_variable(environment, "CI_MERGE_REQUEST_IID", "set by pipelines of merge requests"), safe="")
    notes = f"{root}/projects/{project}/merge_requests/{request}/notes"
    headers = {"PRIVATE-TOKEN": token}
    return _Thread(server, notes, notes, "PUT", headers, user=f"{root}/user", author="author", login="username")


def _variable(environment: Mapping[str, str], name: str, meaning: str) -> str:
    if value := environment.get(name, ""):
        return value
    raise InputError(f"--comment: the environment variable {name} is not set ({meaning})")


def _address(url: str) -> tuple[str, str]:
    """Return the server of a URL, and its path without a slash at the end."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise InputError(f"--comment: {url} is no URL of an API; it starts with https://")
    return f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")


def _author(client: WebClient, thread: _Thread) -> str:
    """Return the login of the author of our comments; empty if it is not known.

    The token of a GitHub Action is none of a user, and cannot ask for its own name.
    """
    answer = client.ask("GET", thread.user, None, _headers(thread), _MAX_ANSWER_BYTES)
    if not 200 <= answer.status < 300:
        return thread.robot
    found = _decoded(thread, answer.content)
    return str(found.get(thread.login) or "") if isinstance(found, dict) else ""


def _is_ours(comment: Any, thread: _Thread, author: str) -> bool:  # noqa: ANN401 - any JSON value
    """Return whether a comment is of an earlier plan. Another author could forge it afterwards, so it must be ours."""
    if not isinstance(comment, dict) or not str(comment.get("body") or "").startswith(_MARK):
        return False
    by = comment.get(thread.author)
    return bool(author) and isinstance(by, dict) and by.get(thread.login) == author


def _is_changed(client: WebClient, thread: _Thread, own: int, body: bytes) -> bool:
    """Replace the text of a comment, and return whether that is allowed. It may be one of an earlier token."""
    answer = client.ask(thread.change, f"{thread.comment}/{own}", body, _headers(thread, body), _MAX_ANSWER_BYTES)
    if answer.status in _REFUSED:
        return False
    _require_success(thread, thread.change, thread.comment, answer)
    return True


def _own_comment(client: WebClient, thread: _Thread) -> int | None:
    """Return the id of the comment of an earlier plan; None without one."""
    author = _author(client, thread)
    for page in range(1, _MAX_PAGES + 1):
        listed = _ask(client, thread, "GET", f"{thread.comments}?per_page={_PER_PAGE}&page={page}")
        if not isinstance(listed, list):
            raise InputError(f"--comment: {thread.server}{thread.comments} has no list of comments")
        for each in listed:
            if _is_ours(each, thread, author):
                return int(each["id"])
        if len(listed) < _PER_PAGE:
            return None
    return None


def _ask(client: WebClient, thread: _Thread, method: str, path: str, body: bytes | None = None) -> Any:  # noqa: ANN401
    answer = client.ask(method, path, body, _headers(thread, body), _MAX_ANSWER_BYTES)
    _require_success(thread, method, path, answer)
    return _decoded(thread, answer.content)


def _headers(thread: _Thread, body: bytes | None = None) -> dict[str, str]:
    content = {} if body is None else {"Content-Type": "application/json"}
    return {**thread.headers, "Accept": "application/json", "User-Agent": "berthmaster", **content}


def _require_success(thread: _Thread, method: str, path: str, answer: Answer) -> None:
    if not 200 <= answer.status < 300:
        message = f"--comment: {method} {thread.server}{path.partition('?')[0]} was answered with {answer.status}"
        raise InputError(f"{message} {answer.reason}; the token needs the right to write comments")


def _decoded(thread: _Thread, content: bytes) -> Any:  # noqa: ANN401 - any JSON value
    try:
        return decode_json(Any, content)
    except FieldError as error:
        raise InputError(f"--comment: the answer of {thread.server} cannot be read: {error}") from None


def _cut(lines: Iterable[str]) -> str:
    """Return the comment. It has whole lines, and says so if some are left out."""
    found, length = [_MARK], len(_MARK)
    for line in lines:
        length += len(line) + 1
        if length > _MAX_LENGTH:
            found += ["", "The plan is longer than a comment may be. `berthmaster plan` shows the rest."]
            break
        found.append(line)
    return "\n".join(found)
