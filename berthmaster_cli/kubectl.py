"""The plugin of kubectl: ``kubectl berthmaster``, and its completion.

kubectl runs ``kubectl-berthmaster`` for ``kubectl berthmaster``. For completion it runs
``kubectl_complete-berthmaster`` with the words so far. Its output is that of Cobra: one value in each line, with a
description after a tab, and at last a colon with the directive.
"""

import sys
from collections.abc import Sequence
from typing import Final

from click.shell_completion import CompletionItem, ShellComplete

from berthmaster_cli.main import main, run

PLUGIN: Final = "kubectl berthmaster"
# Cobra's ShellCompDirective values.
_NO_FILES: Final = 4
_DEFAULT: Final = 0


def run_plugin() -> None:
    """Run the command as ``kubectl berthmaster``."""
    run(PLUGIN)


def complete() -> None:
    """Print the completions of the words on the command line. The last word is incomplete and can be empty."""
    words = sys.argv[1:]
    lines = completions(words[:-1], words[-1] if words else "")
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def completions(words: Sequence[str], incomplete: str) -> list[str]:
    """Return the lines that kubectl expects. ``words`` are the complete words after ``kubectl berthmaster``."""
    found = ShellComplete(main, {}, PLUGIN, "").get_completions(list(words), incomplete)
    plain = [item for item in found if item.type == "plain"]
    # A parameter that is a path asks the shell for files.
    directive = _NO_FILES if len(plain) == len(found) else _DEFAULT
    return [*(_line(item) for item in plain), f":{directive}"]


def _line(item: CompletionItem) -> str:
    return f"{item.value}\t{item.help}" if item.help else str(item.value)
