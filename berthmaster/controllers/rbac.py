"""The access rights of each controller, as data. The docs, the chart and the doctor are checked against it.

These are the least rights that work. ``get`` is for objects that are read again before a write. ``list`` and ``watch``
are for informers.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

Scope = Literal["cluster", "lease", "estimators"]
"""Where a rule applies: in the cluster, in the lease's namespace, or in the namespace of the estimators' Services."""
_BINDINGS: Final = ("resourcebindings", "clusterresourcebindings")
_BINDINGS_STATUS: Final = ("resourcebindings/status", "clusterresourcebindings/status")
_POLICIES: Final = ("propagationpolicies", "clusterpropagationpolicies")


class AccessRule(NamedTuple):
    """Verbs on resources of one API group.

    Attributes:
        group: the API group; empty for the core, ``*`` for all.
        named: whether the rule is restricted to the lease by name. ``create`` cannot be restricted.
        optional: whether a process works without the rights, except for their purpose.
    """

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    scope: Scope = "cluster"
    named: bool = False
    optional: bool = False


RUNTIME: Final = (
    AccessRule("coordination.k8s.io", ("leases",), ("create",), "leader election", "lease"),
    AccessRule("coordination.k8s.io", ("leases",), ("get", "update"), "leader election", "lease", named=True),
    AccessRule("events.k8s.io", ("events",), ("create", "patch"), "events and their series"),
)
"""Every process needs these."""

RULES: Final[dict[str, tuple[AccessRule, ...]]] = {
    "binding-scheduler": (
        AccessRule("cluster.karmada.io", ("clusters",), ("list", "watch"), "cluster state"),
        AccessRule("work.karmada.io", _BINDINGS, ("list", "watch", "patch"), "bindings and their assignments"),
        AccessRule("work.karmada.io", _BINDINGS_STATUS, ("patch",), "the result of scheduling"),
        AccessRule("work.karmada.io", ("works",), ("list",), "moves: which copies exist", optional=True),
        AccessRule(
            "policy.karmada.io",
            ("federatedresourcequotas",),
            ("list", "watch"),
            "retries when a quota becomes looser",
            optional=True,
        ),
    ),
    "preemption": (
        AccessRule(
            "policy.karmada.io", _POLICIES, ("get", "list", "watch", "patch"), "claims; clearing priority drops"
        ),
        AccessRule("*", ("*",), ("get", "list", "watch", "patch"), "templates of the kinds that policies select"),
    ),
    "workload-rebalancer": (
        AccessRule(
            "apps.karmada.io", ("workloadrebalancers",), ("get", "list", "watch", "delete"), "requests and their TTL"
        ),
        AccessRule("apps.karmada.io", ("workloadrebalancers/status",), ("patch",), "results"),
        AccessRule("work.karmada.io", _BINDINGS, ("get", "patch"), "spec.rescheduleTriggeredAt"),
    ),
}
"""By controller, in addition to ``RUNTIME``."""

SHADOW: Final = (
    AccessRule("cluster.karmada.io", ("clusters",), ("list", "watch"), "cluster state"),
    AccessRule("work.karmada.io", _BINDINGS, ("list", "watch"), "bindings and their assignments"),
)
"""With ``--shadow``, instead of all others except ``ESTIMATORS``: the process only reads."""
ESTIMATORS: Final = AccessRule("", ("services",), ("get",), "addresses of the estimators", "estimators")
MOVES: Final = (
    AccessRule("policy.karmada.io", _POLICIES, ("list", "watch"), "annotations of policies about moves"),
    AccessRule(
        "apps",
        ("daemonsets", "deployments", "replicasets", "statefulsets"),
        ("get",),
        "whether copies that Karmada has not sent yet have volumes",
        optional=True,
    ),
    AccessRule("batch", ("cronjobs", "jobs"), ("get",), "as for `apps`", optional=True),
    AccessRule("", ("persistentvolumeclaims", "pods"), ("get",), "as for `apps`", optional=True),
)
"""With ``--moves-config``."""


def rules_of(
    controllers: Sequence[str],
    *,
    elects: bool = True,
    estimators: bool = False,
    moves: bool = False,
    shadow: bool = False,
) -> Iterator[AccessRule]:
    """Yield the rules that a process with these controllers needs. With ``shadow`` none of the controllers runs."""
    if shadow:
        yield from SHADOW
        if estimators:
            yield ESTIMATORS
        return
    yield from (rule for rule in RUNTIME if elects or rule.scope != "lease")
    for name in controllers:
        yield from RULES[name]
    if estimators and "binding-scheduler" in controllers:
        yield ESTIMATORS
    if moves and "binding-scheduler" in controllers:
        yield from MOVES
