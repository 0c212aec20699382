"""Names of kinds as people write them: ``deploy``, ``deployments``, ``Deployment``, ``deployment.apps``.

The built-in table holds what API discovery returns for Kubernetes, Karmada and KubeAdmiral. It serves commands that
read files only.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

# By group: kind, plural and short names, separated by semicolons.
_BUILT_IN: Final = {
    "": """
        Pod pods po; ConfigMap configmaps cm; Secret secrets; Service services svc; ServiceAccount serviceaccounts sa;
        PersistentVolumeClaim persistentvolumeclaims pvc; PersistentVolume persistentvolumes pv;
        Namespace namespaces ns; Node nodes no; ReplicationController replicationcontrollers rc;
        ResourceQuota resourcequotas quota; LimitRange limitranges limits; Endpoints endpoints ep""",
    "apps": """
        Deployment deployments deploy; StatefulSet statefulsets sts; DaemonSet daemonsets ds;
        ReplicaSet replicasets rs; ControllerRevision controllerrevisions""",
    "batch": "Job jobs; CronJob cronjobs cj",
    "autoscaling": "HorizontalPodAutoscaler horizontalpodautoscalers hpa",
    "networking.k8s.io": "Ingress ingresses ing; NetworkPolicy networkpolicies netpol; IngressClass ingressclasses",
    "policy": "PodDisruptionBudget poddisruptionbudgets pdb",
    "rbac.authorization.k8s.io": """
        Role roles; RoleBinding rolebindings; ClusterRole clusterroles; ClusterRoleBinding clusterrolebindings""",
    "scheduling.k8s.io": "PriorityClass priorityclasses pc",
    "storage.k8s.io": "StorageClass storageclasses sc",
    "apiextensions.k8s.io": "CustomResourceDefinition customresourcedefinitions crd crds",
    "cluster.karmada.io": "Cluster clusters",
    "policy.karmada.io": """
        PropagationPolicy propagationpolicies pp; ClusterPropagationPolicy clusterpropagationpolicies cpp;
        OverridePolicy overridepolicies op; ClusterOverridePolicy clusteroverridepolicies cop;
        FederatedResourceQuota federatedresourcequotas""",
    "work.karmada.io": """
        ResourceBinding resourcebindings rb; ClusterResourceBinding clusterresourcebindings crb; Work works wk""",
    "apps.karmada.io": "WorkloadRebalancer workloadrebalancers",
    "config.karmada.io": "ResourceInterpreterCustomization resourceinterpretercustomizations ric",
    "core.kubeadmiral.io": """
        FederatedCluster federatedclusters fcluster; FederatedObject federatedobjects fo;
        ClusterFederatedObject clusterfederatedobjects cfo; SchedulingProfile schedulingprofiles sp""",
}
_VERSION: Final = re.compile(r"v\d+(?:(?:alpha|beta)\d+)?")


class KindNames(NamedTuple):
    """The names of a kind.

    Attributes:
        group: the API group; empty for the core group.
        plural: the plural as in paths of the API.
    """

    group: str
    kind: str
    plural: str
    short_names: tuple[str, ...] = ()

    def matches(self, text: str) -> bool:
        """Return whether a text means this kind: ``NAME``, ``NAME.GROUP`` or ``NAME.VERSION.GROUP``, in any case."""
        name, dot, group = text.lower().partition(".")
        if name not in {self.kind.lower(), self.plural, *self.short_names}:
            return False
        version, _, rest = group.partition(".")
        return not dot or group == self.group or (rest == self.group and _VERSION.fullmatch(version) is not None)


def guessed_names(group: str, kind: str) -> KindNames:
    """Return the names of a kind that is not known, with a guessed plural.

    The guess follows apimachinery ``meta.UnsafeGuessKindToResource``.
    """
    singular = kind.lower()
    if singular.endswith("s"):
        return KindNames(group, kind, f"{singular}es")
    if singular.endswith("y"):
        return KindNames(group, kind, f"{singular.removesuffix('y')}ies")
    return KindNames(group, kind, f"{singular}s")


def resolve(text: str, known: Iterable[KindNames]) -> KindNames | None:
    """Return the first kind that a text means; None if there is none."""
    return next((names for names in known if names.matches(text)), None)


def _parsed(group: str, text: str) -> Iterable[KindNames]:
    for entry in text.split(";"):
        kind, plural, *short_names = entry.split()
        yield KindNames(group, kind, plural, tuple(short_names))


BUILT_IN_NAMES: Final = tuple(names for group, text in _BUILT_IN.items() for names in _parsed(group, text))
"""The kinds that are known without discovery. Kinds of Kubernetes come first."""
