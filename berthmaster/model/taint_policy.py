"""Karmada's ClusterTaintPolicy (``policy.karmada.io/v1alpha1``): taints that follow the conditions of clusters."""

from collections.abc import Iterable, Sequence
from typing import Final

from berthmaster.model.affinity import AffinityTerm, ClusterAffinity
from berthmaster.model.cluster import Cluster, Condition
from berthmaster.model.meta import ObjectMeta, Value, with_spec
from berthmaster.model.taint import Taint

TAINT_POLICY_API: Final = "policy.karmada.io/v1alpha1"
TAINT_POLICY: Final = "ClusterTaintPolicy"


class MatchCondition(Value, frozen=True):
    """A requirement on the status of a condition. A cluster without the condition does not meet it."""

    condition_type: str = ""
    operator: str = ""
    status_values: tuple[str, ...] = ()

    def meets(self, conditions: Iterable[Condition]) -> bool:
        found = [each.status in self.status_values for each in conditions if each.type == self.condition_type]
        match self.operator:
            case "In":
                return any(found)
            case "NotIn":
                return bool(found) and not found[-1]
            case _:
                return False


class TaintPolicySpec(Value, frozen=True):
    """The clusters, the conditions, and the taints. Conditions are a conjunction; none mean "never"."""

    target_clusters: ClusterAffinity | None = None
    add_on_conditions: tuple[MatchCondition, ...] = ()
    remove_on_conditions: tuple[MatchCondition, ...] = ()
    taints: tuple[Taint, ...] = ()


class ClusterTaintPolicy(Value, frozen=True):
    spec: TaintPolicySpec = TaintPolicySpec()
    metadata: ObjectMeta = ObjectMeta()
    api_version: str = TAINT_POLICY_API
    kind: str = TAINT_POLICY

    def tainted(self, cluster: Cluster) -> Cluster:
        """Return a cluster with the taints that its conditions bring (``clustertaintpolicy_controller.go``)."""
        spec, taints, conditions = self.spec, cluster.spec.taints, cluster.status.conditions
        if spec.target_clusters is not None and not AffinityTerm(spec.target_clusters).matches(cluster):
            return cluster
        if _all_met(spec.add_on_conditions, conditions):
            known = {(each.key, each.effect) for each in taints}
            taints = (*taints, *(each for each in spec.taints if (each.key, each.effect) not in known))
        if _all_met(spec.remove_on_conditions, conditions):
            removed = {(each.key, each.effect) for each in spec.taints}
            taints = tuple(each for each in taints if (each.key, each.effect) not in removed)
        return with_spec(cluster, taints=taints)


def oldest_first(policies: Iterable[ClusterTaintPolicy]) -> tuple[ClusterTaintPolicy, ...]:
    """Return policies in the order in which Karmada applies them: the oldest first."""

    def created_s(policy: ClusterTaintPolicy) -> float:
        created = policy.metadata.creation_timestamp
        return created.timestamp() if created is not None else float("inf")

    return tuple(sorted(policies, key=created_s))


def _all_met(wanted: Sequence[MatchCondition], conditions: Sequence[Condition]) -> bool:
    return bool(wanted) and all(each.meets(conditions) for each in wanted)
