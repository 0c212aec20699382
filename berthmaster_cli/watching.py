"""``-w``: print an answer again whenever it changes."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import wraps
from typing import Final, TypeVar

import click

from berthmaster.model.errors import BerthmasterError
from berthmaster_cli.flags import Flags, option
from berthmaster_cli.output import complain, complain_error, printed_once

_LEAST_S: Final = 2.0
_REST: Final = 4
"""How many times longer than its reading the next one waits: an API server is asked a fifth of the time at most."""
_STDIN: Final = "-"


class WatchFlags(Flags):
    """Whether an answer is printed again."""

    watch: bool = option("Print the answer again whenever it changes, until interrupted.", names=("-w", "--watch"))


F = TypeVar("F", bound=WatchFlags)


def watched(*once: str) -> Callable[[Callable[[F], None]], Callable[[F], None]]:
    """Return a decorator for a command with ``WatchFlags``.

    Args:
        once: the fields of options that cannot be repeated, because they write, or ask about what does not change.
    """

    def decorate(answer: Callable[[F], None]) -> Callable[[F], None]:
        @wraps(answer)
        def command(flags: F) -> None:
            if not flags.watch:
                answer(flags)
                return
            _check_usage(flags, once)
            _repeat(lambda: answer(flags))

        return command

    return decorate


def _check_usage(flags: WatchFlags, once: Sequence[str]) -> None:
    for name in once:
        if getattr(flags, name):
            raise click.UsageError(f"-w cannot be combined with --{name.replace('_', '-')}")
    for name in ("paths", "arguments", "against", "tests"):
        if _STDIN in getattr(flags, name, ()):
            raise click.UsageError("-w cannot read standard input again; name a file")


def _repeat(answer: Callable[[], None]) -> None:
    """Print an answer, and later what differs from the last one. An error ends only the first."""
    known: object = None
    said: list[str] = []
    while True:
        started_s = time.monotonic()
        failed = False
        with printed_once() as printed, suppress(SystemExit):  # the answer says that a check fails
            try:
                answer()
            except BerthmasterError as error:
                if known is None:
                    raise
                complain_error(error)
                failed = True
        if not failed and printed.compared != known:
            printed.show(datetime.now(UTC) if known is not None else None)
            known = printed.compared
        if printed.complaints != said:
            said = printed.complaints
            for each in said:
                complain(each)
        time.sleep(max(_LEAST_S, _REST * (time.monotonic() - started_s)))
