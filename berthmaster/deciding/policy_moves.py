"""What a configuration and the annotations of a policy say about the moves of one binding. Pure functions."""

from collections.abc import Mapping
from dataclasses import replace

from berthmaster.deciding.config import JOB
from berthmaster.deciding.decision_recorder import PolicyMoves
from berthmaster.deciding.move_settings import MoveSettings, failback_annotation
from berthmaster.model.binding import Binding, holder
from berthmaster.model.errors import FieldError
from berthmaster.model.kinds import serves_workloads
from berthmaster.model.move import FAILBACK, POLICY_KEYS, STRATEGY, VOLUMES, MoveStrategy, VolumeLoss


def policy_moves(settings: MoveSettings, annotations: Mapping[str, str], binding: Binding) -> PolicyMoves:
    """Return what a configuration and the annotations of a policy say about the moves of a binding.

    An invalid annotation turns nothing on; ``problem`` names it. What does not run never runs twice, and workloads that
    need it would be without it: it moves by MakeBeforeBreak.
    """
    resource = binding.spec.resource
    found = PolicyMoves(settings)
    if annotations.keys() & POLICY_KEYS:
        try:
            found = _annotated(settings, annotations, resource.kind)
        except FieldError as error:
            found = PolicyMoves(settings, problem=f"{holder(binding.metadata)}: {error}")
    if serves_workloads(resource.api_version, resource.kind):
        return replace(found, settings=replace(found.settings, strategy=MoveStrategy.MAKE_BEFORE_BREAK))
    return found


def _annotated(settings: MoveSettings, annotations: Mapping[str, str], kind: str) -> PolicyMoves:
    strategy = annotations.get(STRATEGY)
    if strategy is not None:
        known = [each.value for each in MoveStrategy]
        if strategy not in known:
            raise FieldError(STRATEGY, f"{strategy!r} is unknown; use {' or '.join(known)}")
        settings = replace(settings, strategy=MoveStrategy(strategy))
    if (volumes := annotations.get(VOLUMES)) is not None:
        accepted = [each.value for each in VolumeLoss]
        if volumes not in accepted:
            raise FieldError(VOLUMES, f"{volumes!r} is unknown; use {' or '.join(accepted)}")
        settings = replace(settings, volumes=VolumeLoss(volumes))
    text = annotations.get(FAILBACK)
    if text is not None and kind != JOB:
        try:
            settings = replace(settings, failback=failback_annotation(text, settings.failback))
        except FieldError as error:
            raise error.below(FAILBACK) from None
    return PolicyMoves(settings, reschedules=strategy is not None)
