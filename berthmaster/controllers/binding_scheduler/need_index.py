"""Which workloads are in a cluster, so that what they need there stays."""

import threading
from collections.abc import Iterator
from heapq import nsmallest
from typing import Final

from berthmaster.controllers.binding_scheduler.binding_index import discard_from
from berthmaster.deciding.copies import required_clusters
from berthmaster.model.binding import Binding
from berthmaster.model.kinds import group_of, serves_workloads
from berthmaster.model.meta import Key, object_name
from berthmaster.model.move import move_of
from berthmaster.model.template_facts import kind_of

_NEEDING_SHOWN: Final = 4


class NeedIndex:
    """Indexes which workloads are in a cluster, so that what they need there stays. Safe for several threads.

    It holds what runs, or may run: resources of kinds that do not only serve others (``serves_workloads``). A workload
    is in a cluster as long as its binding names the cluster: in the assignment, in an eviction task, because another
    workload requires it there, or because a move under way may start it there.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._there: dict[tuple[str, str], set[str]] = {}

    def changed(self, _key: Key, before: Binding | None, after: Binding | None) -> None:
        """Index the latest version of a binding. It is an event handler: ``before`` was the last ``after``."""
        if before is not None and after is not None and _clusters_named(before) == _clusters_named(after):
            return  # by far most events
        with self._lock:
            for place, name in () if before is None else _presence(before):
                discard_from(self._there, place, name)
            for place, name in () if after is None else _presence(after):
                self._there.setdefault(place, set()).add(name)

    def needing(self, binding: Binding, cluster: str, defines: str) -> tuple[str, ...]:
        """Return the first workloads in a cluster that need a resource there, by name.

        A custom resource needs its CustomResourceDefinition. A workload may need any ConfigMap, Service, Ingress or
        account of its namespace, and any resource without a namespace: manifests do not name all that they need.

        Args:
            defines: the kind that the resource defines, as ``TemplateFacts.defines``.
        """
        resource = binding.spec.resource
        if not defines and not serves_workloads(resource.api_version, resource.kind):
            return ()
        with self._lock:
            found = self._there.get((cluster, defines or resource.namespace), ())
            return tuple(nsmallest(_NEEDING_SHOWN, found))


def _clusters_named(binding: Binding) -> set[str]:
    found = {each.name for each in binding.spec.clusters} | binding.evicted_from | required_clusters(binding)
    if (move := move_of(binding)) is not None and move.under_way:
        found.update((*move.target, *move.home))
    return found


def _presence(binding: Binding) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield what a binding means for ``NeedIndex``: a cluster with a namespace or a kind, and the name."""
    resource = binding.spec.resource
    if serves_workloads(resource.api_version, resource.kind):
        return
    name = object_name(resource.namespace, resource.kind, resource.name)
    topics = {"", resource.namespace, kind_of(resource.kind, group_of(resource.api_version))}
    for cluster in _clusters_named(binding):
        for topic in topics:
            yield (cluster, topic), name
