"""What an object keeps in memory, without the names of its attributes."""

import gc
import logging
import threading
import types
import weakref
from collections import deque

_SHARED = (
    type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.CodeType, types.FrameType,
    weakref.ref, logging.Logger, threading.Thread,
)  # fmt: skip
_CONTAINERS = (dict, list, set, frozenset, tuple, deque)


def retained(kept: object) -> int:
    """Return how many entries all containers have that an object keeps, itself or through other objects.

    Classes, modules and functions do not count: other objects share them.
    """
    seen, waiting, entries = {id(kept)}, [kept], 0
    while waiting:
        each = waiting.pop()
        entries += len(each) if isinstance(each, _CONTAINERS) else 0
        for found in gc.get_referents(each):
            if id(found) not in seen and not isinstance(found, _SHARED):
                seen.add(id(found))
                waiting.append(found)
    return entries
