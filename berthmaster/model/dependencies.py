"""The resources that a workload needs, and that follow it if its policy has ``propagateDeps``.

Kinds are interpreted as by Karmada (``resourceinterpreter/default/native/dependencies.go``, and the third-party kinds
with one or more pod templates). A pod needs ConfigMaps, Secrets, its service account and PersistentVolumeClaims.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from berthmaster.model.decode import decode_json
from berthmaster.model.errors import FieldError
from berthmaster.model.kinds import scope_of
from berthmaster.model.meta import Value
from berthmaster.model.selector import LabelSelector

DEPENDENCIES: Final = "resourcebinding.karmada.io/dependencies"
"""The annotation of a binding with the dependencies of its workload, as Karmada found them."""
_MAX_DEPENDENCIES: Final = 10_000


class Dependency(Value, frozen=True):
    """A resource that a workload needs, or all resources of a kind that a selector matches."""

    api_version: str
    kind: str
    namespace: str = ""
    name: str = ""
    label_selector: LabelSelector | None = None

    def __str__(self) -> str:
        return "/".join(filter(None, (self.namespace, self.kind, self.name or "(by labels)")))


_TEMPLATE: Final = ("spec.template",)
_POD_TEMPLATES: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("apps/v1", "Deployment"): _TEMPLATE,
    ("apps/v1", "ReplicaSet"): _TEMPLATE,
    ("apps/v1", "StatefulSet"): _TEMPLATE,
    ("apps/v1", "DaemonSet"): _TEMPLATE,
    ("batch/v1", "Job"): _TEMPLATE,
    ("batch/v1", "CronJob"): ("spec.jobTemplate.spec.template",),
    ("v1", "Pod"): ("",),
    ("apps.kruise.io/v1alpha1", "AdvancedCronJob"): (
        "spec.template.jobTemplate.spec.template", "spec.template.broadcastJobTemplate.spec.template",
    ),
    ("apps.kruise.io/v1alpha1", "BroadcastJob"): _TEMPLATE,
    ("apps.kruise.io/v1alpha1", "CloneSet"): _TEMPLATE,
    ("apps.kruise.io/v1alpha1", "DaemonSet"): _TEMPLATE,
    ("apps.kruise.io/v1alpha1", "UnitedDeployment"): _TEMPLATE,
    ("apps.kruise.io/v1beta1", "StatefulSet"): _TEMPLATE,
    ("kubeflow.org/v1", "PyTorchJob"): ("spec.pytorchReplicaSpecs.*.template",),
    ("kubeflow.org/v1", "TFJob"): ("spec.tfReplicaSpecs.*.template",),
    ("ray.io/v1", "RayJob"): (
        "spec.rayClusterSpec.headGroupSpec.template", "spec.rayClusterSpec.workerGroupSpecs.*.template",
    ),
    ("ray.io/v1", "RayService"): (
        "spec.rayClusterConfig.headGroupSpec.template", "spec.rayClusterConfig.workerGroupSpecs.*.template",
    ),
}  # fmt: skip
"""The paths of the pod templates of each kind; ``*`` stands for all entries of an object or array."""
_SERVICE_IMPORT: Final = ("multicluster.x-k8s.io/v1alpha1", "ServiceImport")
_DERIVED: Final = "derived-"
_SECRET_REFERENCES: Final = (
    "cephfs.secretRef", "cinder.secretRef", "flexVolume.secretRef", "rbd.secretRef", "scaleIO.secretRef",
    "iscsi.secretRef", "storageos.secretRef", "csi.nodePublishSecretRef",
)  # fmt: skip


def recorded_dependencies(annotations: Mapping[str, str]) -> tuple[Dependency, ...] | None:
    """Return the dependencies that Karmada recorded on a binding; None without a readable record."""
    text = annotations.get(DEPENDENCIES)
    if text in {None, "", "null"}:
        return None if text is None else ()  # Go writes an absent list as null
    try:
        return decode_json(tuple[Dependency, ...], text)[:_MAX_DEPENDENCIES]
    except FieldError:
        return None


def dependencies_of(raw: Mapping[str, Any]) -> tuple[Dependency, ...] | None:
    """Return the dependencies of a resource, sorted; None for a kind whose dependencies are not known.

    Karmada knows no dependencies of the other kinds of Kubernetes, such as ConfigMaps.

    Fields of the wrong type count as absent: the API server rejects them.
    """
    kind = str(raw.get("apiVersion")), str(raw.get("kind"))
    namespace = str(_object(raw.get("metadata")).get("namespace") or "")
    if kind in _POD_TEMPLATES:
        pods = [_object(each.get("spec")) for path in _POD_TEMPLATES[kind] for each in _objects(raw, path)]
        found = {reference for pod in pods for reference in _needed_by(pod)}
        own = {("PersistentVolumeClaim", name) for name in _claim_templates(raw)} if kind[1] == "StatefulSet" else set()
        return tuple(Dependency("v1", each, namespace, name) for each, name in sorted(found - own))
    if kind == ("networking.k8s.io/v1", "Ingress"):
        secrets = {str(each.get("secretName")) for each in _objects(raw, "spec.tls.*") if each.get("secretName")}
        return tuple(Dependency("v1", "Secret", namespace, name) for name in sorted(secrets))
    if kind == _SERVICE_IMPORT:
        service = f"{_DERIVED}{_object(raw.get('metadata')).get('name')}"
        labels = LabelSelector(match_labels={"kubernetes.io/service-name": service})
        return (
            Dependency("v1", "Service", namespace, service),
            Dependency("discovery.k8s.io/v1", "EndpointSlice", namespace, label_selector=labels),
        )
    return () if scope_of(*kind) is not None else None


def _needed_by(pod: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the kind and the name of each resource that a pod needs; names may repeat."""
    account = pod.get("serviceAccountName")
    if isinstance(account, str) and account not in {"", "default"}:
        yield "ServiceAccount", account
    yield from _named("Secret", _objects(pod, "imagePullSecrets.*"))
    for containers in ("containers", "initContainers", "ephemeralContainers"):
        for source in _objects(pod, f"{containers}.*.envFrom.*"):
            yield from _named("ConfigMap", [_object(source.get("configMapRef"))])
            yield from _named("Secret", [_object(source.get("secretRef"))])
        for source in _objects(pod, f"{containers}.*.env.*.valueFrom"):
            yield from _named("ConfigMap", [_object(source.get("configMapKeyRef"))])
            yield from _named("Secret", [_object(source.get("secretKeyRef"))])
    for volume in _objects(pod, "volumes.*"):
        yield from _needed_by_volume(volume)


def _needed_by_volume(volume: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield from _named(
        "ConfigMap", [_object(volume.get("configMap")), *_objects(volume, "projected.sources.*.configMap")]
    )
    yield from _named("Secret", _objects(volume, "projected.sources.*.secret"))
    yield from _named("Secret", (each for path in _SECRET_REFERENCES for each in _objects(volume, path)))
    for source in ("secret", "azureFile"):
        yield from _named("Secret", [_object(volume.get(source))], "secretName")
    yield from _named("PersistentVolumeClaim", [_object(volume.get("persistentVolumeClaim"))], "claimName")


def _named(kind: str, references: Iterable[Mapping[str, Any]], field: str = "name") -> Iterator[tuple[str, str]]:
    for each in references:
        name = each.get(field)
        if isinstance(name, str) and name:
            yield kind, name


def _claim_templates(raw: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the volume claim templates of a StatefulSet. Members create their claims themselves."""
    for template in _objects(raw, "spec.volumeClaimTemplates.*.metadata"):
        if isinstance(name := template.get("name"), str):
            yield name


def _objects(raw: Mapping[str, Any], path: str) -> Iterator[Mapping[str, Any]]:
    return (each for each in _at(raw, path) if isinstance(each, Mapping))


def _at(raw: object, path: str) -> list[Any]:
    """Return the values at a path. A ``*`` stands for all entries; absent values are left out."""
    values = [raw]
    for step in filter(None, path.split(".")):
        entries: list[Any] = []
        for value in values:
            if isinstance(value, Mapping):
                entries.extend(value.values() if step == "*" else [value.get(step)])
            elif isinstance(value, list) and step == "*":
                entries.extend(value)
        values = [entry for entry in entries if entry is not None]
    return values


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
