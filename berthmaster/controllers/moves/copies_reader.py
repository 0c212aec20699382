"""Reads the copies of a workload from its Works."""

from collections.abc import Callable
from typing import Final

import msgspec.structs

from berthmaster.kube.client import APIClient
from berthmaster.kube.works import list_works, with_template
from berthmaster.model.binding import Binding
from berthmaster.model.errors import ApiError
from berthmaster.model.work import Copies, FederatedResourceQuota, copies_of, work_selector

MAX_WORKS: Final = 20_000
"""The most Works of one binding. A fleet has fewer clusters."""

Needing = Callable[[Binding, str, str], tuple[str, ...]]
"""Returns who needs a resource in a cluster, as ``NeedIndex.needing``."""
QuotasOf = Callable[[str], tuple[FederatedResourceQuota, ...]]
"""Returns the quotas of a namespace."""


def read_copies(client: APIClient, needing: Needing, quotas: QuotasOf, binding: Binding) -> Copies:
    """Return the copies of a workload, by the Works with the permanent id of its binding. Few bindings move at a time.

    It never raises: ``problem`` says why they could not be read.
    """
    selector = work_selector(binding)
    if not selector:
        return Copies(problem="the binding has no permanent id, so its Works cannot be found; Karmada sets the id")
    try:
        copies = copies_of(list_works(client, MAX_WORKS, labels=selector))
    except ApiError as error:
        return Copies(problem=f"the Works of the binding cannot be read: {error}")
    copies = with_needs(with_template(client, copies, binding), needing, binding)
    return msgspec.structs.replace(copies, quotas=quotas(binding.metadata.namespace))


def with_needs(copies: Copies, needing: Needing, binding: Binding) -> Copies:
    """Return the copies of a resource with who needs each."""
    defines = next((each.facts.defines for each in copies.by_cluster.values() if each.facts.defines), "")
    clusters = sorted(copies.by_cluster.keys() | binding.assignment.keys())
    found = {name: who for name in clusters if (who := needing(binding, name, defines))}
    return msgspec.structs.replace(copies, needed=found)
