"""Clusters and bindings: whether there is somewhere to schedule to, and whether somebody schedules."""

from collections.abc import Iterator, Sequence
from typing import Final

from berthmaster_cli.doctor.facts import Bindings, Facts, Fleet, Unknown
from berthmaster_cli.doctor.finding import Finding, failed, ok, skipped, warning
from berthmaster_cli.doctor.judge.controllers import live

_KARMADA_SCHEDULER: Final = "default-scheduler"
_SHOWN: Final = 3


def fleet(facts: Facts) -> Iterator[Finding]:
    """Clusters first."""
    if isinstance(facts.fleet, Unknown):
        yield skipped("fleet/clusters", f"clusters cannot be listed: {facts.fleet.problem}")
    elif facts.fleet is not None:
        yield from _clusters(facts.fleet, facts.setup.target)
    if isinstance(facts.bindings, Unknown):
        yield skipped("fleet/bindings", f"bindings cannot be listed: {facts.bindings.problem}")
    elif facts.bindings is not None:
        yield from _schedulers(facts.bindings, facts)
        yield from _pending(facts.bindings, facts)


def _clusters(fleet: Fleet, kubectl: str) -> Iterator[Finding]:
    check = "fleet/clusters"
    more = "" if fleet.complete else " (of those that were read)"
    if not fleet.total:
        yield warning(check, "no cluster has joined", "Let one join: karmadactl join NAME --cluster-kubeconfig=FILE")
        return
    if fleet.not_ready:
        told = f"{len(fleet.not_ready)} of {fleet.total} clusters are not ready{more}: {_some(fleet.not_ready)}"
        remedy = f"See why: {kubectl} get cluster {fleet.not_ready[0]} -o jsonpath='{{.status.conditions}}'"
        yield warning(check, told, remedy)
    else:
        yield ok(check, f"all {fleet.total} clusters are ready{more}")
    if fleet.unmeasured:
        told = f"{len(fleet.unmeasured)} clusters report no free room{more}: {_some(fleet.unmeasured)}"
        remedy = (
            "See what keeps karmada-controller-manager or karmada-agent from reporting: "
            f"{kubectl} get cluster {fleet.unmeasured[0]} -o jsonpath='{{.status.resourceSummary}}'"
        )
        yield warning("fleet/room", told, remedy)


def _schedulers(bindings: Bindings, facts: Facts) -> Iterator[Finding]:
    setup = facts.setup
    ours = bindings.by_scheduler.get(setup.scheduler_name, 0)
    leads = not isinstance(facts.lease, Unknown) and live(facts.lease, facts)
    if ours and not leads and not isinstance(facts.lease, Unknown):
        remedy = (
            "Start the controllers, or move the policies to another spec.schedulerName: "
            f"{setup.in_release} get pods {setup.controllers_pods}"
        )
        yield failed("fleet/scheduler", f"{ours} bindings wait for {setup.scheduler_name}, and nobody leads", remedy)
    names = {setup.scheduler_name, *setup.other_schedulers, *_theirs(facts), ""}
    strangers = {name: count for name, count in bindings.by_scheduler.items() if name not in names}
    for name, count in sorted(strangers.items()):
        told = f"{count} bindings name the scheduler {name!r}, which nobody is known to serve"
        remedy = f"Correct spec.schedulerName in their policies, or name it with --other-scheduler={name}"
        yield warning("fleet/strange-scheduler", told, remedy)
    if _karmada_away(bindings, facts):
        count = bindings.by_scheduler[_KARMADA_SCHEDULER]
        remedy = f"See why karmada-scheduler does not lead: {setup.in_karmada} get pods"
        yield warning("fleet/karmada-scheduler", f"{count} bindings wait for {_KARMADA_SCHEDULER}", remedy)


def _theirs(facts: Facts) -> Iterator[str]:
    yield _KARMADA_SCHEDULER
    if facts.workloads is not None and not isinstance(facts.workloads, Unknown):
        for each in facts.workloads:
            if each.component in {"karmada-scheduler", "controllers"}:
                yield each.option("scheduler-name", _KARMADA_SCHEDULER)


def _karmada_away(bindings: Bindings, facts: Facts) -> bool:
    if not bindings.by_scheduler.get(_KARMADA_SCHEDULER) or isinstance(facts.karmada_lease, Unknown):
        return False
    return not live(facts.karmada_lease, facts)


def _pending(bindings: Bindings, facts: Facts) -> Iterator[Finding]:
    more = "" if bindings.complete else " (of those that were read)"
    setup = facts.setup
    ours = bindings.by_scheduler.get(setup.scheduler_name, 0)
    if bindings.lagging:
        count = len(bindings.lagging)
        told = f"of {ours} bindings {count} changed and are not scheduled again{more}: {_some(bindings.lagging)}"
        remedy = f"See what the leader does: {setup.in_release} logs {setup.controllers_pods} --tail=50"
        yield warning("fleet/lagging", told, remedy)
    if bindings.unschedulable:
        name, reason = bindings.unschedulable[0]
        told = f"{len(bindings.unschedulable)} of {ours} bindings fit nowhere{more}, {name} by {reason}"
        yield warning("fleet/unschedulable", told, f"See why: {setup.target} {_get(name)}")
    if not bindings.lagging and not bindings.unschedulable:
        yield ok("fleet/bindings", f"all {ours} bindings of {setup.scheduler_name} are scheduled{more}")


def _get(path: str) -> str:
    namespace, slash, name = path.rpartition("/")
    if not slash:
        return f"describe clusterresourcebinding {name}"
    return f"-n {namespace} describe resourcebinding {name}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
