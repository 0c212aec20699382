"""A plan as a document: Markdown, a page of its own, or a comment on a pull request (GitHub) or merge request (GitLab).

The page is HTML without scripts, and needs nothing from a network. In Markdown, names and messages are written with
character references, so that no renderer reads markup in them. Words that could be mentions, references or links are
code, because forges look for those in the rendered text. A later plan replaces the comment, if it is our own.
The variables that each CI system sets name the request. The API of both is that of GitHub 2022-11-28 and GitLab v4.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlsplit

from berthmaster.model.decode import decode_json
from berthmaster.model.errors import FieldError, InputError, printable
from berthmaster.native_api.connection import Answer, WebClient
from berthmaster.simulation.plan_answer import Plan
from berthmaster.views.plan_drawing import TITLE, drawing
from berthmaster.views.plan_sections import INCOMPLETE, heading, headline, opening, sections
from berthmaster.views.texts import Cell, Section, TableColumn

MAX_ROWS: Final = 50
"""The largest number of rows of a table: GitHub refuses comments of more than 65,536 characters."""
_MAX_CELL: Final = 200
_MAX_GAPS: Final = 20
_REFUSED: Final = frozenset({403, 404})
"""The statuses of a comment that our token may not change, or that was deleted just now."""
_PULL: Final = re.compile(r"refs/pull/([0-9]+)/")
_WORD: Final = re.compile(r"\S+")
_LINKED: Final = re.compile(r"[@#!$~&]|%\w|GH-\d|://|www\.|(?<![0-9a-z])[0-9a-f]{7,40}(?![0-9a-z])", re.IGNORECASE)
"""What GitHub or GitLab would take for a mention, a reference or a link."""
_SPECIAL: Final = re.compile(r"[^A-Za-z0-9 /.,;()=→%…-]|(?<=www)\.")


def markdown_lines(plan: Plan, problems: Sequence[str] = ()) -> Iterator[str]:
    """Yield the lines of a plan in Markdown. ``problems`` are the limits that it exceeds."""
    for problem in problems:
        yield f"**{_escaped(problem, len(problem))}**"
        yield ""
    yield f"### Plan <code>{plan.id}</code>: {_escaped(headline(plan), len(headline(plan)))}"
    yield ""
    for line in opening(plan):
        yield _escaped(line, len(line))
        yield ""
    if not plan.complete:
        yield f"**{_escaped(INCOMPLETE)}**"
        yield ""
        yield from (f"- not known: {_escaped(gap, 2 * _MAX_CELL)}" for gap in plan.gaps[:_MAX_GAPS])
        if len(plan.gaps) > _MAX_GAPS:
            yield f"- and {len(plan.gaps) - _MAX_GAPS} more"
        yield ""
    for section in sections(plan):
        yield from _table(section)


def _table(section: Section) -> Iterator[str]:
    used = section.used()
    yield f"**{section.title}**"
    yield ""
    yield _row([heading(each.name) for _, each in used])
    yield _row(["---:" if each.is_number else "---" for _, each in used])
    for row in section.rows[:MAX_ROWS]:
        yield _row([_code_cell(row[index]) for index, _ in used])
    yield ""
    if len(section.rows) > MAX_ROWS:
        yield f"and {len(section.rows) - MAX_ROWS} more"
        yield ""


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _code_cell(cell: Cell) -> str:
    if any(each.is_name for each in cell.words):
        return f"<code>{_references(printable(cell.text, _MAX_CELL))}</code>"
    return _escaped(cell.text)


def _escaped(text: str, limit: int = _MAX_CELL) -> str:
    """Return text that every renderer shows as it is, on one line and with a limited length."""
    return _WORD.sub(lambda found: _shown_word(found[0]), printable(text, limit))


def _shown_word(word: str) -> str:
    shown = _references(word)
    return f"<code>{shown}</code>" if _LINKED.search(word) else shown


def _references(text: str) -> str:
    return _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", text)


_HEAD: Final = Template(Path(__file__).with_suffix(".html").read_text("utf-8"))
"""The start of a page, with its style."""
_LONG: Final = 48
"""The characters above which a name may be broken anywhere. Shorter ones are not broken: a name is read as a whole."""


def page(plan: Plan, problems: Sequence[str] = ()) -> Iterator[str]:
    """Yield the lines of the page. ``problems`` are the limits that the plan exceeds."""
    title = headline(plan)
    yield from _HEAD.substitute(id=_text(plan.id)).splitlines()
    yield f"<h1>{_text(title[:1].upper() + title[1:])}</h1>"
    yield f'<p class="id">Plan <code>{_text(plan.id)}</code></p>'
    yield from (f"<p>{_text(line)}</p>" for line in opening(plan))
    yield from (f'<p class="bad">{_text(problem)}</p>' for problem in problems)
    if not plan.complete:
        yield f'<p class="bad">{_text(INCOMPLETE)}</p>'
        yield "<ul>"
        yield from (f"<li>not known: {_text(gap)}</li>" for gap in plan.gaps)
        yield "</ul>"
    yield from _drawing(plan)
    for section in sections(plan):
        yield from _section(section)
    yield "</body>"
    yield "</html>"


def _drawing(plan: Plan) -> Iterator[str]:
    lines = drawing(plan.moves).splitlines()
    if lines:
        yield f"<h2>{TITLE}</h2>"
        yield _scroll(TITLE)
        yield from lines
        yield "</div>"
        yield (
            '<p class="dim">Left: what leaves a cluster. Right: where it goes. Numbers are replicas, or copies of '
            "workloads without replicas.</p>"
        )


def _section(section: Section) -> Iterator[str]:
    used = section.used()
    yield f"<h2>{_text(section.title)}</h2>"
    yield f"{_scroll(section.title)}<table>"
    cells = "".join(f'<th scope="col"{_align(each)}>{_text(heading(each.name))}</th>' for _, each in used)
    yield f"<thead><tr>{cells}</tr></thead>"
    yield "<tbody>"
    for row in section.rows:
        shown = (f"<td{_align(column) or _reading(row[index].text)}>{_cell(row[index])}</td>" for index, column in used)
        yield f"<tr>{''.join(shown)}</tr>"
    yield "</tbody>"
    yield "</table></div>"


def _scroll(label: str) -> str:
    """Return the start of a box that scrolls sideways. It can have the focus, so that the keyboard scrolls it."""
    return f'<div class="scroll" role="region" aria-label="{_text(label)}" tabindex="0">'


def _reading(text: str) -> str:
    """Return the class of a cell with a sentence, which must not become a narrow column."""
    return ' class="text"' if len(text) > _LONG and " " in text else ""


def _align(column: TableColumn) -> str:
    return ' class="number"' if column.is_number else ""


def _cell(cell: Cell) -> str:
    if cell.is_bad:
        return f'<span class="bad">{_text(cell.text)}</span>'
    words = " ".join(_name(each.text) if each.is_name else _text(each.text) for each in cell.words)
    return words or _text(cell.text)


def _name(word: str) -> str:
    return f'<code class="long">{_text(word)}</code>' if len(word) > _LONG else f"<code>{_text(word)}</code>"


def _text(text: str) -> str:
    return escape(printable(text, len(text) + 1))


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
