"""One piece of work, whatever it is about."""

from typing import Final

from berthmaster.controllers.controller import Requeue
from berthmaster.controllers.preemption.challengers import Challengers, Kind
from berthmaster.controllers.preemption.drops import Drops
from berthmaster.controllers.preemption.takeover import Takeover
from berthmaster.controllers.preemption.triggers import Subject
from berthmaster.controllers.preemption.watches import Watches
from berthmaster.model.claims import Resource
from berthmaster.model.policy import PolicyReference

UNSERVED_WAIT_S: Final = 30.0
"""How long until the API server is asked again for a kind that it does not serve."""
SERVED_WAIT_S: Final = 300.0
"""How long until it is asked whether it still serves a kind as it did."""


class PreemptionReconciler:
    """See ``Reconciler``."""

    def __init__(self, challengers: Challengers, watches: Watches, takeover: Takeover, drops: Drops) -> None:
        self._challengers = challengers
        self._watches = watches
        self._takeover = takeover
        self._drops = drops

    def reconcile(self, key: Subject) -> Requeue | None:
        """See ``Reconciler``."""
        match key:
            case Resource():
                return self._takeover.settle(key)
            case PolicyReference():
                return self._drops.handle(key)
            case Kind():
                return self._watch(key)

    def _watch(self, kind: Kind) -> Requeue | None:
        kept = self._watches.keep(kind)
        if not self._challengers.wants(kind):
            return None
        return Requeue(SERVED_WAIT_S if kept else UNSERVED_WAIT_S)
