"""The reference of the commands is the one that the help texts make."""

import click
from command_pages import DOCS, pages

from berthmaster_cli.main import COMMANDS, main

PAGES = pages()


def test_the_pages_match_the_commands():
    stale = [
        str(path.relative_to(DOCS)) for path, text in PAGES.items() if not path.exists() or path.read_text() != text
    ]
    assert stale == [], "a help text changed; run make reference"


def test_no_page_is_about_a_command_that_does_not_exist():
    names = {path.stem for path in (DOCS / "reference").glob("*.md")}
    assert names == {*COMMANDS, "completion"}


def commands(ctx):
    yield ctx
    if isinstance(ctx.command, click.Group):
        for name in ctx.command.list_commands(ctx):
            yield from commands(click.Context(ctx.command.get_command(ctx, name), info_name=name, parent=ctx))


def test_each_option_is_on_the_page_of_its_command():
    for ctx in commands(click.Context(main, info_name="berthmaster")):
        if ctx.parent is None:
            continue
        text = PAGES[DOCS / "reference" / f"{ctx.command_path.split()[1]}.md"]
        shown = [each for each in ctx.command.params if not getattr(each, "hidden", False)]
        options = [option for each in shown for option in (*each.opts, *each.secondary_opts)]
        named = [each for each in options if each.startswith("-")]
        assert [each for each in named if f"`{each}`" not in text and f"`{each} " not in text] == [], ctx.command_path


def test_every_option_has_a_meaning():
    for ctx in commands(click.Context(main, info_name="berthmaster")):
        options = [each for each in ctx.command.params if isinstance(each, click.Option)]
        assert [each.opts for each in options if not (each.help or "").endswith(".")] == [], ctx.command_path
