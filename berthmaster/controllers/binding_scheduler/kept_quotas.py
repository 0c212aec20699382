"""The quotas of namespaces, and what of them is kept for moves that have given their use up."""

from typing import Final

from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.moves.supervisor import MoveSupervisor
from berthmaster.deciding.quotas import kept_for_others, use_of
from berthmaster.deciding.writes import QUOTA_EXCEEDED
from berthmaster.kube.kinds import FEDERATED_QUOTAS
from berthmaster.model.binding import Binding
from berthmaster.model.errors import ApiError
from berthmaster.model.meta import Key
from berthmaster.model.work import FederatedResourceQuota

WITHOUT: Final = (
    "a binding that a FederatedResourceQuota refused is retried with backoff, and not as soon as the quota allows it. "
    "A move with BreakBeforeMake begins although a quota may refuse its new copies"
)


class KeptQuotas:
    """Knows the FederatedResourceQuotas, if this process may watch them. Without them karmada-webhook decides alone."""

    def __init__(self, context: ControllerContext, moves: MoveSupervisor) -> None:
        self._informer = context.optional_informer(*FEDERATED_QUOTAS, WITHOUT)
        self._moves = moves

    def of(self, namespace: str) -> tuple[FederatedResourceQuota, ...]:
        return tuple(quota for key, quota in self._informer.items() if key[0] == namespace)

    def check(self, key: Key, before: Binding, after: Binding) -> None:
        """Raise ``ApiError`` as karmada-webhook does if a write would take quota that is kept for a move."""
        kept = self._moves.kept_use(key)
        if not kept:
            return
        now = use_of(before, before.assignment)
        added = {name: more - now.get(name, 0) for name, more in use_of(after, after.assignment).items()}
        if why := kept_for_others(self.of(key[0]), added, kept):
            raise ApiError(403, QUOTA_EXCEEDED, why)
