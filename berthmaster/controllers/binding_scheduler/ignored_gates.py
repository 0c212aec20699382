"""Bindings that use a feature of Karmada whose gate is off here."""

import logging
from collections.abc import Callable
from typing import Final

from prometheus_client import Gauge

from berthmaster.model.binding import Binding, BindingSpec
from berthmaster.model.meta import Key, object_name
from berthmaster.runtime.feature_gates import MULTIPLE_POD_TEMPLATES, WORKLOAD_AFFINITY, FeatureGates, Gate
from berthmaster.runtime.logs import fields

IGNORED_GATES: Final = Gauge(
    "berthmaster_scheduler_ignored_gate",
    "1 if a binding uses a feature of Karmada whose gate is off here, by gate.",
    ("gate",),
)
_LOG: Final = logging.getLogger("berthmaster.binding_scheduler")
_USES: Final[dict[Gate, Callable[[BindingSpec], bool]]] = {
    WORKLOAD_AFFINITY: lambda spec: spec.workload_affinity_groups is not None,
    MULTIPLE_POD_TEMPLATES: lambda spec: bool(spec.components),
}
"""Whether a binding has the fields of a gate. Karmada sets these fields only if its own gate is on."""


class IgnoredGates:
    """Reports, once for each gate, that a binding uses a feature of Karmada whose gate is off here."""

    def __init__(self, gates: FeatureGates) -> None:
        self._off = {each for each in _USES if not gates.on(each)}

    def binding_changed(self, key: Key, _before: Binding | None, after: Binding | None) -> None:
        if not self._off or after is None:
            return
        for gate in [each for each in self._off if _USES[each](after.spec)]:
            self._off.discard(gate)
            IGNORED_GATES.labels(gate.name).set(1)
            _LOG.warning(
                "a binding uses a feature whose gate is off here, and it is ignored: set --feature-gates %s=true",
                gate.name,
                extra=fields(binding=object_name(*key)),
            )
