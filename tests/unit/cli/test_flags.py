from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from berthmaster_cli.flags import Flags, argument, group, option, options


class Peer(Flags):
    ca_file: Path | None = option("The CA of {peer}.")


class Base(Flags):
    limit: int = option("How many.", 5, click.IntRange(1))
    only: tuple[str, ...] = option("Repeatable.", names=("--just",))


class Own(Base):
    names: tuple[str, ...] = argument(nargs=-1)
    strict: bool = option("A flag.")
    store: Peer = group()
    extra: str  # another decorator declares it


@click.command()
@click.option("--extra", default="none")
@options(Own, {"limit": {"default": 7}}, peer="the store")
def command(flags: Own) -> None:
    click.echo(repr(flags))


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        pytest.param([], {}, id="defaults, one of which the command replaces"),
        pytest.param(["--strict", "--limit=2"], {"strict": True, "limit": 2}, id="a flag and a number"),
        pytest.param(["--just=a", "--just=b", "x"], {"only": ("a", "b"), "names": ("x",)}, id="several values"),
        pytest.param(
            ["--store-ca-file=f", "--extra=e"], {"store": Peer(ca_file=Path("f")), "extra": "e"}, id="a group"
        ),
    ],
)
def test_a_command_gets_its_options_as_one_value(words, changed):
    plain = {"limit": 7, "only": (), "names": (), "strict": False, "store": Peer(ca_file=None), "extra": "none"}
    assert CliRunner().invoke(command, words).output == f"{Own(**plain | changed)!r}\n"


def test_help_has_own_options_first_and_the_texts_of_the_command():
    listed = CliRunner().invoke(command, ["--help"]).output
    assert listed.index("--strict") < listed.index("--store-ca-file") < listed.index("--limit")
    assert "The CA of the store." in listed
    assert "default: 7" in listed
