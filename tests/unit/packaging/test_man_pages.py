"""The man pages have what the reference has, and roff reads them without a warning."""

import runpy
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from berthmaster_cli.main import COMMANDS, main

MODULE = runpy.run_path(str(Path(__file__).parents[3] / "packaging" / "man_pages.py"))
PAGES = MODULE["pages"]()


def test_each_command_has_a_page():
    assert PAGES.keys() == {"berthmaster.1", *(f"berthmaster-{name}.1" for name in (*COMMANDS, "completion"))}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_has_every_option_of_its_command(name):
    command = main.get_command(click.Context(main), name)
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.opts[-1].replace("-", "\\-") in PAGES[f"berthmaster-{name}.1"]


def test_a_table_is_a_list_with_defaults():
    table = "| Option | Default | Meaning |\n|---|---|---|\n| `-o`, `--out A\\|B` | `A` | Write. |\n"
    text = MODULE["page"]("a", f"# a\n\nDo it. Always.\n\n{table}")
    assert ".SH NAME\na \\- Do it\n" in text
    assert text.endswith(".TP\n\\fB\\-o\\fR, \\fB\\-\\-out A|B\\fR\nWrite. Default: \\fBA\\fR.\n")


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_roff_reads_the_pages_without_a_warning():
    for name, text in PAGES.items():
        done = subprocess.run(
            ["groff", "-man", "-ww", "-Tutf8", "-z"],  # noqa: S607 - the groff of the PATH
            input=text, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, ""), name
