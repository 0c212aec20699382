"""What scenarios have in common: manifests, and what they look at."""

from collections.abc import Iterable
from typing import Any

import karmada_plane
from acceptance.planes import OWN_TAINT, Plane
from decisions import DYNAMIC
from e2e.karmada import assigned, condition
from karmada_model.detector import binding_of
from karmada_model.objects import ident
from kube_store import JSON


class Scene:
    """A scenario's clusters and workloads on a control plane.

    Attributes:
        plane: the control plane.
    """

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self._made: list[JSON] = []

    def name(self, short: str) -> str:
        return f"{self.plane.prefix}{short}"

    def make(self, manifest: JSON) -> JSON:
        """Create an object. The scene removes it in the end."""
        self.plane.apply(manifest)
        self._made.append(manifest)
        return manifest

    def remove(self, manifest: JSON) -> None:
        """Delete an object before the end."""
        self.plane.delete(manifest)
        self._made.remove(manifest)

    def clear(self) -> None:
        """Delete workloads, then policies, then clusters. Karmada removes clusters without Works by itself."""
        order = {"Cluster": 2, "PropagationPolicy": 1, "ClusterPropagationPolicy": 1}
        for rank in range(3):
            leaving = [each for each in self._made if order.get(each["kind"], 0) == rank]
            for each in leaving:
                self.plane.delete(each)
            for each in leaving if rank < order["Cluster"] else ():
                what = f"{each['kind']} {each['metadata']['name']} is gone"
                self.plane.wait(what, lambda each=each: self.plane.get(ident(each)) is None)
        self.plane.wait("no Work is left", lambda: not any(map(self._is_own, self.plane.all("Work"))))

    def _is_own(self, work: JSON) -> bool:
        return str(work["metadata"]["namespace"]).startswith(f"karmada-es-{self.plane.prefix}")

    def cluster(
        self, short: str, cpu: int = 100, *, spec: JSON | None = None, taints: Iterable[JSON] = (), **labels: str
    ) -> JSON:
        made = karmada_plane.cluster(self.name(short), cpu, suite=self.plane.prefix.strip("-"), **labels)
        tainted = [{"key": OWN_TAINT, "effect": "NoSchedule"}, *taints]
        made["spec"] = {"syncMode": "Pull", "taints": tainted, **(spec or {})}
        made["status"]["kubernetesVersion"] = "v1.36.3"
        made["status"]["conditions"][0] |= {"reason": "ClusterReady", "message": "played"}
        return self.make(made)

    def deployment(self, name: str = "web", replicas: int = 4, cpu: str = "1", **pod: Any) -> JSON:
        made = karmada_plane.new_deployment(name, replicas, namespace=self.plane.namespace)
        made["spec"]["template"]["spec"] |= pod
        made["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
        return self.make(made)

    def placement(self, *shorts: str, strategy: JSON | None = None, **fields: Any) -> JSON:
        """Return a placement on clusters, or without clusters on what ``fields`` says."""
        affinity = {"clusterAffinity": {"clusterNames": [self.name(each) for each in shorts]}} if shorts else {}
        tolerations = [{"key": OWN_TAINT, "operator": "Exists"}]
        return {**affinity, "clusterTolerations": tolerations, "replicaScheduling": strategy or DYNAMIC, **fields}

    def groups(self, **groups: list[str]) -> list[JSON]:
        return [
            {"affinityName": name, "clusterNames": [self.name(each) for each in shorts]}
            for name, shorts in groups.items()
        ]

    def policy(
        self,
        name: str,
        placement: JSON,
        *selectors: JSON,
        wide: bool = False,
        annotations: dict[str, str] | None = None,
        **spec: Any,
    ) -> JSON:
        """Create a policy for the Deployment ``web``, or for what the selectors select.

        ``wide`` makes it a ClusterPropagationPolicy.
        """
        chosen = list(selectors) or [self.selector("web")]
        where = {} if wide else {"namespace": self.plane.namespace}
        return self.make(
            {
                "apiVersion": "policy.karmada.io/v1alpha1",
                "kind": "ClusterPropagationPolicy" if wide else "PropagationPolicy",
                "metadata": {"name": self.name(name) if wide else name, **where, "annotations": annotations or {}},
                "spec": {
                    "resourceSelectors": chosen,
                    "placement": placement,
                    "schedulerName": self.plane.scheduler,
                    **spec,
                },
            }
        )

    def selector(self, name: str = "", kind: str = "Deployment", api_version: str = "apps/v1", **fields: Any) -> JSON:
        named = {"name": name} if name else {}
        return {"apiVersion": api_version, "kind": kind, "namespace": self.plane.namespace, **named, **fields}

    def running(self, on: Iterable[str] = (), **assignment: int) -> tuple[JSON, JSON]:
        """Create clusters, a Deployment and its policy, and wait until it runs as said. Return it and the policy.

        ``on`` names the clusters of the placement, where it has others too.
        """
        for short in assignment:
            self.cluster(short)
        web = self.deployment(replicas=sum(assignment.values()))
        policy = self.policy("web", self.placement(*(on or assignment)))
        self.expect(web, assignment)
        return web, policy

    # What scenarios look at

    def binding(self, template: JSON) -> JSON:
        return self.plane.get(binding_of(template)) or {}

    def assignment(self, template: JSON) -> dict[str, int]:
        found = assigned({"spec": {}, **self.binding(template)})
        return {name.removeprefix(self.plane.prefix): replicas for name, replicas in found.items()}

    def scheduled(self, template: JSON) -> JSON:
        return condition(self.binding(template))

    def works(self, template: JSON) -> dict[str, int]:
        found = {}
        for work in self.plane.all("Work"):
            space, manifests = work["metadata"]["namespace"], work["spec"]["workload"]["manifests"]
            if manifests and ident(manifests[0]) == ident(template):
                short = space.removeprefix("karmada-es-").removeprefix(self.plane.prefix)
                found[short] = (manifests[0].get("spec") or {}).get("replicas", 0)
        return found

    def healthy(self, template: JSON) -> dict[str, int]:
        """Return the replicas that really are healthy, by short name of the cluster."""
        found = self.plane.members.healthy(template)
        return {name.removeprefix(self.plane.prefix): count for name, count in found.items()}

    def reported(self, template: JSON) -> dict[str, str]:
        items = self.binding(template).get("status", {}).get("aggregatedStatus") or ()
        return {each["clusterName"].removeprefix(self.plane.prefix): each.get("health", "") for each in items}

    def holder(self, template: JSON) -> str:
        found = self.plane.get(ident(template)) or {"metadata": {}}
        annotations = found["metadata"].get("annotations", {})
        for kind in ("propagationpolicy", "clusterpropagationpolicy"):
            if name := annotations.get(f"{kind}.karmada.io/name"):
                return str(name).removeprefix(self.plane.prefix)
        return ""

    def expect(self, template: JSON, assignment: dict[str, int]) -> None:
        what = f"{template['metadata']['name']} runs as {assignment}"
        self.plane.wait(what, lambda: self.assignment(template) == assignment or None)
        self.plane.wait(f"Works: {what}", lambda: self.works(template) == assignment)
        running = {name: count for name, count in assignment.items() if count}
        self.plane.wait(f"pods: {what}", lambda: self.healthy(template) == running)
        self.plane.wait(f"reported: {what}", lambda: self.reported(template) == dict.fromkeys(assignment, "Healthy"))
