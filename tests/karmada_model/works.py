"""Karmada's binding controllers: from an assignment to Works (karmada-moves.md, "From the binding to the Works").

Of overrides, plaintext ones that replace a field are modelled. Not modelled: divided completions of Jobs.
"""

from collections.abc import Iterable, Iterator
from functools import partial, reduce
from typing import Final

from karmada_model import bindings
from karmada_model.agenda import Agenda
from karmada_model.objects import Ident, News, Objects, ident
from kube_store import JSON, copied

WORK_VERSION: Final = "work.karmada.io/v1alpha1"
EXECUTION: Final = "karmada.io/execution-controller"
SPACE: Final = "karmada-es-"
TEMPLATE_GENERATION: Final = "resourcetemplate.karmada.io/generation"
CONFLICT_RESOLUTION: Final = "work.karmada.io/conflict-resolution"
DIRECTLY: Final = ("Directly", "Immediately")
"""The purge mode that deletes a copy at once, and its name in Karmada before 1.15."""
WAIT_FOR_PURGE_S: Final = 5.0
FIRST_RETRY_S: Final = 1.0
LONGEST_RETRY_S: Final = 115.0
"""How long Karmada waits at most before it writes a Work again that is being deleted (60 to 115 s seen)."""
_REPLICA_FIELD: Final = {
    "Deployment": "replicas", "StatefulSet": "replicas", "ReplicaSet": "replicas", "Job": "parallelism"
}  # fmt: skip
_LABELS_OF_JOBS: Final = frozenset(
    f"{prefix}{name}" for prefix in ("", "batch.kubernetes.io/") for name in ("controller-uid", "job-name")
)
"""The labels that Kubernetes writes to the pods of a Job, which name the Job of one API server."""
_PRUNED: Final = (
    "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences", "finalizers"
)  # fmt: skip


class WorkIndex:
    """The Works by their binding. It implements ``Controller``, and never queues anything."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._works: dict[str, dict[Ident, None]] = {}

    def observe(self, news: News) -> None:
        if news.latest["kind"] != "Work":
            return
        known = self._works.setdefault(binding_id(news.latest), {})
        if news.after is None:
            known.pop(ident(news.latest), None)
        else:
            known[ident(news.latest)] = None

    def of(self, binding: JSON) -> Iterator[JSON]:
        for which in list(self._works.get(binding_id(binding), ())):
            work = self._objects.get(which)
            if work is not None:
                yield work


class BindingController:
    """It implements ``Controller``, for bindings of both scopes."""

    def __init__(self, objects: Objects, agenda: Agenda, works: WorkIndex) -> None:
        self._objects = objects
        self._agenda = agenda
        self._works = works
        self._retries_s: dict[Ident, float] = {}

    def observe(self, news: News) -> None:
        before, after = news
        if news.latest["kind"] == "OverridePolicy":  # karmada binding_controller.go newOverridePolicyFunc
            for each in self._objects.all("ResourceBinding"):
                if each["metadata"]["namespace"] == news.latest["metadata"]["namespace"]:
                    self._queue(ident(each))
            return
        if after is None or after["kind"] not in bindings.PERMANENT_ID:
            return
        if before is None or before["metadata"]["generation"] != after["metadata"]["generation"]:
            self._queue(ident(after))

    def _queue(self, which: Ident, after_s: float = 0.0) -> None:
        if after_s:
            self._agenda.add_after(after_s, "bindings", which, partial(self._binding, which))
        else:
            self._agenda.add("bindings", which, partial(self._binding, which))

    def _binding(self, which: Ident) -> None:
        binding = self._objects.get(which)
        if binding is None:
            return
        works = list(self._works.of(binding))
        if "deletionTimestamp" in binding["metadata"]:
            for each in works:
                self._objects.delete(ident(each))
            self._objects.change(which, _remove_finalizer)
            return
        kept = kept_clusters(binding)
        for each in works:
            if cluster_of(each) not in kept:
                self._objects.delete(ident(each))
        purged = purged_clusters(binding)
        if any(cluster_of(each) in purged for each in self._works.of(binding)):
            self._queue(which, WAIT_FOR_PURGE_S)
            return
        template = self._objects.get(ident(binding["spec"]["resource"]))
        if template is None:
            return
        targets, overrides = target_clusters(binding), list(self._overrides_of(template))
        wanted = [_overridden(work_of(binding, template, name, count), overrides) for name, count in targets.items()]
        written = [self._ensure(each) for each in wanted]
        if all(written):
            self._retries_s.pop(which, None)
        else:  # "work ... is being deleted"
            retry_s = self._retries_s[which] = min(2 * self._retries_s.get(which, FIRST_RETRY_S / 2), LONGEST_RETRY_S)
            self._queue(which, retry_s)

    def _overrides_of(self, template: JSON) -> Iterator[JSON]:
        namespace, name = (template["metadata"].get(field, "") for field in ("namespace", "name"))
        for each in self._objects.all("OverridePolicy"):
            selected = {(selector["kind"], selector.get("name")) for selector in each["spec"]["resourceSelectors"]}
            if each["metadata"]["namespace"] == namespace and (template["kind"], name) in selected:
                yield each

    def _ensure(self, wanted: JSON) -> bool:
        """Create or update a Work. A Work that is being deleted must be gone first. Return whether that worked."""
        found = self._objects.get(ident(wanted))
        if found is None:
            cluster = self._objects.get(Ident("cluster.karmada.io/v1alpha1", "Cluster", "", cluster_of(wanted)))
            if cluster is not None and "deletionTimestamp" not in cluster["metadata"]:
                self._objects.create(wanted)
        elif "deletionTimestamp" in found["metadata"]:
            return False
        else:
            self._objects.change(ident(wanted), lambda work: work.update(spec=wanted["spec"]))
        return True


def binding_id(content: JSON) -> str:
    """Return the label that connects a binding and its Works; empty without."""
    labels = content["metadata"].get("labels", {})
    return next((str(labels[key]) for key in bindings.PERMANENT_ID.values() if key in labels), "")


def cluster_of(work: JSON) -> str:
    return str(work["metadata"]["namespace"]).removeprefix(SPACE)


def target_clusters(binding: JSON) -> dict[str, int]:
    """Return the clusters that get a Work, with their replicas: the assignment first, then what requires it."""
    spec = binding["spec"]
    targets = {each["name"]: each.get("replicas", 0) for each in spec.get("clusters") or ()}
    for snapshot in spec.get("requiredBy") or ():
        for each in snapshot.get("clusters") or ():
            targets.setdefault(each["name"], each.get("replicas", 0))
    return targets


def kept_clusters(binding: JSON) -> set[str]:
    tasks = binding["spec"].get("gracefulEvictionTasks") or ()
    return {
        *target_clusters(binding),
        *(each["fromCluster"] for each in tasks if each.get("purgeMode") not in DIRECTLY),
    }


def purged_clusters(binding: JSON) -> set[str]:
    """Return the clusters whose Works must be gone before any other Work of the binding is written."""
    tasks = binding["spec"].get("gracefulEvictionTasks") or ()
    return {each["fromCluster"] for each in tasks if each.get("purgeMode") in DIRECTLY}


def work_of(binding: JSON, template: JSON, cluster: str, replicas: int) -> JSON:
    spec, metadata = binding["spec"], binding["metadata"]
    namespace = template["metadata"].get("namespace", "")
    name = ".".join(filter(None, (namespace, template["metadata"]["name"], template["kind"]))).lower().replace(":", ".")
    prefix = binding["kind"].lower()
    annotations = {f"{prefix}.karmada.io/name": metadata["name"]}
    if namespace:
        annotations[f"{prefix}.karmada.io/namespace"] = namespace
    work: JSON = {
        "apiVersion": WORK_VERSION,
        "kind": "Work",
        "metadata": {
            "name": name,
            "namespace": f"{SPACE}{cluster}",
            "labels": {bindings.PERMANENT_ID[binding["kind"]]: binding_id(binding)},
            "annotations": annotations,
            "finalizers": [EXECUTION],
        },
        "spec": {"workload": {"manifests": [_manifest(binding, template, replicas)]}},
    }
    if _is_suspended(spec.get("suspension") or {}, cluster):
        work["spec"]["suspendDispatching"] = True
    if spec.get("preserveResourcesOnDeletion"):
        work["spec"]["preserveResourcesOnDeletion"] = True
    if spec.get("conflictResolution") == "Overwrite":
        annotations = work["spec"]["workload"]["manifests"][0]["metadata"].setdefault("annotations", {})
        annotations[CONFLICT_RESOLUTION] = "overwrite"
    return work


def _overridden(work: JSON, overrides: Iterable[JSON]) -> JSON:
    """Return a Work whose manifest has what overrides set, after its replicas (karmada ``overridemanager``)."""
    cluster = cluster_of(work)
    (manifest,) = work["spec"]["workload"]["manifests"]
    for rule in (rule for policy in overrides for rule in policy["spec"]["overrideRules"]):
        if cluster in rule["targetCluster"]["clusterNames"]:
            for each in rule["overriders"]["plaintext"]:
                *path, field = (int(part) if part.isdecimal() else part for part in each["path"].split("/")[1:])
                reduce(lambda node, part: node[part], path, manifest)[field] = each["value"]
    return work


def _manifest(binding: JSON, template: JSON, replicas: int) -> JSON:
    manifest: JSON = copied({key: value for key, value in template.items() if key != "status"})
    manifest["metadata"] = {key: value for key, value in manifest["metadata"].items() if key not in _PRUNED}
    generation = str(template["metadata"].get("generation", 1))
    manifest["metadata"].setdefault("annotations", {})[TEMPLATE_GENERATION] = generation
    if template["kind"] == "Job":
        manifest["spec"].pop("selector", None)
        labels = manifest["spec"]["template"].get("metadata", {}).get("labels", {})
        for name in _LABELS_OF_JOBS.intersection(labels):
            del labels[name]
    field = _REPLICA_FIELD.get(template["kind"])
    is_workload = binding["spec"].get("replicas", 0) > 0 or binding["spec"].get("replicaRequirements") is not None
    if field is not None and is_workload:
        manifest["spec"][field] = replicas
    return manifest


def _is_suspended(suspension: JSON, cluster: str) -> bool:
    on_clusters = suspension.get("dispatchingOnClusters") or {}
    return bool(suspension.get("dispatching")) or cluster in (on_clusters.get("clusterNames") or ())


def _remove_finalizer(binding: JSON) -> None:
    own = bindings.FINALIZER[binding["kind"]]
    binding["metadata"]["finalizers"] = [each for each in binding["metadata"].get("finalizers", ()) if each != own]
