"""Scheduler estimators of scenarios: the one that the environment names, or one in memory that knows two nodes."""

import os
from typing import Any, Final, NamedTuple

import grpc
from estimator_messages import parsed, proto
from estimator_server import SERVICE
from kube_store import JSON

from berthmaster.controllers.settings import EstimatorSettings
from berthmaster.model.quantity import Quantity

NAMED: Final = os.environ.get("ACCEPTANCE_ESTIMATOR", "")
"""``CLUSTER=HOST:PORT``: the member that an estimator serves, and the address of that estimator, without TLS."""
NODES_CPU_MILLI: Final = (2500, 3500)
"""The nodes of the estimator in memory."""
_LIMIT_S: Final = 10.0


class NamedEstimator(NamedTuple):
    """An estimator and the member cluster that it serves.

    Attributes:
        cluster: the cluster.
        host, port: its address.
    """

    cluster: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "NamedEstimator":
        cluster, _, address = text.partition("=")
        host, _, port = address.rpartition(":")
        assert cluster, f"ACCEPTANCE_ESTIMATOR is {text!r}; accepted is CLUSTER=HOST:PORT"
        assert host, f"ACCEPTANCE_ESTIMATOR is {text!r}; accepted is CLUSTER=HOST:PORT"
        assert port.isdecimal(), f"ACCEPTANCE_ESTIMATOR is {text!r}; the port must be a number"
        return cls(cluster, host, int(port))

    def service(self, namespace: str) -> JSON:
        """Return the Service through which the controllers find it."""
        settings = EstimatorSettings()
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": settings.service(self.cluster), "namespace": namespace},
            "spec": {
                "type": "ExternalName",
                "externalName": self.host,
                "ports": [{"port": settings.port, "targetPort": self.port}],
            },
        }

    def replicas(self, cpu: str, **node_selector: str) -> int:
        needs = proto(
            "ReplicaRequirements",
            nodeClaim=proto("NodeClaim", nodeSelector=node_selector),
            **amounts(cpu),
        )
        asked = proto("MaxAvailableReplicasRequest", cluster=self.cluster, replicaRequirements=needs)
        return int(self._call("MaxAvailableReplicas", asked).maxReplicas)

    def sets(self, cpu: dict[str, str]) -> int:
        components = [
            proto(
                "Component",
                name=name,
                replicas=1,
                replicaRequirements=proto("ComponentReplicaRequirements", **amounts(each)),
            )
            for name, each in cpu.items()
        ]
        asked = proto("MaxAvailableComponentSetsRequest", cluster=self.cluster, components=components)
        return int(self._call("MaxAvailableComponentSets", asked).maxSets)

    def _call(self, method: str, request: Any) -> Any:
        with grpc.insecure_channel(f"{self.host}:{self.port}") as channel:
            call = channel.unary_unary(f"/{SERVICE}/{method}")
            return parsed(f"{method}Response", call(request.SerializeToString(), timeout=_LIMIT_S))


def amounts(cpu: str) -> JSON:
    """Return the fields for what a replica needs: that of Karmada up to 1.18, and that of 1.18 and newer."""
    amount = proto("Quantity", string=cpu)
    return {"resourceRequest": {"cpu": amount}, "resourceRequestBytes": {"cpu": amount.SerializeToString()}}


def fits_on_nodes(request: Any) -> int:
    """Answer as an estimator of a cluster with two empty nodes without labels."""
    if hasattr(request, "components"):
        return _sets(sorted((_cpu_milli(each.replicaRequirements) for each in request.components), reverse=True))
    needs = request.replicaRequirements
    if needs.nodeClaim.nodeSelector:
        return 0
    return sum(node // _cpu_milli(needs) for node in NODES_CPU_MILLI)


def _sets(needs: list[int]) -> int:
    """Return how many whole sets fit, the largest replica of a set first."""
    free, sets = list(NODES_CPU_MILLI), 0
    while True:
        for need in needs:
            node = next((at for at, each in enumerate(free) if each >= need), None)
            if node is None:
                return sets
            free[node] -= need
        sets += 1


def _cpu_milli(needs: Any) -> int:
    return Quantity.parse(parsed("Quantity", needs.resourceRequestBytes["cpu"]).string).milli_value()
