"""KubeAdmiral's policies and their defaults (``core.kubeadmiral.io/v1alpha1``).

Enumerations are decoded as text, and decoding sets no defaults: the scheduler takes a policy as the API server stores
it, and validation reports every invalid value, not only the first.

Some values are documented as defaults although the CRD does not set them. An API server stores the policy without
them, and KubeAdmiral's scheduler reads "never" or "no" in their place. Code that replaces an API server therefore sets
the defaults of the CRD only. Code that completes a policy for its author also sets the documented ones. Both work
on the decoded document, because the typed policy does not always distinguish an absent field from a zero one.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from berthmaster.model.meta import Int64, ObjectMeta, Value
from berthmaster.model.selector import SelectorRequirement
from berthmaster.model.taint import Toleration

_SPEC: Final[Mapping[str, Any]] = {
    "replicasStrategy": "Spread",
    "reschedulePolicy": {
        "rescheduleWhen": {
            "policyContentChanged": True,
            "clusterJoined": False,
            "clusterLabelsChanged": False,
            "clusterAPIResourcesChanged": False,
        },
        "replicaRescheduling": {"avoidDisruption": True},
    },
}
_AUTO_MIGRATION: Final[Mapping[str, Any]] = {"when": {"podUnschedulableFor": "1m"}, "keepUnschedulableReplicas": False}
_DOCUMENTED: Final[Mapping[str, Any]] = {
    **_SPEC,
    "reschedulePolicy": {"disableRescheduling": False, **_SPEC["reschedulePolicy"]},
}


class ClusterSelectorTerm(Value, frozen=True):
    match_expressions: tuple[SelectorRequirement, ...] = ()
    match_fields: tuple[SelectorRequirement, ...] = ()


class Preferences(Value, frozen=True):
    min_replicas: Int64 | None = None
    max_replicas: Int64 | None = None
    weight: Int64 | None = None
    priority: Int64 | None = None


class DesiredPlacement(Value, frozen=True):
    cluster: str = ""
    preferences: Preferences = Preferences()


class MigrationTrigger(Value, frozen=True):
    pod_unschedulable_for: str = ""


class AutoMigration(Value, frozen=True):
    when: MigrationTrigger | None = None
    keep_unschedulable_replicas: bool = False


class RescheduleWhen(Value, frozen=True):
    """The changes that trigger rescheduling. The scheduler reads None as false; the CRD sets the first to true."""

    policy_content_changed: bool | None = None
    cluster_joined: bool | None = None
    cluster_labels_changed: bool | None = None
    cluster_api_resources_changed: bool | None = msgspec.field(default=None, name="clusterAPIResourcesChanged")


class ReplicaRescheduling(Value, frozen=True):
    avoid_disruption: bool | None = None


class ReschedulePolicy(Value, frozen=True):
    disable_rescheduling: bool = False
    reschedule_when: RescheduleWhen | None = None
    replica_rescheduling: ReplicaRescheduling | None = None


class KubeAdmiralSpec(Value, frozen=True):
    scheduling_profile: str = ""
    scheduling_mode: str = ""
    replicas_strategy: str = ""
    cluster_selector: dict[str, str] = {}
    cluster_affinity: tuple[ClusterSelectorTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    max_clusters: Int64 | None = None
    placement: tuple[DesiredPlacement, ...] = ()
    disable_follower_scheduling: bool = False
    auto_migration: AutoMigration | None = None
    reschedule_policy: ReschedulePolicy | None = None


class KubeAdmiralPolicy(Value, frozen=True):
    """A PropagationPolicy, for objects of its namespace, or a ClusterPropagationPolicy."""

    spec: KubeAdmiralSpec
    metadata: ObjectMeta = ObjectMeta()
    api_version: str = "core.kubeadmiral.io/v1alpha1"
    kind: str = "PropagationPolicy"


class Default(NamedTuple):
    """The default of a field, or of a whole object, that the spec of a policy lacks. The path starts below ``spec``."""

    path: tuple[str, ...]
    value: Any


def missing_defaults(spec: Mapping[str, Any], *, documented: bool = False) -> Iterator[Default]:
    """Yield the defaults that the spec of a policy lacks. A null counts as absent.

    Automatic migration has defaults only if the spec enables it.

    Args:
        documented: whether to include defaults that the CRD does not set: ``disableRescheduling``, and
            ``rescheduleWhen`` of a ``reschedulePolicy`` without one.
    """
    for default in _missing(_DOCUMENTED if documented else _SPEC, spec, ()):
        if documented or default.path != ("reschedulePolicy", "rescheduleWhen"):
            yield default
    if isinstance(migration := spec.get("autoMigration"), Mapping):
        yield from _missing(_AUTO_MIGRATION, migration, ("autoMigration",))


def defaulted_spec(spec: Mapping[str, Any], *, documented: bool = False) -> dict[str, Any]:
    """Return a copy of the spec of a policy with its defaults; see ``missing_defaults``."""
    completed = _copied(spec)
    for path, value in missing_defaults(spec, documented=documented):
        holder = completed
        for name in path[:-1]:
            holder = holder[name]
        holder[path[-1]] = value
    return completed


def _missing(defaults: Mapping[str, Any], given: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[Default]:
    for name, value in defaults.items():
        present = given.get(name)
        # A client without the default of the field writes an empty string.
        if present is None or (present == "" and isinstance(value, str)):
            yield Default((*path, name), _copied(value) if isinstance(value, Mapping) else value)
        elif isinstance(value, Mapping) and isinstance(present, Mapping):
            yield from _missing(value, present, (*path, name))


def _copied(given: Mapping[str, Any]) -> dict[str, Any]:
    """Copy an object and the objects in it; other values are shared."""
    return {key: _copied(value) if isinstance(value, Mapping) else value for key, value in given.items()}
