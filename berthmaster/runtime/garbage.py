"""The collector of reference cycles in a process that runs for long."""

import gc
from typing import Final

_THRESHOLD: Final = 20_000
"""Net allocations between collections. A request or a reconcile makes a few hundred objects and frees most of them."""


def keep_existing_objects() -> None:
    """Leave the objects that exist now out of collections, and collect less often.

    A collection looks at every object that it has not left out. A process calls this when its modules are imported and
    its caches are filled. Reference counts still free these objects, unless they are part of a cycle.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_THRESHOLD)
