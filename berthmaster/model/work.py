"""Karmada's Works (``work.karmada.io/v1alpha1``): the copies of a workload, one for each member cluster. And quotas.

A binding with an entry for a cluster says what is wanted there. The Work says what Karmada has asked the member for,
whether it is being deleted, and what the member reported last.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from berthmaster.model.binding import AggregatedStatusItem, Binding
from berthmaster.model.cluster import Condition, condition_of
from berthmaster.model.decode import mapping_of
from berthmaster.model.meta import ObjectMeta, Value, int64_of
from berthmaster.model.quantity import Quantity
from berthmaster.model.template_facts import TemplateFacts, facts_of

SPACE: Final = "karmada-es-"
"""How the namespace of the Works of a cluster starts."""
PERMANENT_ID: Final[Mapping[str, str]] = {
    "ResourceBinding": "resourcebinding.karmada.io/permanent-id",
    "ClusterResourceBinding": "clusterresourcebinding.karmada.io/permanent-id",
}
"""The label of a binding that its Works repeat, by kind of binding."""
TEMPLATE_GENERATION: Final = "resourcetemplate.karmada.io/generation"
"""The annotation of the manifest in a Work with the generation of its template."""
DEFAULT_GRACE_S: Final = 30
"""The ``terminationGracePeriodSeconds`` of a pod that states none."""
MAX_GRACE_S: Final = 86400
_REPLICAS: Final = ("replicas", "parallelism")


class _Manifest(Value, frozen=True):
    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Any = None


class _Manifests(Value, frozen=True):
    manifests: tuple[_Manifest, ...] = ()


class _WorkSpec(Value, frozen=True):
    workload: _Manifests = _Manifests()
    preserve_resources_on_deletion: bool | None = None


class _ManifestStatus(Value, frozen=True):
    status: Any = None
    health: str = ""


class WorkStatus(Value, frozen=True):
    conditions: tuple[Condition, ...] = ()
    manifest_statuses: tuple[_ManifestStatus, ...] = ()


class KarmadaWork(Value, frozen=True):
    """A Work, as far as moves read it. A Work of a binding holds one manifest."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _WorkSpec = _WorkSpec()
    status: WorkStatus = WorkStatus()


class CopyOfWorkload(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The copy of a workload in one cluster, by its Work.

    Attributes:
        deleting: whether Karmada is deleting it. The member may run it as long as the Work exists.
        replicas: the replicas that the Work asks the member for; None for a kind without replicas.
        generation: the generation of the template that the Work carries; 0 if the Work does not say.
        item: what Karmada reports of it in the status of a binding, computed from the Work.
        preserved: whether the member keeps it when its Work is deleted.
        facts: what its manifest says.
        unreported: whether Karmada has applied it, and has not seen it in the member since. It looks for what it
            deletes in its cache of the member (karmada ``objectWatcherImpl.Delete``), and does not delete this copy.
    """

    deleting: bool
    replicas: int | None
    generation: int
    grace_s: int
    item: AggregatedStatusItem
    preserved: bool = False
    facts: TemplateFacts = TemplateFacts()
    unreported: bool = False


class Copies(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The copies of one workload by cluster, read from the Works of its binding, also those that are being deleted.

    Attributes:
        problem: why they could not be read; empty if they were.
        needed: the workloads that need this resource, by the cluster where they are.
        quotas: the quotas of its namespace.
        template: what the template of the workload says; None unless it was read because Karmada has written no Work.
        template_problem: why it could not be read; empty if it was, or need not be.
    """

    by_cluster: dict[str, CopyOfWorkload] = {}
    problem: str = ""
    needed: dict[str, tuple[str, ...]] = {}
    quotas: tuple["FederatedResourceQuota", ...] = ()
    template: TemplateFacts | None = None
    template_problem: str = ""

    @property
    def deleting(self) -> frozenset[str]:
        return frozenset(name for name, copy in self.by_cluster.items() if copy.deleting)

    @property
    def replicas(self) -> dict[str, int]:
        """The replicas of the copies that stay, by cluster."""
        return {name: copy.replicas or 0 for name, copy in self.by_cluster.items() if not copy.deleting}

    def alive(self, cluster: str) -> bool:
        copy = self.by_cluster.get(cluster)
        return copy is not None and not copy.deleting


def work_selector(binding: Binding) -> str:
    key = PERMANENT_ID[binding.kind]
    value = binding.metadata.labels.get(key, "")
    return f"{key}={value}" if value else ""


def binding_id(content: Binding | KarmadaWork) -> str:
    """Return the permanent id of a binding, which its Works repeat; empty if Karmada has set none."""
    labels = content.metadata.labels
    return next((labels[key] for key in PERMANENT_ID.values() if key in labels), "")


def copies_of(works: Iterable[KarmadaWork]) -> Copies:
    return Copies({_cluster_of(work): _copy_of(work) for work in works if work.metadata.namespace.startswith(SPACE)})


def _cluster_of(work: KarmadaWork) -> str:
    return work.metadata.namespace.removeprefix(SPACE)


def _copy_of(work: KarmadaWork) -> CopyOfWorkload:
    manifest = next(iter(work.spec.workload.manifests), _Manifest())
    spec = mapping_of(manifest.spec)
    item = _item_of(work)
    replicas = next((each for name in _REPLICAS if (each := _count(spec.get(name))) is not None), None)
    return CopyOfWorkload(
        work.metadata.deletion_timestamp is not None,
        replicas,
        int64_of(manifest.metadata.annotations.get(TEMPLATE_GENERATION, "")) or 0,
        _grace_s(spec),
        item,
        bool(work.spec.preserve_resources_on_deletion),
        facts_of(
            {
                "apiVersion": manifest.api_version,
                "kind": manifest.kind,
                "metadata": {"name": manifest.metadata.name, "labels": manifest.metadata.labels},
                "spec": spec,
            }
        ),
        item.applied and not work.status.manifest_statuses,
    )


def _item_of(work: KarmadaWork) -> AggregatedStatusItem:
    """Return the entry of a Work in ``status.aggregatedStatus`` (karmada ``assembleWorkStatus``)."""
    cluster = _cluster_of(work)
    applied = condition_of(work.status.conditions, "Applied")
    if applied is None or applied.status != "True":
        return AggregatedStatusItem(cluster, applied_message=applied.message if applied is not None else "")
    reported = next(iter(work.status.manifest_statuses), _ManifestStatus(health="Unknown"))
    return AggregatedStatusItem(cluster, reported.status, applied=True, health=reported.health)


def _grace_s(spec: Mapping[str, Any]) -> int:
    template = spec.get("template")
    pod = template.get("spec") if isinstance(template, Mapping) else None
    found = _count(pod.get("terminationGracePeriodSeconds")) if isinstance(pod, Mapping) else None
    return DEFAULT_GRACE_S if found is None else min(found, MAX_GRACE_S)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


# Karmada's FederatedResourceQuota (``policy.karmada.io/v1alpha1``), reduced to what schedulers look at.


class FederatedResourceQuotaSpec(Value, frozen=True):
    overall: dict[str, Quantity] | None = None


class FederatedResourceQuotaStatus(Value, frozen=True):
    overall_used: dict[str, Quantity] | None = None


class FederatedResourceQuota(Value, frozen=True):
    """A quota. karmada-webhook refuses assignments above it."""

    metadata: ObjectMeta
    spec: FederatedResourceQuotaSpec = FederatedResourceQuotaSpec()
    status: FederatedResourceQuotaStatus = FederatedResourceQuotaStatus()


def is_looser(before: FederatedResourceQuota, after: FederatedResourceQuota | None) -> bool:
    """Whether an assignment may pass after a change of a quota that did not pass before it."""
    if after is None:
        return True
    old, new = before.spec.overall or {}, after.spec.overall or {}
    if any(name not in new or new[name].nanos > limit.nanos for name, limit in old.items()):
        return True
    used, use = before.status.overall_used or {}, after.status.overall_used or {}
    return any(name not in use or use[name].nanos < amount.nanos for name, amount in used.items())
