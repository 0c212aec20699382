"""Judges the fleet: whether there are clusters to schedule to, and whether bindings are scheduled."""

from collections.abc import Iterator
from typing import Final

from berthmaster.model.errors import name_list
from berthmaster.model.policy import DEFAULT_SCHEDULER
from berthmaster_cli.doctor.facts import BindingFacts, Facts, FleetFacts, Unobserved
from berthmaster_cli.doctor.finding import Finding, failed, ok, skipped, warning
from berthmaster_cli.doctor.judge.controllers import is_live

_SHOWN: Final = 3


def fleet(facts: Facts) -> Iterator[Finding]:
    """Judge clusters, then bindings."""
    if isinstance(facts.fleet, Unobserved):
        yield skipped("fleet/clusters", f"clusters cannot be listed: {facts.fleet.problem}")
    elif facts.fleet is not None:
        yield from _clusters(facts.fleet, facts.setup.target)
    if isinstance(facts.bindings, Unobserved):
        yield skipped("fleet/bindings", f"bindings cannot be listed: {facts.bindings.problem}")
    elif facts.bindings is not None:
        yield from _schedulers(facts.bindings, facts)
        yield from _waiting(facts.bindings, facts)


def _clusters(fleet: FleetFacts, kubectl: str) -> Iterator[Finding]:
    check = "fleet/clusters"
    more = _incomplete(fleet)
    if not fleet.total:
        yield warning(check, "no cluster has joined", "Join a cluster: karmadactl join NAME --cluster-kubeconfig=FILE")
        return
    if fleet.not_ready:
        named = name_list(fleet.not_ready, _SHOWN)
        message = f"{len(fleet.not_ready)} of {fleet.total} clusters are not ready{more}: {named}"
        conditions = f"{kubectl} get cluster {fleet.not_ready[0]} -o jsonpath='{{.status.conditions}}'"
        yield warning(check, message, f"Find out why: {conditions}")
    else:
        yield ok(check, f"all {fleet.total} clusters are ready{more}")
    if fleet.unmeasured:
        count, named = len(fleet.unmeasured), name_list(fleet.unmeasured, _SHOWN)
        message = f"{count} of {fleet.total} clusters report no allocatable resources{more}: {named}"
        remedy = (
            "Find out why karmada-controller-manager or karmada-agent does not report them: "
            f"{kubectl} get cluster {fleet.unmeasured[0]} -o jsonpath='{{.status.resourceSummary}}'"
        )
        yield warning("fleet/capacity", message, remedy)


def _schedulers(bindings: BindingFacts, facts: Facts) -> Iterator[Finding]:
    setup = facts.setup
    ours = bindings.by_scheduler.get(setup.scheduler_name, 0)
    if ours and not isinstance(facts.lease, Unobserved) and not is_live(facts.lease, facts):
        message = f"{ours} bindings wait for {setup.scheduler_name}, and no process leads"
        remedy = (
            "Start the controllers, or set another spec.schedulerName in the policies: "
            f"{setup.in_release} get pods {setup.controllers_pods}"
        )
        yield failed("fleet/scheduler", message, remedy)
    known = {setup.scheduler_name, *setup.other_schedulers, *_scheduler_names(facts), ""}
    unknown = {name: count for name, count in bindings.by_scheduler.items() if name not in known}
    for name, count in sorted(unknown.items()):
        message = f"{count} bindings name the unknown scheduler {name!r}"
        remedy = f"Correct spec.schedulerName in their policies, or declare it with --other-scheduler={name}"
        yield warning("fleet/strange-scheduler", message, remedy)
    theirs = bindings.by_scheduler.get(DEFAULT_SCHEDULER, 0)
    if theirs and not isinstance(facts.karmada_lease, Unobserved) and not is_live(facts.karmada_lease, facts):
        message = f"{theirs} bindings name {DEFAULT_SCHEDULER}, and karmada-scheduler holds no current lease"
        remedy = (
            "Make sure that karmada-scheduler runs. With --leader-elect=false it has no lease: "
            f"{setup.in_karmada} get pods"
        )
        yield warning("fleet/karmada-scheduler", message, remedy)


def _scheduler_names(facts: Facts) -> Iterator[str]:
    yield DEFAULT_SCHEDULER
    for each in facts.known_deployments:
        if each.component in {"karmada-scheduler", "controllers"}:
            yield each.option("scheduler-name", DEFAULT_SCHEDULER)


def _waiting(bindings: BindingFacts, facts: Facts) -> Iterator[Finding]:
    setup, more = facts.setup, _incomplete(bindings)
    ours = bindings.by_scheduler.get(setup.scheduler_name, 0)
    if bindings.stale:
        count = f"{len(bindings.stale)} of {ours} bindings"
        message = f"{count} changed and were not scheduled again{more}: {name_list(bindings.stale, _SHOWN)}"
        yield warning("fleet/lagging", message, f"Read the leader's log: {setup.controllers_logs}")
    if bindings.unschedulable:
        name, reason = bindings.unschedulable[0]
        count = f"{len(bindings.unschedulable)} of {ours} bindings"
        message = f"{count} cannot be scheduled{more}, for example {name} ({reason})"
        yield warning("fleet/unschedulable", message, f"Find out why: {setup.target} {_describe(name)}")
    if not bindings.stale and not bindings.unschedulable:
        yield ok("fleet/bindings", f"all {ours} bindings of {setup.scheduler_name} are scheduled{more}")


def _describe(path: str) -> str:
    namespace, slash, name = path.rpartition("/")
    if not slash:
        return f"describe clusterresourcebinding {name}"
    return f"-n {namespace} describe resourcebinding {name}"


def _incomplete(facts: FleetFacts | BindingFacts) -> str:
    return "" if facts.complete else " (not all were read)"
