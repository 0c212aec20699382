"""The completion of a line, for bash, zsh, fish and kubectl. It imports no command."""

import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from click.shell_completion import ShellComplete, shell_complete

from berthmaster_cli.command_table import load

VARIABLE: Final = "_BERTHMASTER_COMPLETE"
"""With this variable a completion script says what it wants, as click's scripts do."""
_PROGRAM: Final = "berthmaster"
_PLUGIN: Final = "kubectl berthmaster"
# Cobra's ShellCompDirective values.
_NO_FILES: Final = 4
_DEFAULT: Final = 0


def complete_for_shell() -> None:
    """Print the completions of the line that the variables of a completion script describe."""
    _prepare()
    sys.exit(shell_complete(load(), {}, _PROGRAM, VARIABLE, os.environ[VARIABLE]))


def complete_for_kubectl() -> None:
    """Print the completions of the words on the command line. The last word is incomplete and can be empty.

    kubectl runs ``kubectl_complete-berthmaster`` with the words so far. Its output is that of Cobra: one value in each
    line, with a description after a tab, and at last a colon with the directive.
    """
    _prepare()
    words = sys.argv[1:]
    lines = completions(words[:-1], words[-1] if words else "")
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def completions(words: Sequence[str], incomplete: str) -> list[str]:
    """Return the lines that kubectl expects. ``words`` are the complete words after ``kubectl berthmaster``."""
    found = ShellComplete(load(), {}, _PLUGIN, "").get_completions(list(words), incomplete)
    plain = [item for item in found if item.type == "plain"]
    # A parameter that is a path asks the shell for files.
    directive = _NO_FILES if len(plain) == len(found) else _DEFAULT
    return [*(f"{each.value}\t{each.help}" if each.help else str(each.value) for each in plain), f":{directive}"]


def _prepare() -> None:
    """Print nothing but completions: the line of the user stays as it is, also after an error."""
    sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the process ends
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
