"""The clusters and workloads of a simulation."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

import msgspec
from msgspec.structs import replace

from berthmaster.deciding.config import DEFAULT_MOVES, MovesConfig
from berthmaster.deciding.rules import SchedulerRules, rules_of
from berthmaster.manifests import Manifests
from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.dependencies import Dependency
from berthmaster.model.errors import ManifestError
from berthmaster.model.gaps import Gap, GapKind
from berthmaster.model.holding import PolicyCatalog
from berthmaster.model.interpretation import Interpreter
from berthmaster.model.overrides import OverridePolicy, replica_overrides
from berthmaster.model.policy import Policy
from berthmaster.model.prerequisites import NOTHING_KNOWN, Existence
from berthmaster.model.replicas import ReplicaPath
from berthmaster.model.taint_policy import ClusterTaintPolicy
from berthmaster.scheduling.peers import Peers
from berthmaster.scheduling.request import Request
from berthmaster.simulation.detector import Detector, PolicyEdit, WorkloadBuilder, with_claims
from berthmaster.simulation.not_scheduled import SCHEDULERS
from berthmaster.simulation.overriding import all_overridden
from berthmaster.simulation.plan_answer import ALL_OFF, Assumptions
from berthmaster.simulation.workload import ResourceName, SimulatedWorkload


class World(msgspec.Struct, frozen=True):
    """Clusters, workloads and policies.

    Attributes:
        workload_affinity: whether Karmada's gate ``WorkloadAffinity`` is on.
        schedulers: the names of the schedulers that are simulated; bindings of others stay as they are.
        existing: whether the objects exist that policies wait for.
        overrides: the overrides that set replicas. Workloads have what they set (``overriding``).
        moves: the configuration of moves that Berthmaster's controllers use, as far as it is known.
        lazy_counts: whether changes count what may happen later: what Lazy policies put off, as if all templates
            changed at once, and claims of policies that do not select the template any more, as if they ended.
        unclaimed: returns resources that a dependency means and that ``workloads`` may leave out: no policy selects
            them, and they have no binding.
    """

    clusters: Mapping[str, Cluster]
    workloads: Sequence[SimulatedWorkload]
    policies: Sequence[Policy] = ()
    workload_affinity: bool = False
    schedulers: frozenset[str] = SCHEDULERS
    existing: Existence = NOTHING_KNOWN
    assumptions: Assumptions = ALL_OFF
    lost: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()
    taint_policies: tuple[ClusterTaintPolicy, ...] = ()
    unclaimed: Callable[[Dependency], Iterable[SimulatedWorkload]] = lambda _: ()
    lazy_counts: bool = False
    overrides: tuple[OverridePolicy, ...] = ()
    moves: MovesConfig = DEFAULT_MOVES

    def detector(self, edit: PolicyEdit, catalog: PolicyCatalog, existing: Existence | None = None) -> Detector:
        """Return what applies an edit of a policy to workloads, with the gates and switches of the world."""
        return Detector(
            edit,
            catalog,
            workload_affinity=self.workload_affinity,
            existing=self.existing if existing is None else existing,
            preempts=self.assumptions.preempts,
            lazy_counts=self.lazy_counts,
        )

    def rules_of(self, binding: Binding) -> SchedulerRules:
        """Return the rules of the scheduler that a binding names."""
        return rules_of(binding, self.assumptions.scheduler)

    def find(self, name: ResourceName) -> list[SimulatedWorkload]:
        return [workload for workload in self.workloads if name.matches(workload.resource)]

    def with_workload(self, before: SimulatedWorkload, after: SimulatedWorkload) -> "World":
        """Return the world with one of its workloads replaced."""
        return replace(self, workloads=[after if each is before else each for each in self.workloads])

    @property
    def has_bindings(self) -> bool:
        """Whether bindings of a control plane are known. Without any, manifests are scheduled for the first time."""
        return any(workload.present for workload in self.workloads)


def is_observed(manifests: Manifests, world: World) -> bool:
    """Return whether it is known what clusters run: bindings exist, or a control plane without any was read."""
    return manifests.read_at is not None or world.has_bindings


def file_gaps(manifests: Manifests, world: World) -> list[Gap]:
    """Return what files of manifests do not say about a fleet.

    Files without workloads are no fleet without workloads. A dump of a control plane is complete.
    """
    if is_observed(manifests, world):
        return []
    return [Gap(GapKind.NO_BINDINGS if world.workloads else GapKind.NO_WORKLOADS)]


def peers_of(world: World) -> Peers:
    """Return where the workloads of affinity groups are, for decisions that may change it."""
    peers = Peers()
    for workload in world.workloads:
        binding = workload.binding
        if binding is not None and binding.spec.workload_affinity_groups is not None:
            peers.place(Request.of(binding), [target.name for target in binding.spec.clusters])
    return peers


class Change(Protocol):
    """A change to a world."""

    def applied(self, world: World, now: datetime) -> World:
        """Return the world after the change.

        Args:
            now: the time of the change; it is later than every scheduling in the world.

        Raises:
            InputError: the change names a cluster or resource that does not exist.
        """


def world_of(
    manifests: Manifests,
    replica_paths: Sequence[ReplicaPath] = (),
    *,
    workload_affinity: bool = False,
    interpreter: Interpreter | None = None,
    schedulers: Iterable[str] = SCHEDULERS,
    assumptions: Assumptions = ALL_OFF,
    moves: MovesConfig = DEFAULT_MOVES,
) -> World:
    """Build the world that manifests describe: each resource, the policies that match it, and its binding.

    The control plane's present counts: the policy that a resource or its binding records holds the resource, and a
    binding keeps its replicas, requirements, assignment and eviction tasks. ``detector.WorkloadBuilder`` has the rules.
    A binding whose resource is not among the manifests becomes a workload without a template. So does one whose stored
    resource is invalid, which is recorded as a gap. Policies of files over a control plane take effect after that, one
    after the other, as Karmada's detector decides (``detector``).

    Args:
        replica_paths: the fields where custom resources keep their replicas. They precede all other interpreters.

    Raises:
        ManifestError: a field of a resource of a file that affects decisions is invalid.
        InputError: the manifests describe a fleet of another control plane.
    """
    manifests.require_karmada()
    builder = WorkloadBuilder(
        manifests, replica_paths, interpreter, workload_affinity=workload_affinity, preempts=assumptions.preempts
    )
    workloads = []
    for document in manifests.templates:
        try:
            workloads.append(builder.of_template(document))
        except ManifestError as error:
            manifests.leave_out(document, error)
    workloads += builder.of_remaining_bindings()
    clusters = {cluster.name: cluster for cluster in manifests.clusters}
    overrides = replica_overrides(each.document.raw for each in manifests.ignored)
    world = World(
        clusters,
        all_overridden(workloads, overrides, clusters),
        tuple(manifests.policies),
        workload_affinity,
        frozenset(schedulers) | {assumptions.scheduler},
        existing=manifests.existing,
        assumptions=assumptions,
        taint_policies=tuple(manifests.taint_policies),
        overrides=overrides,
        moves=moves,
    )
    return _after_edits(world, manifests) if manifests.policy_edits else world


def _after_edits(world: World, manifests: Manifests) -> World:
    """Return a world after the edits of policies, one after the other, with all policies that match workloads then."""
    policies, workloads = tuple(manifests.stored_policies), world.workloads
    for before, after in manifests.policy_edits:
        edit = PolicyEdit(before, after)
        policies = edit.applied(policies)
        detector = world.detector(edit, PolicyCatalog(policies))
        workloads = [detector.detected(each) for each in workloads]
    catalog = PolicyCatalog(policies)
    edited = [with_claims(then, now, catalog) for then, now in zip(world.workloads, workloads, strict=True)]
    return replace(world, workloads=edited)
