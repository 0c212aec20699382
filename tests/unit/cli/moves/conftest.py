"""A small Karmada control plane over HTTP, with bindings that move."""

import json

import pytest
from click.testing import CliRunner
from karmada_plane import DIVIDED, cluster, policy, selector, serve_karmada, store
from kube_over_http import KubeOverHTTP

from berthmaster.model.errors import BerthmasterError
from berthmaster_cli.main import main

LEASE = "/apis/coordination.k8s.io/v1/namespaces/karmada-system/leases/berthmaster-controllers"
CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"


class Plane:
    """A control plane, and the command that runs on it."""

    def __init__(self, folder):
        self.server = KubeOverHTTP()
        self.api = self.server.api
        serve_karmada(self.api)
        self.api.served.add("work.karmada.io/v1alpha1", "Work", "works")
        store(self.api, *(cluster(name, region=name) for name in ("member1", "member2", "member3")))
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(self.server.kubeconfig())

    def lease(self, renewed=None, **annotations):
        """Store the lease; the names of annotations have no prefix, and ``_`` for ``-``."""
        found = {f"policy.berthmaster.io/{name.replace('_', '-')}": value for name, value in annotations.items()}
        self.api.put(
            LEASE,
            {
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"annotations": found},
                "spec": {"renewTime": renewed},
            },
        )  # fmt: skip

    def put(self, name, clusters, move=None, *, scheduler="berthmaster", tolerates=False, **spec):
        metadata = {
            "name": f"{name}-deployment", "namespace": "shop",
            "labels": {"propagationpolicy.karmada.io/permanent-id": "x"},
            "annotations": {} if move is None else {"policy.berthmaster.io/move": json.dumps(move)},
        }  # fmt: skip
        placement = {"clusterAffinity": {}, **DIVIDED}
        if tolerates:
            placement["clusterTolerations"] = [{"operator": "Exists"}]
        resource = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": name}
        store(self.api, {
            "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", "metadata": metadata,
            "spec": {
                "resource": resource, "replicas": sum(clusters.values()), "schedulerName": scheduler,
                "placement": placement,
                "clusters": [{"name": each, "replicas": count} for each, count in clusters.items()], **spec,
            },
        })  # fmt: skip

    def put_policy(self, name, **metadata):
        stored = policy(name, selector())
        store(self.api, {**stored, "metadata": {**stored["metadata"], **metadata}})

    def work(self, name, cluster, kind="Deployment", api_version="apps/v1", **spec):
        """Store the Work of a workload that ``put`` has stored."""
        binding = self.api.get(self.path(name))
        label = {"resourcebinding.karmada.io/permanent-id": f"of-{name}"}
        self.api.edit(self.path(name), metadata={"labels": {**binding["metadata"]["labels"], **label}})
        metadata = {"name": name, "namespace": "shop"}
        manifest = {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}
        store(self.api, {
            "apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
            "metadata": {"name": name, "namespace": f"karmada-es-{cluster}", "labels": label},
            "spec": {"workload": {"manifests": [manifest]}},
        })  # fmt: skip

    def path(self, name):
        return f"/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings/{name}-deployment"

    def run(self, *args, code=0):
        result = CliRunner().invoke(
            main, [args[0], "--kubeconfig", str(self.kubeconfig), *map(str, args[1:])], prog_name="berthmaster"
        )
        if isinstance(result.exception, BerthmasterError) and code == 2:
            return str(result.exception)
        assert result.exit_code == code, result.output + repr(result.exception)
        return result

    def taints(self, name):
        return self.api.get(f"{CLUSTERS}/{name}")["spec"].get("taints") or []


@pytest.fixture
def plane(tmp_path):
    found = Plane(tmp_path)
    yield found
    found.server.close()
