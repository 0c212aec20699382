"""What each controller may do, as data: the page of the docs, the chart and the doctor are checked against it.

The least that works. ``get`` stands where one object is read anew before a write; lists and watches are the informers'.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple

Scope = Literal["cluster", "lease", "estimators"]
"""Where a rule holds: everywhere, in the namespace of the lease, or in that of the estimators' Services."""


class Rule(NamedTuple):
    """Verbs on resources of one API group.

    Attributes:
        group: the API group; empty for the core, ``*`` for all.
        resources: their plural names, subresources among them.
        verbs: what may be done.
        why: what for, in half a line.
        scope: where.
        named: only with the name of the lease; a verb that makes things knows no names.
    """

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    scope: Scope = "cluster"
    named: bool = False

    def as_manifest(self, name: str = "") -> dict[str, Any]:
        """As a Role writes it."""
        rule: dict[str, Any] = {
            "apiGroups": [self.group],
            "resources": list(self.resources),
            "verbs": list(self.verbs),
        }
        return {**rule, "resourceNames": [name]} if self.named and name else rule


_BINDINGS: Final = ("resourcebindings", "clusterresourcebindings")
_BINDINGS_STATUS: Final = ("resourcebindings/status", "clusterresourcebindings/status")
_POLICIES: Final = ("propagationpolicies", "clusterpropagationpolicies")

RUNTIME: Final = (
    Rule("coordination.k8s.io", ("leases",), ("create",), "leader election", "lease"),
    Rule("coordination.k8s.io", ("leases",), ("get", "update"), "leader election", "lease", named=True),
    Rule("events.k8s.io", ("events",), ("create", "patch"), "events and their series"),
)
"""Whatever runs."""

RULES: Final[dict[str, tuple[Rule, ...]]] = {
    "binding-scheduler": (
        Rule("cluster.karmada.io", ("clusters",), ("list", "watch"), "the fleet"),
        Rule("work.karmada.io", _BINDINGS, ("list", "watch", "patch"), "what to schedule, and where it goes"),
        Rule("work.karmada.io", _BINDINGS_STATUS, ("patch",), "what came of it"),
    ),
    "preemption": (
        Rule("policy.karmada.io", _POLICIES, ("get", "list", "watch", "patch"), "claims; clearing priority drops"),
        Rule("*", ("*",), ("get", "list", "watch", "patch"), "templates of the kinds that policies select"),
    ),
    "workload-rebalancer": (
        Rule("apps.karmada.io", ("workloadrebalancers",), ("get", "list", "watch", "delete"), "what to do; its TTL"),
        Rule("apps.karmada.io", ("workloadrebalancers/status",), ("patch",), "what came of it"),
        Rule("work.karmada.io", _BINDINGS, ("get", "patch"), "spec.rescheduleTriggeredAt"),
    ),
}
"""By controller, on top of what the runtime needs."""

ESTIMATORS: Final = Rule("", ("services",), ("get",), "where the estimators are", "estimators")
"""With ``--enable-scheduler-estimator``."""


def rules_of(controllers: Sequence[str], *, elects: bool = True, estimators: bool = False) -> Iterator[Rule]:
    """All that a process with some controllers may do.

    Args:
        controllers: their names.
        elects: whether it stands for election.
        estimators: whether the binding scheduler asks estimators.
    """
    yield from (rule for rule in RUNTIME if elects or rule.scope != "lease")
    for name in controllers:
        yield from RULES[name]
    if estimators and "binding-scheduler" in controllers:
        yield ESTIMATORS
