"""The entry points of the scripts. An interruption while the command is imported has no traceback either.

This module imports only what the interpreter has imported at its start.
"""

import os


def berthmaster() -> None:
    """Run ``berthmaster``."""
    try:
        from berthmaster_cli.main import run  # noqa: PLC0415 - an import can be interrupted

        run()
    except KeyboardInterrupt:
        os._exit(130)


def plugin() -> None:
    """Run ``kubectl berthmaster``."""
    try:
        from berthmaster_cli.kubectl import run_plugin  # noqa: PLC0415 - the same

        run_plugin()
    except KeyboardInterrupt:
        os._exit(130)


def completion() -> None:
    """Print completions for ``kubectl berthmaster``."""
    try:
        from berthmaster_cli.kubectl import complete  # noqa: PLC0415 - the same

        complete()
    except KeyboardInterrupt:
        os._exit(130)
