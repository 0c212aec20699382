"""Which bindings are this scheduler's business (karmada ``resourceBindingEventFilter``)."""

from typing import Final

from berthmaster.model.binding import Binding

DEFAULT_SCHEDULER: Final = "default-scheduler"
MANAGED_BY: Final = (
    "propagationpolicy.karmada.io/permanent-id",
    "clusterpropagationpolicy.karmada.io/permanent-id",
    "binding.karmada.io/managed-by",
)
"""A binding without any of these labels follows another one, and is never scheduled by itself."""


def named(binding: Binding, scheduler_name: str) -> bool:
    """Whether it is this scheduler that a binding asks for, and scheduling is not suspended."""
    suspension = binding.spec.suspension
    suspended = suspension is not None and bool(suspension.scheduling)
    return (binding.spec.scheduler_name or DEFAULT_SCHEDULER) == scheduler_name and not suspended


def eligible(binding: Binding, scheduler_name: str) -> bool:
    """Whether a binding is to be scheduled here at all."""
    return named(binding, scheduler_name) and any(binding.metadata.labels.get(label) for label in MANAGED_BY)
