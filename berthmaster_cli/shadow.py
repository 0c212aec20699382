"""``berthmaster shadow report``: what a process in shadow mode has found."""

import sys
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

import click
import msgspec

from berthmaster.model.decode import decode_json
from berthmaster.model.errors import FieldError, InputError, ServiceError
from berthmaster.native_api.connection import UnansweredError, WebClient
from berthmaster_cli.answers import AnswerKind
from berthmaster_cli.flags import option, options
from berthmaster_cli.output import OutputFlags, echo, print_answer, print_line, print_table
from berthmaster_cli.watching import WatchFlags, watched

_PATH: Final = "/shadow"
_PORT: Final = 9080
_TIMEOUT_S: Final = 10.0
_MAX_BYTES: Final = 16 * 2**20
_EXIT_DIFFERENT: Final = 1
_WORDS: Final = {
    "same": "the same assignment",
    "kept": "kept, and not compared: assigned before the start, and no decision was due since",
    "different": "different",
    "waiting": "waiting for the answer of the scheduler",
}


class ShadowFigures(msgspec.Struct):
    """What a process in shadow mode has compared."""

    scheduler: str
    since: str
    bindings: dict[str, int]
    reasons: dict[str, int]
    decisions: dict[str, int]
    differences: list[dict[str, Any]]
    more: int


_ANSWER: Final = AnswerKind("ShadowReport", ShadowFigures)


@click.group()
def command() -> None:
    """Compare this scheduler with the one that is in charge: see berthmaster controllers --shadow."""


class _ShadowFlags(OutputFlags, WatchFlags):
    server: str = option(
        "The probe address of the process that runs berthmaster controllers --shadow.",
        "http://127.0.0.1:9080", metavar="URL",
    )  # fmt: skip
    check: bool = option("Exit with 1 if a binding differs, or if nothing was compared yet.")


@command.command(
    short_help="Show where decisions differ.",
    epilog="Exit codes: 0 success; 1 with --check, a binding differs or none was compared; 2 bad usage or no answer.",
)
@options(_ShadowFlags)
@watched()
def report(flags: _ShadowFlags) -> None:
    """Show where decisions differ from what the other scheduler assigned, in total and by reason."""
    found = _fetched(flags.server)
    if flags.output == "table":
        _print(found)
    else:
        print_answer(_ANSWER, found, flags.output)
    bindings = found.bindings
    if flags.check and (bindings["different"] or not found.decisions["same"]):
        sys.exit(_EXIT_DIFFERENT)


def _fetched(server: str) -> ShadowFigures:
    parts = urlsplit(server)
    if parts.scheme != "http" or not parts.hostname or parts.path.strip("/"):
        raise InputError(f"--server: {server!r} is not http://HOST:PORT; probes are served in plain text")
    port = "" if parts.port else f":{_PORT}"
    try:
        with WebClient(f"http://{parts.netloc}{port}", _TIMEOUT_S) as client:
            answer = client.ask("GET", _PATH, most_bytes=_MAX_BYTES)
    except UnansweredError as error:
        raise ServiceError(f"{server}: {error.problem}; forward the port of the pod, or use --server") from None
    if answer.status == HTTPStatus.NOT_FOUND:
        raise ServiceError(f"{server}: this process is not in shadow mode (berthmaster controllers --shadow)")
    if answer.status != HTTPStatus.OK:
        raise ServiceError(f"{server}: status {answer.status}; expected is a report")
    try:
        return decode_json(ShadowFigures, answer.content)
    except FieldError as error:
        raise ServiceError(f"{server}: the answer is no report of this version: {error}") from None


def _print(found: ShadowFigures) -> None:
    total = sum(found.bindings.values())
    decisions = found.decisions
    echo(f"{total:,} bindings of {found.scheduler}, compared since {found.since}")
    echo(f"{decisions['same']:,} decisions were the same, {decisions['different']:,} were different")
    for result, words in _WORDS.items():
        echo(f"  {found.bindings[result]:>8,} {words}")
    reasons = ", ".join(f"{name} {count:,}" for name, count in found.reasons.items() if count)
    if reasons:
        echo(f"by reason: {reasons}")
    rows = [
        (f"{each['namespace']}/{each['name']}" if each["namespace"] else each["name"], each["reason"],
         _text(each["theirs"]), _text(each["ours"]), each["message"])
        for each in found.differences
    ]  # fmt: skip
    if rows:
        print_table(("BINDING", "REASON", "THEIRS", "OURS", "MESSAGE HERE"), rows)
        if found.more:
            print_line(f"and {found.more:,} more")


def _text(clusters: Mapping[str, int]) -> str:
    return ", ".join(f"{name}:{count}" for name, count in sorted(clusters.items())) or "-"
