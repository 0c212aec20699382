"""The crash handler of threads that have to live on."""

import logging
from collections.abc import Callable

from berthmaster.runtime.logs import fields


def survived(call: Callable[[], object], log: logging.Logger, message: str, *arguments: str, **names: str) -> bool:
    """Call ``call``; whether it came back. What it raised is logged in full, and goes no further.

    For a thread's outermost edges only: where the next piece of work has nothing to do with the one that failed, and
    the caller has an answer to False. Errors that are expected are caught by name, further in.

    Args:
        call: what may fail.
        log: hears of it.
        message: what has failed, as loggers take it.
        arguments: of the message.
        names: fields of the record, as the kind and name of an object.
    """
    try:
        call()
    except Exception:  # what nobody thought of must not end a thread that others count on
        log.exception(message, *arguments, extra=fields(**names))
        return False
    return True
