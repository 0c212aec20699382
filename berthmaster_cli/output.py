"""The output of commands: tables for people, JSON and YAML for programs, errors on standard error.

Names, keys, values and file names come from input, and people run commands on input that others wrote. Every command
prints through the functions of this module. They print such text as data: no control characters, no line ends, no
markup, and no commands that a CI system reads from a log.
"""

import io
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import click
import msgspec
import yaml
from rich.console import Console
from rich.text import Text

from berthmaster.model.decode import builtins
from berthmaster.model.errors import BerthmasterError, ManifestError, printable, printable_json
from berthmaster.model.gaps import Gap, texts
from berthmaster.model.meta import timestamp_text
from berthmaster.model.readers import ANY_READER
from berthmaster.views.texts import TableColumn, columns_of
from berthmaster_cli.answers import AnswerKind
from berthmaster_cli.flags import Flags, option

FORMATS: Final = ("table", "json", "yaml")
WORKLOAD_FORMATS: Final = ("table", "wide", "name", "json", "yaml")
MAX_TEXT_LENGTH: Final = 65_536
_GAP: Final = "   "
_COLLECTED: Final = ContextVar[list[str] | None]("collected complaints", default=None)
_REPEATED: Final = ContextVar["Printed | None"]("the output of an answer that is repeated", default=None)
# GitHub reads `::name ...::` at the start of a line and `##[name]` anywhere as commands. A table can break lines.
_COMMAND: Final = re.compile(r":(?=:[A-Za-z])|#(?=#\[)")
_STRING_TAG: Final = "tag:yaml.org,2002:str"
_JSON_COMMAND: Final = b"##["


class OutputFlags(Flags):
    """The format of data."""

    output: str = option("Output format.", "table", click.Choice(FORMATS), names=("-o", "--output"))


class WorkloadOutputFlags(Flags):
    """The format of workloads."""

    output: str = option(
        "Output format: wide has more columns, name prints only names.",
        "table", click.Choice(WORKLOAD_FORMATS), names=("-o", "--output"),
    )  # fmt: skip


class _QuotingDumper(yaml.SafeDumper):
    """Writes every string in quotes and in ASCII."""


_QuotingDumper.add_representer(str, lambda dumper, text: dumper.represent_scalar(_STRING_TAG, text, style='"'))


def inert(text: str) -> str:
    """Return text as one printable line that no terminal and no CI system interprets."""
    return _COMMAND.sub(lambda found: f"\\x{ord(found[0]):02x}", printable(text, MAX_TEXT_LENGTH))


def styled(text: str, style: str) -> Text:
    """Return inert text with a style of rich, such as ``bold red``."""
    return Text(inert(text), style)


def joined(*parts: str | Text) -> Text:
    """Join styled parts and plain ones. Plain parts become inert."""
    return Text.assemble(*(inert(part) if isinstance(part, str) else part for part in parts))


class _OutputConsole(Console):
    def on_broken_pipe(self) -> None:
        """Let the caller end the command. Rich would end it with 1, as after an error."""
        raise BrokenPipeError


def stdout() -> Console:
    """Return standard output: in color on a terminal unless NO_COLOR is set. Lines are never wrapped."""
    return _OutputConsole(markup=False, highlight=False, emoji=False, soft_wrap=True)


def stderr() -> Console:
    """Return standard error, for progress."""
    return Console(stderr=True, markup=False, highlight=False, emoji=False)


@contextmanager
def counting(title: str, things: str) -> Iterator[Callable[[int, int], None]]:
    """Show on a terminal how many things are done. The context takes that, and the total; 0 if it is not known."""
    from rich.progress import Progress  # noqa: PLC0415 - only commands that take long need it

    console, form = stderr(), f"{{task.completed}}{{task.fields[of]}} {things}"
    with Progress(title, form, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", of="")
        yield lambda done, total: bar.update(task, completed=done, of=f" of {total}" if total else "")


def echo(*parts: str, error: bool = False) -> None:
    """Print the parts as one line without style, on standard output or on standard error. No part is interpreted."""
    click.echo(inert("".join(parts)), err=error)


def annotate(level: str, source: str, line: int, title: str, message: str) -> None:
    """Print a command of a workflow of GitHub, which shows the message beside the line of the file."""

    def escaped(text: str, more: str = "") -> str:
        text = inert(text)
        for character in f"%{more}":
            text = text.replace(character, f"%{ord(character):02X}")
        return text

    properties = {"file": source, "line": line, "title": title}
    shown = ",".join(f"{name}={escaped(str(value), ':,')}" for name, value in properties.items())
    click.echo(f"::{level} {shown}::{escaped(message)}")


@contextmanager
def complaints() -> Iterator[list[str]]:
    """Collect what ``complain`` would print. For callers in Python, whose standard error is their own."""
    lines: list[str] = []
    token = _COLLECTED.set(lines)
    try:
        yield lines
    finally:
        _COLLECTED.reset(token)


class _LaterText(io.StringIO):
    """Text that is printed later, in color if standard output is a terminal."""

    def __init__(self, stream: io.IOBase | Any) -> None:  # noqa: ANN401 - any stream
        super().__init__()
        self._stream = stream

    def isatty(self) -> bool:
        return bool(self._stream.isatty())


@dataclass
class Printed:
    """What a command prints for one answer, while ``-w`` repeats it.

    Attributes:
        answers: the answers in JSON or YAML, without what changes with every reading.
        for_programs: whether the output is JSON, YAML or names.
        complaints: the lines for standard error.
    """

    text: io.StringIO
    complaints: list[str]
    answers: list[Any] = field(default_factory=list)
    for_programs: bool = False

    @property
    def compared(self) -> object:
        """What differs if the answer has changed."""
        return self.answers or self.text.getvalue()

    def show(self, changed_at: datetime | None) -> None:
        """Print the output, for people below the time of its change."""
        if changed_at is not None and not self.for_programs:
            print_line(styled(timestamp_text(changed_at), "bold"))
        click.echo(self.text.getvalue(), nl=False)


@contextmanager
def printed_once() -> Iterator[Printed]:
    """Keep what the block prints. JSON is one line, and each document of YAML begins with its mark."""
    with complaints() as lines, redirect_stdout(_LaterText(sys.stdout)) as text:
        token = _REPEATED.set(printed := Printed(text, lines))
        try:
            yield printed
        finally:
            _REPEATED.reset(token)


def complain(message: str) -> None:
    """Print one line on standard error."""
    lines = _COLLECTED.get()
    if lines is not None:
        lines.append(message)
        return
    echo("berthmaster: ", message, error=True)


def complain_error(error: BerthmasterError) -> None:
    """Print an error as a line, with the line of the field if it is about a file."""
    if not isinstance(error, ManifestError):
        complain(str(error))
        return
    from berthmaster_cli.line_finder import text_with_line  # noqa: PLC0415 - only errors need a parser

    complain(text_with_line(error))


def complain_about(gaps: Iterable[Gap]) -> None:
    """Print what is not known on standard error, one line for each gap."""
    for text in texts(gaps, ANY_READER):
        complain(text)


def print_line(*parts: str | Text) -> None:
    """Print plain and styled parts as one line, however long. Plain parts become inert."""
    stdout().print(joined(*parts))


def print_page(lines: Iterable[str]) -> None:
    """Print the lines of a document. The caller has escaped the data in them; each line becomes inert."""
    for line in lines:
        echo(line)


def print_answer(kind: AnswerKind, data: object, output: str) -> None:
    """Print an answer as JSON or YAML. Unprintable characters are written as escapes, so the value is exact."""
    document = kind.document(_plain(data))
    repeated = _REPEATED.get()
    if repeated is not None:
        repeated.for_programs = True
        repeated.answers.append(kind.compared(document))
    if output == "json":
        print_json(document)
    else:
        click.echo(("---\n" if repeated is not None else "") + _yaml(document), nl=False)


def print_json(document: object) -> None:
    """Print a document of another format than ours, such as SARIF, as JSON: in one line if it is repeated."""
    repeated = _REPEATED.get()
    if repeated is not None:
        repeated.for_programs = True
        click.echo(json_line(_plain(document)).decode(), nl=False)
        return
    click.echo(_inert_json(msgspec.json.format(msgspec.json.encode(_plain(document)), indent=2).decode()))


def is_printed(output: str, kind: AnswerKind, data: object, names: Iterable[str]) -> bool:
    """Print an answer or names if the format of workloads asks for one of them. Return False for a table."""
    if output in {"json", "yaml"}:
        print_answer(kind, data, output)
    elif output == "name":
        if (repeated := _REPEATED.get()) is not None:
            repeated.for_programs = True
        for name in names:
            echo(name)
    else:
        return False
    return True


def print_table(columns: Sequence[TableColumn | str], rows: Sequence[Sequence[str | Text]]) -> None:
    """Print a table without borders and without empty columns. Every row is one line, so that no name is broken."""
    used = [index for index in range(len(columns)) if any(row[index] for row in rows)]
    shown = columns_of(*(columns[index] for index in used))
    lines = [[styled(each.name, "bold") for each in shown]]
    lines += [[joined(row[index]) for index in used] for row in rows]
    widths = [max(line[column].cell_len for line in lines) for column in range(len(used))]
    rights = [each.is_number for each in shown]
    stdout().print(Text("\n").join(_aligned(line, widths, rights) for line in lines))


def _aligned(cells: Sequence[Text], widths: Sequence[int], rights: Sequence[bool]) -> Text:
    line = Text()
    for cell, width, right in zip(cells, widths, rights, strict=True):
        space = " " * (width - cell.cell_len)
        line.append_text(Text.assemble(space, cell, _GAP) if right else Text.assemble(cell, space, _GAP))
    line.rstrip()
    return line


def json_line(value: object) -> bytes:
    """Return a value as one line of JSON, with unprintable characters as escapes."""
    encoded = msgspec.json.encode(value)
    if encoded.isascii() and b"\x7f" not in encoded and _JSON_COMMAND not in encoded:
        return encoded + b"\n"
    return f"{_inert_json(encoded.decode())}\n".encode()


def print_json_line(kind: AnswerKind, data: object) -> None:
    """Print an answer as one line of JSON, and flush it: another process may follow the output."""
    click.echo(json_line(kind.document(_plain(data))), nl=False)


def _plain(data: object) -> Any:  # noqa: ANN401 - any JSON value
    """Convert a value to dicts, lists and scalars. Lone surrogates, as in names of files, are replaced."""
    try:
        return builtins(data)
    except UnicodeEncodeError:
        return _encodable(msgspec.to_builtins(data, enc_hook=str))


def _encodable(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case dict():
            return {_encodable(key): _encodable(entry) for key, entry in value.items()}
        case list() | tuple():
            return [_encodable(entry) for entry in value]
    return value


def _inert_json(text: str) -> str:
    return printable_json(text).replace("##[", "#\\u0023[")


def _yaml(plain: object) -> str:
    text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
    if text.replace("\n", "").isprintable() and _COMMAND.search(text) is None:
        return text
    quoted: str = yaml.dump(plain, Dumper=_QuotingDumper, sort_keys=False, width=sys.maxsize)
    return quoted.replace("##[", "#\\x23[")
