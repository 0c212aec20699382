"""The pages of docs/reference: each command with its options, as `--help` describes them. Writes them as a script."""

import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import click
from tables import with_tables

from berthmaster_cli.main import SECTIONS, main
from berthmaster_cli.option_variables import variable_of

DOCS: Final = Path(__file__).parents[1] / "docs"
_MADE: Final = "<!-- made from the help texts of the commands by `make reference` -->"
# The page of docs/ that says how to use the command.
_GUIDES: Final[Mapping[str, str]] = {
    "simulate": "simulate.md", "explain": "live.md", "why-not": "live.md", "plan": "plan.md",
    "resilience": "resilience.md", "drift": "drift.md", "test": "placement-tests.md", "lint": "rules/README.md",
    "moves": "moves.md", "drain": "moves.md",
    "undrain": "moves.md", "history": "ledger.md", "replay": "ledger.md", "ledger": "ledger.md",
    "shadow": "binding-scheduler.md", "webhook": "webhook.md", "extender": "extender.md",
    "controllers": "controllers.md", "console": "console.md", "demo": "serving.md",
    "version": "compatibility.md", "doctor": "doctor.md",
    "certs": "certificates.md", "register": "install.md",
}  # fmt: skip
_OTHER: Final = {"completion": "Print a completion script for a shell."}
_CODE: Final = re.compile(
    r"(?<![\w/-])(--?[a-z][\w-]*(?:=[\w.,-]+)?|\$[A-Z_]+|~/[\w./-]+|/(?:livez|readyz|metrics|v1/\w+))"
)
_ENVIRONMENT: Final = re.compile(r"Each option can also be set by an environment variable[^.]*\.( Variables [^.]*\.)?")
_CODES: Final = re.compile(r"Exit codes: (.*?)\.(?= [A-Z]|$)")
_DEFAULT: Final = re.compile(r" ?\bDefault: (.*?)\.(?=\s|$)")


class Row(NamedTuple):
    """One option, as Markdown: its spellings, its default, and its meaning."""

    option: str
    default: str
    meaning: str


def pages() -> dict[Path, str]:
    root = click.Context(main, info_name="berthmaster")
    found = {DOCS / "reference.md": _index(root)}
    for name in [*_GUIDES, *_OTHER]:
        found[DOCS / "reference" / f"{name}.md"] = "\n".join(_page(name, _context(root, name)))
    return found


def _context(parent: click.Context, name: str) -> click.Context:
    command = parent.command.get_command(parent, name)
    return click.Context(command, info_name=name, parent=parent, **command.context_settings)


def _index(root: click.Context) -> str:
    """Return the page of all commands. Its text is written by hand."""
    lines = []
    for title, commands in {**SECTIONS, "Other": _OTHER}.items():
        lines += [f"## {title}", "", "| Command | What it does | Guide |", "|---|---|---|"]
        lines += [f"| [{name}](reference/{name}.md) | {text} | {_guide(name, '')} |" for name, text in commands.items()]
        lines.append("")
    tables = ("commands", ["", *lines]), ("exit codes", ["", *_codes(_epilog(root.command.epilog)[1]), ""])
    return with_tables((DOCS / "reference.md").read_text(), "reference", tables)


def _guide(name: str, folder: str) -> str:
    page = _GUIDES.get(name)
    return f"[{page}]({folder}{page})" if page else ""


def _page(name: str, ctx: click.Context) -> Iterator[str]:
    yield from (f"# berthmaster {name}", "", _MADE, "")
    yield from _command(ctx, "##")
    if isinstance(ctx.command, click.Group):
        below = [_context(ctx, each) for each in ctx.command.list_commands(ctx)]
        tables = [_rows(each.command) for each in below]
        shared = [row for row in tables[0] if len(tables) > 1 and all(row in rows for rows in tables)]
        if shared:
            yield from ("## Options of all subcommands", "", *_table(shared))
        for each in below:
            yield from (f"## {each.command_path.removeprefix('berthmaster ')}", "")
            yield from _command(each, "###", without=shared)
    guide = f"Guide: {_guide(name, '../')}. " if name in _GUIDES else ""
    yield from (f"{guide}[All commands](../reference.md).", "")


def _command(ctx: click.Context, level: str, without: Sequence[Row] = ()) -> Iterator[str]:
    """Yield the synopsis, the description, the options, the variables and the exit codes of one command."""
    command = ctx.command
    remarks, codes = _epilog(command.epilog)
    yield from _description(command)
    yield from ("```", " ".join([_path(ctx), *command.collect_usage_pieces(ctx)]), "```", "")
    yield from _examples(command)
    rows = [row for row in _rows(command) if row not in without]
    if rows:
        yield from (f"{level} Options", "", *_table(rows))
    prefix = ctx.auto_envvar_prefix
    if prefix and rows:
        own = [each for each in command.params if isinstance(each, click.Option) and _row(each) in rows]
        option = next(each for each in own if each.opts != ["--config"])
        spelled = max(option.opts, key=len)
        yield from _wrapped(
            f"Each option can also be set by an environment variable, which begins with `{prefix}_`: `{spelled}` by "
            f"`{variable_of(option, prefix)}`."
        )
    if remarks:
        yield from _wrapped(_marked(remarks))
    if codes:
        yield from (f"{level} Exit codes", "", *_codes(codes), "")
    elif not isinstance(command, click.Group):
        yield from _wrapped("Exit codes: see [all commands](../reference.md#exit-codes).")


def _path(ctx: click.Context) -> str:
    """Return the command as one types it. The options of a group stand before its subcommand."""
    parent = ctx.parent
    options = " [OPTIONS]" if parent and parent.parent and parent.command.params else ""
    return ctx.command_path if not options else f"{parent.command_path}{options} {ctx.info_name}"


def _description(command: click.Command) -> Iterator[str]:
    for paragraph in _paragraphs(command):
        if not paragraph.startswith("\b"):
            yield from _wrapped(_marked(" ".join(paragraph.split())))


def _examples(command: click.Command) -> Iterator[str]:
    """Yield the paragraphs that click does not wrap, as blocks of code."""
    for paragraph in _paragraphs(command):
        if not paragraph.startswith("\b"):
            continue
        lines = paragraph.removeprefix("\b").strip("\n").splitlines()
        title = lines.pop(0) if lines[0].endswith(":") else ""
        if title:
            yield from (title, "")
        yield from ("```sh", *textwrap.dedent("\n".join(lines)).splitlines(), "```", "")


def _paragraphs(command: click.Command) -> Sequence[str]:
    return inspect.cleandoc(command.help or "").split("\n\n")


def _rows(command: click.Command) -> list[Row]:
    return [_row(each) for each in command.params if isinstance(each, click.Option) and not each.hidden]


def _row(option: click.Option) -> Row:
    metavar = "" if option.is_flag and not option.metavar else f" {_metavar(option)}"
    spelled = ", ".join([f"`{each}{_escaped(metavar)}`" for each in [*option.opts, *option.secondary_opts]][-2:])
    if len(option.opts) > 1:
        spelled = ", ".join([*(f"`{each}`" for each in option.opts[:-1]), f"`{option.opts[-1]}{_escaped(metavar)}`"])
    meaning = option.help or ""
    default = _DEFAULT.search(meaning)
    if default:
        meaning = _DEFAULT.sub("", meaning, count=1)
    accepted = _accepted(option.type)
    return Row(
        spelled,
        _marked(default[1]) if default else _default(option),
        _marked(meaning.strip()) + (f" Accepted: {accepted}." if accepted else ""),
    )


def _metavar(option: click.Option) -> str:
    if option.metavar:
        return option.metavar
    if isinstance(option.type, click.Choice):
        return "|".join(str(each) for each in option.type.choices)
    if isinstance(option.type, click.IntRange | click.types.IntParamType):
        return "N"
    return "NUMBER" if isinstance(option.type, click.FloatRange) else str(option.type.name).upper()


def _accepted(kind: click.ParamType) -> str:
    if not isinstance(kind, click.IntRange | click.FloatRange):
        return ""
    low = "" if kind.min is None else f"{'more than ' if kind.min_open else ''}{kind.min:,}"
    if kind.max is None:
        return f"{low} or more"
    return f"{low}{',' if kind.min_open else ''} {'at most' if kind.min_open else 'to'} {kind.max:,}"


def _default(option: click.Option) -> str:
    """Return the default of an option: the spelling of a switch, or the value."""
    if option.required:
        return "required"
    if option.secondary_opts:
        return f"`{(option.opts if option.default else option.secondary_opts)[0]}`"
    if option.is_flag or not option.show_default:
        return ""
    if isinstance(option.default, tuple) and isinstance(option.default[0], str) and isinstance(option.default[-1], int):
        return f"`{':'.join(map(str, option.default))}`"
    values = option.default if isinstance(option.default, tuple | list) else [option.default]
    return ", ".join(f"`{each:g}`" if isinstance(each, float) else f"`{each}`" for each in values)


def _epilog(text: str | None) -> tuple[str, str]:
    """Return the remarks and the exit codes of an epilog, without what is said of environment variables."""
    rest = _ENVIRONMENT.sub("", text or "")
    codes = _CODES.search(rest)
    return " ".join(_CODES.sub("", rest).split()), codes[1] if codes else ""


def _codes(text: str) -> Iterator[str]:
    yield from ("| Code | Meaning |", "|---|---|")
    for each in text.split("; "):
        number, _, meaning = each.partition(" ")
        yield f"| {number} | {_marked(meaning)} |"


def _table(rows: Sequence[Row]) -> Iterator[str]:
    yield from ("| Option | Default | Meaning |", "|---|---|---|")
    yield from (f"| {row.option} | {row.default} | {row.meaning} |" for row in rows)
    yield ""


def _marked(text: str) -> str:
    """Return a help text as Markdown: options, variables and paths as code."""
    parts = text.split("`")
    plain = [_CODE.sub(r"`\1`", _escaped(each)).replace("*", "\\*") for each in parts[::2]]
    code = [f"`{_escaped(each)}`" for each in parts[1::2]]
    return "".join(each for pair in zip(plain, [*code, ""], strict=True) for each in pair)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def _wrapped(text: str) -> Iterator[str]:
    yield from (*textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False), "")


if __name__ == "__main__":
    (DOCS / "reference").mkdir(exist_ok=True)
    for path, text in pages().items():
        path.write_text(text)
