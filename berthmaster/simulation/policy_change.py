"""A what-if change of a policy: which workloads it claims, keeps and loses, and what their bindings become."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from berthmaster.model.holding import PolicyCatalog
from berthmaster.model.policy import Policy
from berthmaster.simulation.policy_edit import Detector, PolicyEdit
from berthmaster.simulation.workload import SimulatedWorkload
from berthmaster.simulation.world import World


@dataclass(frozen=True, slots=True)
class SetPolicy:
    """A policy is created, or it replaces the policy of its kind, namespace and name.

    Workloads change policies as Karmada's detector decides. A policy keeps the workloads that it still matches. The
    first of the other matching policies claims a workload that loses its policy or has none. A policy with
    ``preemption: Always`` takes the workloads that it names from weaker policies, as with the gate
    ``PropagationPolicyPreemption`` (see ``berthmaster.model.claims``). Under a Lazy policy bindings stay as they are.

    Attributes:
        policy: the policy with its defaults (``policy.defaulted``).
        check: called before each workload; an exception that it raises ends the change.
    """

    policy: Policy
    check: Callable[[], None] = lambda: None

    def applied(self, world: World, now: datetime) -> World:  # noqa: ARG002 - the protocol's signature
        before = next((each for each in world.policies if each.reference == self.policy.reference), None)
        edit = PolicyEdit(before, self.policy)
        policies = edit.applied(world.policies)
        detector = Detector(edit, PolicyCatalog(policies), workload_affinity=world.workload_affinity)
        workloads = [self._detected(detector, each) for each in world.workloads]
        return replace(world, policies=policies, workloads=workloads)

    def _detected(self, detector: Detector, workload: SimulatedWorkload) -> SimulatedWorkload:
        self.check()
        return detector.detected(workload)
