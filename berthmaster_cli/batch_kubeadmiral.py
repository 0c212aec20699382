"""Lines of ``simulate --jsonl`` in KubeAdmiral's terms: a federation, a policy as it is stored, and an object."""

from typing import Final

import msgspec

from berthmaster.model.base import Count
from berthmaster.model.errors import FieldError
from berthmaster.model.federated_cluster import FederatedCluster, as_cluster
from berthmaster.model.kubeadmiral import KubeAdmiralSpec
from berthmaster.model.quantity import Quantity
from berthmaster.scheduling.fleet import fleet_of
from berthmaster.scheduling.kubeadmiral.preparation import Workload, policy_unit
from berthmaster.scheduling.kubeadmiral.profile import profile_of
from berthmaster.scheduling.kubeadmiral.request import placed, request_of
from berthmaster.scheduling.kubeadmiral.unit import GPU
from berthmaster.scheduling.scheduler import Scheduler

_PROFILE: Final = profile_of()


class FederatedWorkload(msgspec.Struct, rename="camel"):
    """The object: what it is, how many replicas of it are wanted, and where it is now.

    Attributes:
        api_version, kind, resource, namespace, name: of the object; ``resource`` is the plural and plays no part.
        replicas: wanted in Divide mode.
        gpu: ``nvidia.com/gpu`` for each replica; None requests none.
        current: replicas by cluster, None where the number is not set.
    """

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    resource: str = ""
    replicas: Count = 0
    gpu: Count | None = None
    current: dict[str, Count | None] = {}


class FederationLine(msgspec.Struct):
    """A federation, the spec of a policy, taken as written, and an object to schedule."""

    clusters: tuple[FederatedCluster, ...]
    policy: KubeAdmiralSpec
    object: FederatedWorkload
    id: str | int | None = None


class FederationResult(msgspec.Struct):
    """Replicas by cluster, None where the mode assigns none; or why nothing was decided."""

    clusters: dict[str, int | None]
    error: str | None


class FederationAnswer(msgspec.Struct):
    """The result of a line."""

    id: str | int | None
    result: FederationResult


def answer_federation(line: FederationLine) -> FederationAnswer:
    """Decide where the object goes.

    Raises:
        FieldError: a cluster has no name, or the name of another.
    """
    try:
        fleet = fleet_of([as_cluster(each) for each in line.clusters])
    except FieldError as problem:
        raise problem.below("clusters") from None
    wanted = line.object
    workload = Workload(
        api_version=wanted.api_version,
        kind=wanted.kind,
        name=wanted.name,
        namespace=wanted.namespace,
        replicas=wanted.replicas,
        requests={GPU: Quantity.parse(wanted.gpu)} if wanted.gpu is not None else {},
        current=wanted.current,
    )
    unit = policy_unit(workload, line.policy)
    decision = Scheduler(fleet, _PROFILE).schedule(request_of(unit))
    error = decision.failure.kind.value if decision.failure is not None else None
    return FederationAnswer(line.id, FederationResult(placed(unit, decision), error))
