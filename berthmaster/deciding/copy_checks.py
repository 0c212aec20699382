"""Three questions about a workload and a cluster: can a copy start there, and may the copy that is there go?

Each has one function, which returns the cause as a value. The third question, whether a copy exists there, is answered
by the Works (``Copies``), and by ``remains``: some copies run on without a Work. Pure functions of the binding and of
what was read. docs/moves-copies.md lists the causes.
"""

from collections.abc import Container, Iterable, Mapping
from typing import Final

import msgspec.structs

from berthmaster.deciding.move_settings import MoveSettings
from berthmaster.deciding.quotas import why_no_quota
from berthmaster.model.binding import AggregatedStatusItem, Binding
from berthmaster.model.errors import name_list
from berthmaster.model.move import VOLUMES, MoveState, MoveStrategy, VolumeLoss
from berthmaster.model.move_refusal import Cause, MoveRefusal
from berthmaster.model.template_facts import CLAIM, JOB, TemplateFacts
from berthmaster.model.work import Copies

UNREAD: Final = Copies()
"""No Works were read. Only what the binding says counts."""
_NAMED: Final = 3
_NEVER: Final = "Never"


def cannot_start(binding: Binding, cluster: str, replicas: int, copies: Copies) -> MoveRefusal | None:
    """Return why a copy with so many replicas cannot start in a cluster, or grow to them; None if it can."""
    if not binding.dispatches_to(cluster):
        return MoveRefusal(Cause.SUSPENDED, f"dispatching to {cluster} is suspended", (cluster,))
    facts, there = _facts(copies), copies.by_cluster.get(cluster)
    if facts.paused and there is None:
        field = "suspended" if binding.spec.resource.kind == JOB else "paused"
        return MoveRefusal(Cause.TEMPLATE_PAUSED, f"the {binding.spec.resource.kind} is {field}, so no pod would start")
    if binding.spec.resource.kind == JOB and (refusal := _repeated_job(binding, copies)) is not None:
        return refusal
    if facts.retained and there is not None and not there.deleting and there.item.ready_replicas < replicas:
        has = there.item.ready_replicas
        why = f"{cluster} decides its replicas itself (retain-replicas), and has {has} of {replicas}"
        return MoveRefusal(Cause.REPLICAS_RETAINED, why, (cluster,))
    return None


def must_stay(
    binding: Binding, cluster: str, copies: Copies, settings: MoveSettings, *, lost: bool = False
) -> MoveRefusal | None:
    """Return why the copy in a cluster must not be removed by a move; None if it may.

    Whether the other copies are healthy is another question (``copies.py``).

    Args:
        lost: whether a failover gives the cluster up. A suspension does not keep its copy, which may not run.
    """
    copy = copies.by_cluster.get(cluster)
    if copy is not None and copy.deleting:
        return None  # nothing keeps it, for example when its Cluster is deleted
    if not lost and not binding.dispatches_to(cluster) and (copy is None or copy.item.applied):
        why = f"dispatching to {cluster} is suspended, and Karmada would still delete the copy there"
        return MoveRefusal(Cause.SUSPENDED, why, (cluster,))
    if (data := _lost_data(binding, cluster, copies, settings)) is not None:
        return data
    if needing := copies.needed.get(cluster):
        return MoveRefusal(Cause.NEEDED, f"{name_list(needing, _NAMED)} on {cluster} needs it", (cluster,))
    return None


def remains(binding: Binding, cluster: str, copies: Copies) -> MoveRefusal | None:
    """Return why a copy would still run in a cluster after its Work is gone; None if it would not."""
    if binding.application_failover.purge_mode == _NEVER:
        why = "purgeMode Never of failover.application keeps the old copy, and the workload must not run twice"
        return MoveRefusal(Cause.KEEPS_OLD_COPY, why)
    if is_preserved(binding, cluster, copies):
        why = f"preserveResourcesOnDeletion keeps the copy on {cluster}, and the workload must not run twice"
        return MoveRefusal(Cause.KEEPS_OLD_COPY, why)
    return None


def is_preserved(binding: Binding, cluster: str, copies: Copies) -> bool:
    """Whether a member keeps the copy when its Work is deleted. Karmada does not manage the copy from then on."""
    copy = copies.by_cluster.get(cluster)
    return bool(binding.spec.preserve_resources_on_deletion) or (copy is not None and copy.preserved)


def blocked_start(binding: Binding, clusters: Mapping[str, int], copies: Copies) -> MoveRefusal | None:
    """Return why a copy cannot start in one of some clusters, with their replicas; None if all can."""
    found = (cannot_start(binding, name, replicas, copies) for name, replicas in sorted(clusters.items()))
    return next((each for each in found if each is not None), None)


def blocked_removal(
    binding: Binding,
    state: MoveState,
    clusters: Iterable[str],
    copies: Copies,
    settings: MoveSettings,
    given_up: Container[str] = (),
) -> MoveRefusal | None:
    """Return why the copy in one of some clusters must stay; None if all may go.

    Args:
        given_up: the clusters whose copies count as lost.
    """
    breaks = state.strategy is MoveStrategy.BREAK_BEFORE_MAKE
    for name in sorted(clusters):
        lost = name in given_up
        if (refusal := must_stay(binding, name, copies, settings, lost=lost)) is not None:
            return refusal
        if breaks and not lost and (kept := remains(binding, name, copies)) is not None:
            return kept
    return None


def unseen_copy(clusters: Iterable[str], copies: Copies, unready: Container[str] = ()) -> MoveRefusal | None:
    """Return that Karmada has not seen the copy in one of some clusters yet, so that it must not go; None if it has.

    Args:
        unready: the clusters that are not ready. They report nothing, so their copies do not count.
    """
    for name in sorted(clusters):
        if name not in unready and (copy := copies.by_cluster.get(name)) is not None and copy.unreported:
            why = f"Karmada has not reported the copy on {name} yet, and would leave it there"
            return MoveRefusal(Cause.UNREPORTED, why, (name,))
    return None


def blocked_move(binding: Binding, state: MoveState, copies: Copies, settings: MoveSettings) -> MoveRefusal | None:
    """Return why a move cannot begin, as far as its copies say; None if it can.

    With MakeBeforeBreak a resource that others still need may begin to move. Its old copy waits for them.
    """
    wanted = {name: state.target[name] for name in state.arriving}
    if (refusal := blocked_start(binding, wanted, copies)) is not None:
        return refusal
    if problem := copies.template_problem:
        return MoveRefusal(Cause.WORKS_UNREAD, problem, (problem,))
    if (refusal := why_no_quota(binding, state, copies.quotas)) is not None:
        return refusal
    breaks = state.strategy is MoveStrategy.BREAK_BEFORE_MAKE
    if breaks and (refusal := unseen_copy(state.leaving, copies)) is not None:
        return refusal
    needed = copies.needed if breaks else {}
    known = msgspec.structs.replace(copies, needed=needed)
    return blocked_removal(binding, state, state.leaving, known, settings)


def blocked_failover(
    binding: Binding, lost: Iterable[str], clusters: Mapping[str, int], copies: Copies, settings: MoveSettings
) -> MoveRefusal | None:
    """Return why a failover from lost clusters must not begin; None if it may.

    It does not wait for Works that cannot be read: the lost copies do not run. A workload without a Work has no data.
    """
    copies = msgspec.structs.replace(copies, template=None)
    if (refusal := blocked_start(binding, growing(binding, clusters), copies)) is not None:
        return refusal
    data = (_lost_data(binding, name, copies, settings) for name in sorted(lost))
    return next((each for each in data if each is not None), None)


def held_by_purge(binding: Binding, copies: Copies) -> list[str]:
    """Return the clusters whose copy Karmada must delete before it writes any new one of the workload.

    Those are evicted with the purge mode Directly (karmada ``checkDirectPurgeOrphanWorks``), and still have a Work.
    """
    return sorted(binding.purged_from & copies.by_cluster.keys() - binding.assignment.keys())


def finished_copies(binding: Binding, clusters: Container[str]) -> list[str]:
    """Return those of some clusters in which a Job has finished, as the members report."""
    if binding.spec.resource.kind != JOB:
        return []
    return sorted(name for name, each in binding.reports.items() if name in clusters and _is_finished(each))


def growing(binding: Binding, clusters: Mapping[str, int]) -> dict[str, int]:
    """Return those of an assignment that get a copy, or more replicas than a binding has there."""
    before = binding.assignment
    return {name: replicas for name, replicas in clusters.items() if replicas > before.get(name, -1)}


def suspended_clusters(binding: Binding, clusters: Iterable[str]) -> frozenset[str]:
    """Return those of some clusters to which Karmada dispatches nothing of a workload."""
    if binding.spec.suspension is None:
        return frozenset()
    return frozenset(name for name in clusters if not binding.dispatches_to(name))


def _facts(copies: Copies) -> TemplateFacts:
    """Return what the newest manifest among the Works says."""
    found = [each for each in copies.by_cluster.values() if not each.deleting]
    return max(found, key=lambda each: each.generation).facts if found else TemplateFacts()


def _repeated_job(binding: Binding, copies: Copies) -> MoveRefusal | None:
    """Return why a Job that runs, or has run, must not start elsewhere."""
    if any(_is_finished(each.item) for each in copies.by_cluster.values()):
        return MoveRefusal(Cause.JOB_FINISHED, "the Job has finished, and would run again")
    if copies.by_cluster and binding.is_divided:
        return MoveRefusal(Cause.JOB_DIVIDED, "clusters share the completions of the Job, and they cannot change")
    return None


def _is_finished(item: AggregatedStatusItem) -> bool:
    conditions = item.status.get("conditions") if isinstance(item.status, Mapping) else None
    listed = conditions if isinstance(conditions, list) else []
    states = ((each.get("type"), each.get("status")) for each in listed if isinstance(each, Mapping))
    return any(state in {("Complete", "True"), ("Failed", "True")} for state in states)


def _lost_data(binding: Binding, cluster: str, copies: Copies, settings: MoveSettings) -> MoveRefusal | None:
    if settings.volumes is VolumeLoss.MAY_BE_LOST or not (why := _data(binding, cluster, copies)):
        return None
    return MoveRefusal(Cause.VOLUMES, f"{why}; {VOLUMES}: {VolumeLoss.MAY_BE_LOST.value} on the policy allows that")


def _data(binding: Binding, cluster: str, copies: Copies) -> str:
    """Return what happens to the data of a copy that is removed; empty if it has none."""
    copy = copies.by_cluster.get(cluster)
    facts = copy.facts if copy is not None else copies.template or _facts(copies)
    if binding.spec.resource.kind == CLAIM:
        return f"its volume on {cluster} would be deleted"
    if facts.own_claims:
        return f"the data in {name_list(facts.own_claims, _NAMED)} would stay behind on {cluster}"
    if facts.claims and binding.spec.propagate_deps:
        return f"the volume of {name_list(facts.claims, _NAMED)} on {cluster} would be deleted"
    if facts.claims:
        return f"the data in {name_list(facts.claims, _NAMED)} would stay behind on {cluster}"
    return ""
