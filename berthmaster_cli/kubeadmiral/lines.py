"""Lines of ``simulate --jsonl`` with a federation, a policy and an object, in the types of KubeAdmiral."""

import msgspec

from berthmaster.model.decode import decode_json
from berthmaster.model.kubeadmiral.clusters import FederatedCluster, as_cluster
from berthmaster.model.kubeadmiral.policies import KubeAdmiralSpec
from berthmaster.model.meta import Count
from berthmaster.model.quantity import Quantity
from berthmaster.scheduling.kubeadmiral.preparation import UnitWorkload, policy_unit
from berthmaster.scheduling.kubeadmiral.profile import kubeadmiral_profile
from berthmaster.scheduling.kubeadmiral.unit import GPU, placed, request_of
from berthmaster.scheduling.profile import Profile
from berthmaster.scheduling.scheduler import Scheduler
from berthmaster_cli.batch import LineID, checked_fleet, failure_of


class ObjectToSchedule(msgspec.Struct, rename="camel"):
    """An object of a federation."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    resource: str = ""
    replicas: Count = 0  # those desired in Divide mode
    gpu: Count | None = None  # nvidia.com/gpu of each replica
    current: dict[str, Count | None] = {}  # by cluster; None where the number is not set


class FederationLine(msgspec.Struct):
    """The clusters of a federation, the spec of a policy without further defaults, and an object to schedule."""

    clusters: tuple[FederatedCluster, ...]
    policy: KubeAdmiralSpec
    object: ObjectToSchedule
    id: LineID = None


class FederationResult(msgspec.Struct):
    """The decision on the object: replicas by cluster, None where the mode assigns no numbers, or an error."""

    clusters: dict[str, int | None]
    error: str | None
    message: str | msgspec.UnsetType = msgspec.UNSET


class BatchFederationAnswer(msgspec.Struct):
    """The result of a line."""

    id: LineID
    result: FederationResult


def answer_federation(line: bytes, profile: Profile) -> BatchFederationAnswer:
    """Answer a line with a federation."""
    parsed = decode_json(FederationLine, line)
    fleet, wanted = checked_fleet([as_cluster(each) for each in parsed.clusters]), parsed.object
    workload = UnitWorkload(
        api_version=wanted.api_version,
        kind=wanted.kind,
        name=wanted.name,
        namespace=wanted.namespace,
        replicas=wanted.replicas,
        requests={GPU: Quantity.parse(wanted.gpu)} if wanted.gpu is not None else {},
        current=wanted.current,
    )
    unit = policy_unit(workload, parsed.policy)
    decision = Scheduler(fleet, kubeadmiral_profile(limits=profile.limits)).schedule(request_of(unit))
    return BatchFederationAnswer(parsed.id, FederationResult(placed(unit, decision), *failure_of(decision)))
