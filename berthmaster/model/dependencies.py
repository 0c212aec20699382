"""What follows a workload if its policy has ``propagateDeps``: the resources that it needs.

A workload needs ConfigMaps, Secrets, service accounts and PersistentVolumeClaims, as in Karmada
(``resourceinterpreter/default/native/dependencies.go``). Kinds of third parties need what the scripts in karmada
``pkg/resourceinterpreter/default/thirdparty`` say.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from berthmaster.model.decode import decode_json, mapping_of
from berthmaster.model.errors import FieldError
from berthmaster.model.kinds import scope_of
from berthmaster.model.meta import Value, object_name
from berthmaster.model.replicas import BUILT_IN_REPLICA_PATHS, THIRD_PARTY_REPLICA_PATHS, type_of
from berthmaster.model.selector import LabelSelector

DEPENDENCIES: Final = "resourcebinding.karmada.io/dependencies"
"""The annotation of a binding with the dependencies of its workload, as Karmada found them."""
_MAX_DEPENDENCIES: Final = 10_000
_TEMPLATE: Final = ("spec.template",)
_POD_TEMPLATES: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    **{(each.api_version, each.kind): _TEMPLATE for each in (*BUILT_IN_REPLICA_PATHS, *THIRD_PARTY_REPLICA_PATHS)},
    ("apps/v1", "DaemonSet"): _TEMPLATE,
    ("batch/v1", "CronJob"): ("spec.jobTemplate.spec.template",),
    ("v1", "Pod"): ("",),
    ("apps.kruise.io/v1alpha1", "AdvancedCronJob"): (
        "spec.template.jobTemplate.spec.template", "spec.template.broadcastJobTemplate.spec.template",
    ),
    ("apps.kruise.io/v1alpha1", "DaemonSet"): _TEMPLATE,
    ("kubeflow.org/v1", "PyTorchJob"): ("spec.pytorchReplicaSpecs.*.template",),
    ("kubeflow.org/v1", "TFJob"): ("spec.tfReplicaSpecs.*.template",),
    ("ray.io/v1", "RayJob"): (
        "spec.rayClusterSpec.headGroupSpec.template", "spec.rayClusterSpec.workerGroupSpecs.*.template",
        "spec.submitterPodTemplate",
    ),
    ("ray.io/v1", "RayService"): (
        "spec.rayClusterConfig.headGroupSpec.template", "spec.rayClusterConfig.workerGroupSpecs.*.template",
    ),
}  # fmt: skip
"""The paths of the pod templates of each kind; ``*`` stands for all entries of an object or array."""
_SECRETS: Final = "Secret"
_ACCOUNT: Final = "ServiceAccount"
_OF_SOURCE: Final = (_SECRETS, "spec.secretRef.name")
_OF_VERIFICATION: Final = (_SECRETS, "spec.verify.secretRef.name")
_OF_KUBECONFIG: Final = (_SECRETS, "spec.kubeConfig.secretRef.name")
_OF_ACCOUNT: Final = (_ACCOUNT, "spec.serviceAccountName")
_REFERENCES: Final[Mapping[tuple[str, str], tuple[tuple[str, str], ...]]] = {
    ("helm.toolkit.fluxcd.io/v2beta1", "HelmRelease"): (
        (_SECRETS, "spec.chart.spec.verify.secretRef.name"), _OF_KUBECONFIG, _OF_ACCOUNT,
    ),
    ("kustomize.toolkit.fluxcd.io/v1", "Kustomization"): (
        (_SECRETS, "spec.decryption.secretRef.name"), _OF_KUBECONFIG, _OF_ACCOUNT,
    ),
    ("source.toolkit.fluxcd.io/v1", "GitRepository"): (_OF_SOURCE, _OF_VERIFICATION),
    ("source.toolkit.fluxcd.io/v1beta2", "Bucket"): (_OF_SOURCE,),
    ("source.toolkit.fluxcd.io/v1beta2", "HelmChart"): (_OF_VERIFICATION,),
    ("source.toolkit.fluxcd.io/v1beta2", "HelmRepository"): (_OF_SOURCE,),
    ("source.toolkit.fluxcd.io/v1beta2", "OCIRepository"): (
        _OF_SOURCE, _OF_VERIFICATION, (_SECRETS, "spec.certSecretRef.name"), _OF_ACCOUNT,
    ),
    ("argoproj.io/v1alpha1", "Workflow"): (
        (_ACCOUNT, "spec.executor.serviceAccountName"),
        ("PersistentVolumeClaim", "spec.volumeClaimTemplates.*.metadata.name"),
        (_SECRETS, "spec.volumes.*.secret.name"),
    ),
}  # fmt: skip
"""The fields with names of resources that a kind needs: the kind of the resource, and the path of its name."""
_HELM_RELEASE: Final = ("helm.toolkit.fluxcd.io/v2beta1", "HelmRelease")
_WORKFLOW: Final = ("argoproj.io/v1alpha1", "Workflow")
_SERVICE_IMPORT: Final = ("multicluster.x-k8s.io/v1alpha1", "ServiceImport")
_DERIVED: Final = "derived-"
_SECRET_REFERENCES: Final = (
    "cephfs.secretRef", "cinder.secretRef", "flexVolume.secretRef", "rbd.secretRef", "scaleIO.secretRef",
    "iscsi.secretRef", "storageos.secretRef", "csi.nodePublishSecretRef",
)  # fmt: skip


class Dependency(Value, frozen=True):
    """A resource that another one needs, by its name, or all of a kind with some labels."""

    api_version: str
    kind: str
    namespace: str = ""
    name: str = ""
    label_selector: LabelSelector | None = None

    def __str__(self) -> str:
        return object_name(self.namespace, self.kind, self.name or "(by labels)")


class ScriptedDependencies(NamedTuple):
    """What a script says about the dependencies of a resource; None if it failed."""

    found: tuple[Dependency, ...] | None


def recorded_dependencies(annotations: Mapping[str, str]) -> tuple[Dependency, ...] | None:
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
    kind = type_of(raw)
    namespace = str(mapping_of(raw.get("metadata")).get("namespace") or "")
    if kind in _POD_TEMPLATES:
        pods = [mapping_of(each.get("spec")) for path in _POD_TEMPLATES[kind] for each in _objects(raw, path)]
        found = {reference for pod in pods for reference in _needed_by(pod)}
        # Members create the claims of a StatefulSet themselves.
        claims = _objects(raw, "spec.volumeClaimTemplates.*.metadata") if kind[1] == "StatefulSet" else ()
        own = {("PersistentVolumeClaim", each.get("name")) for each in claims}
        return tuple(Dependency("v1", each, namespace, name) for each, name in sorted(found - own))
    if kind in _REFERENCES:
        return tuple(Dependency("v1", each, namespace, name) for each, name in sorted(set(_referenced(raw, kind))))
    if kind == ("networking.k8s.io/v1", "Ingress"):
        secrets = {str(each.get("secretName")) for each in _objects(raw, "spec.tls.*") if each.get("secretName")}
        return tuple(Dependency("v1", "Secret", namespace, name) for name in sorted(secrets))
    if kind == _SERVICE_IMPORT:
        service = f"{_DERIVED}{mapping_of(raw.get('metadata')).get('name')}"
        labels = LabelSelector(match_labels={"kubernetes.io/service-name": service})
        return (
            Dependency("v1", "Service", namespace, service),
            Dependency("discovery.k8s.io/v1", "EndpointSlice", namespace, label_selector=labels),
        )
    return () if scope_of(*kind) is not None else None


def _referenced(raw: Mapping[str, Any], kind: tuple[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the kind and the name of each resource that the fields of a kind of a third party name."""
    for needed, path in _REFERENCES[kind]:
        yield from ((needed, name) for name in _at(raw, path) if isinstance(name, str) and name)
    if kind == _HELM_RELEASE:
        values = list(_objects(raw, "spec.valuesFrom.*"))
        for needed in (_SECRETS, "ConfigMap"):
            yield from _named(needed, (each for each in values if each.get("kind") == needed))
    if kind == _WORKFLOW:
        spec = mapping_of(raw.get("spec"))
        fields = {key: spec[key] for key in ("imagePullSecrets", "serviceAccountName") if key in spec}
        # The script reads the name of a volume's Secret from another field than a pod has.
        volumes = [{key: each[key] for key in each if key != "secret"} for each in _objects(raw, "spec.volumes.*")]
        yield from _needed_by({**fields, "volumes": volumes})


def _needed_by(pod: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the kind and the name of each resource that a pod needs; names may repeat."""
    account = pod.get("serviceAccountName")
    if isinstance(account, str) and account not in {"", "default"}:
        yield "ServiceAccount", account
    yield from _named("Secret", _objects(pod, "imagePullSecrets.*"))
    for containers in ("containers", "initContainers", "ephemeralContainers"):
        for source in _objects(pod, f"{containers}.*.envFrom.*"):
            yield from _named("ConfigMap", [mapping_of(source.get("configMapRef"))])
            yield from _named("Secret", [mapping_of(source.get("secretRef"))])
        for source in _objects(pod, f"{containers}.*.env.*.valueFrom"):
            yield from _named("ConfigMap", [mapping_of(source.get("configMapKeyRef"))])
            yield from _named("Secret", [mapping_of(source.get("secretKeyRef"))])
    for volume in _objects(pod, "volumes.*"):
        yield from _needed_by_volume(volume)


def _needed_by_volume(volume: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield from _named(
        "ConfigMap", [mapping_of(volume.get("configMap")), *_objects(volume, "projected.sources.*.configMap")]
    )
    yield from _named("Secret", _objects(volume, "projected.sources.*.secret"))
    yield from _named("Secret", (each for path in _SECRET_REFERENCES for each in _objects(volume, path)))
    for source in ("secret", "azureFile"):
        yield from _named("Secret", [mapping_of(volume.get(source))], "secretName")
    yield from _named("PersistentVolumeClaim", [mapping_of(volume.get("persistentVolumeClaim"))], "claimName")


def _named(kind: str, references: Iterable[Mapping[str, Any]], field: str = "name") -> Iterator[tuple[str, str]]:
    for each in references:
        name = each.get(field)
        if isinstance(name, str) and name:
            yield kind, name


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
