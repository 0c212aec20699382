"""The entry points of the scripts. An interruption while the command is imported has no traceback either.

This module imports only what the interpreter has imported at its start.
"""

import os
from importlib import import_module


def berthmaster() -> None:
    """Run ``berthmaster``, or complete a line."""
    if "_BERTHMASTER_COMPLETE" in os.environ:
        _call("complete_line", "complete_for_shell")
    else:
        _call("main", "run")


def plugin() -> None:
    """Run ``kubectl berthmaster``."""
    _call("main", "run_plugin")


def completion() -> None:
    """Print completions for ``kubectl berthmaster``."""
    _call("complete_line", "complete_for_kubectl")


def _call(module: str, name: str) -> None:
    try:
        getattr(import_module(f"berthmaster_cli.{module}"), name)()  # an import can be interrupted
    except KeyboardInterrupt:
        os._exit(130)
