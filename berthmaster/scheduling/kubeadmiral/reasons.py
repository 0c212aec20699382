"""Why KubeAdmiral's selection passed over a cluster, or its division left it nothing."""

from collections.abc import Mapping
from functools import cached_property

from berthmaster.scheduling.context import Context
from berthmaster.scheduling.decision import Attempt
from berthmaster.scheduling.kubeadmiral.division import weights_of
from berthmaster.scheduling.kubeadmiral.request import unit_of


class UnitReasons:
    """What became of one attempt."""

    def __init__(self, context: Context, attempt: Attempt) -> None:
        self._context = context
        self._attempt = attempt

    @cached_property
    def weights(self) -> Mapping[int, int]:
        """Those of Spread division."""
        selected = self._attempt.selected
        if selected is None or not unit_of(self._context).divide:
            return {}
        row_of = self._context.fleet.row_of
        return {row_of[name]: weight for name, weight in weights_of(self._context, selected).items()}

    def not_selected(self, row: int) -> str:  # noqa: ARG002 - it is the same for every row
        """Select plugins only sort and cut off."""
        selected = self._attempt.selected
        taken = 0 if selected is None else len(selected)
        return f"select plugins took {taken} of {len(self._attempt.rows)} clusters that fit"

    def no_replicas(self, row: int) -> str:  # noqa: ARG002 - it is the same for every row
        """What a planner was after is not told by it."""
        return "its share is no replica" if unit_of(self._context).replicas > 0 else "no replicas are wanted"

    def capacity(self, row: int) -> tuple[int | None, str]:  # noqa: ARG002 - it is the same for every row
        """KubeAdmiral estimates none."""
        return None, ""
