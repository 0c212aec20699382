"""The entry points of the scripts. An interruption while the command is imported has no traceback either.

This module imports only what the interpreter has imported at its start.
"""

import os


def berthmaster() -> None:
    """Run ``berthmaster``."""
    _call("run")


def plugin() -> None:
    """Run ``kubectl berthmaster``."""
    _call("run_plugin")


def completion() -> None:
    """Print completions for ``kubectl berthmaster``."""
    _call("complete")


def _call(name: str) -> None:
    try:
        from berthmaster_cli import main  # noqa: PLC0415 - an import can be interrupted

        getattr(main, name)()
    except KeyboardInterrupt:
        os._exit(130)
