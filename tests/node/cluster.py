"""The cluster of a node, as the tests see it."""

import json
import sys
from typing import Any, Self

from e2e.assets import binary
from e2e.load import Load
from e2e.manifests import propagation_policy
from node.node import IMAGE, run

UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
IGNORED = {"Event", "Lease", "EndpointSlice", "Endpoints", "PodMetrics", "Node"}


def say(text: str) -> None:
    """Print a figure of the report, which `pytest -s` shows at once."""
    sys.stdout.write(text + "\n")


class Cluster:
    """What the tests ask of the cluster that the chart is installed in.

    ``policies`` is the client of the API server that has the policies, if this is another one.
    """

    def __init__(self, host, node, command, namespace, policies=None, release="berthmaster") -> None:
        self.release = release
        self.host, self.node, self.command, self.api = host, node, command, host.api
        self.namespace = namespace
        self._policies = policies or host.api

    @classmethod
    def beside(cls, host, node, command, target, namespace, secret) -> Self:
        """Return a cluster with the image, the namespaces, and the Secret of the installation that has the policies."""
        made = cls(host, node, command, namespace, target.api)
        made.import_image()
        for api in (host.api, target.api):
            api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        host.api.create(target.secret(secret, namespace))
        return made

    def kubectl(self, *words: str) -> str:
        return run(
            [str(binary("kubectl")), f"--kubeconfig={self.host.kubeconfig}", f"--namespace={self.namespace}", *words]
        )

    def pods(self, component: str = "") -> list[dict[str, Any]]:
        chosen = f"app.kubernetes.io/instance={self.release}"
        chosen += f",app.kubernetes.io/component={component}" if component else ""
        found = json.loads(self.kubectl("get", "pods", "--selector", chosen, "--output=json"))["items"]
        return [each for each in found if "deletionTimestamp" not in each["metadata"]]

    def rolled_out(self) -> None:
        for name in self.kubectl("get", "deployments", "--output=name").split():
            self.kubectl("rollout", "status", name, "--timeout=150s")

    def objects(self) -> set[str]:
        """The kind, namespace and name of all objects, without those that controllers renew all the time."""
        kinds = self.kubectl("api-resources", "--verbs=list", "--output=name").split()
        kinds = [each for each in kinds if not each.startswith(("events", "leases", "endpoints", "nodes"))]
        listed = json.loads(self.kubectl("get", ",".join(kinds), "--all-namespaces", "--output=json"))["items"]
        return {
            f"{each['kind']} {each['metadata'].get('namespace', '')}/{each['metadata']['name']}"
            for each in listed
            if each["kind"] not in IGNORED
        }

    def load(self) -> Load:
        """Two clients that create policies as dry runs, one after the other."""
        return Load(self._policies, lambda: propagation_policy("default"), clients=2)

    def import_image(self) -> None:
        """Load the image as docs/install.md says, under the name that its examples use too."""
        self.command("ctr --namespace k8s.io images import dist/berthmaster-image.tar")
        for name in self.node.ctr("images", "list", "--quiet").split():
            if name.startswith(IMAGE):
                self.node.ctr("images", "tag", "--force", name, name.replace(IMAGE, "registry.example.org/berthmaster"))
