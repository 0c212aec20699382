"""Bindings that use features of Karmada whose gates are off here: they are reported, because they would be ignored."""

import logging
from typing import Final

from prometheus_client import Gauge

from berthmaster.kube.requests import key_text
from berthmaster.model.binding import Binding
from berthmaster.model.meta import Key
from berthmaster.runtime.feature_gates import MULTIPLE_POD_TEMPLATES, WORKLOAD_AFFINITY, FeatureGates, Gate
from berthmaster.runtime.logs import fields

IGNORED_GATES: Final = Gauge(
    "berthmaster_scheduler_ignored_gate",
    "1 if a binding uses a feature of Karmada whose gate is off here, by gate.",
    ("gate",),
)
_LOG: Final = logging.getLogger("berthmaster.binding_scheduler")


class IgnoredGates:
    """Observes bindings, and reports each gate once."""

    def __init__(self, gates: FeatureGates) -> None:
        self._off = {each for each in (WORKLOAD_AFFINITY, MULTIPLE_POD_TEMPLATES) if not gates.on(each)}

    def binding_changed(self, key: Key, _before: Binding | None, after: Binding | None) -> None:
        if not self._off or after is None:
            return
        for gate in used_gates(after) & self._off:
            self._off.discard(gate)
            IGNORED_GATES.labels(gate.name).set(1)
            _LOG.warning(
                "a binding uses a feature whose gate is off here, and it is ignored: set --feature-gates %s=true",
                gate.name,
                extra=fields(binding=key_text(key)),
            )


def used_gates(binding: Binding) -> set[Gate]:
    """Return the gates whose fields a binding has. Karmada sets these fields only if its own gate is on."""
    spec = binding.spec
    used = set()
    if spec.workload_affinity_groups is not None:
        used.add(WORKLOAD_AFFINITY)
    if spec.components:
        used.add(MULTIPLE_POD_TEMPLATES)
    return used
