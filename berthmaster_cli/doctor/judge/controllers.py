"""The controllers' lease: whether somebody leads, and gives signs of life."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

from berthmaster_cli.doctor.facts import Facts, LeaseSeen, Setup, Unknown, Workload
from berthmaster_cli.doctor.finding import Finding, failed, ok, skipped, warning

SLACK: Final = timedelta(seconds=5)
"""Clocks of the holder, the API server and this machine may differ by that without a person noticing."""
_CHECK: Final = "controllers/leader"
_THEIR_GATE: Final = "PropagationPolicyPreemption"
_OUR_GATE: Final = "PolicyPreemption"
_THEIR_REBALANCER: Final = "workloadRebalancer"
_OUR_REBALANCER: Final = "workload-rebalancer"
_NO_ELECTION: Final = "--no-leader-elect"
_FINE: Final = 200
_OURS: Final = frozenset({"webhook", "extender", "controllers"})


def live(lease: LeaseSeen | None, facts: Facts) -> bool:
    """Whether somebody holds a lease and has renewed it in time."""
    if lease is None or not lease.holder or lease.renewed is None:
        return False
    return facts.now - lease.renewed <= timedelta(seconds=lease.duration_s) + SLACK


def leadership(facts: Facts) -> Iterator[Finding]:
    """One finding."""
    lease, setup = facts.lease, facts.setup
    if isinstance(lease, Unknown):
        yield skipped(_CHECK, f"the lease cannot be read: {lease.problem}")
        return
    if lease is None:
        pods = f"{setup.in_release} get pods {setup.controllers_pods}"
        remedy = f"Start them, or name their lease with --leader-elect-namespace and --leader-elect-name: {pods}"
        yield failed(_CHECK, f"no controllers have ever led: there is no lease {_where(setup)}", remedy)
        return
    yield _held(lease, facts)


def _held(lease: LeaseSeen, facts: Facts) -> Finding:
    setup, where = facts.setup, _where(facts.setup)
    logs = f"{setup.in_release} logs {setup.controllers_pods} --tail=50"
    if not lease.holder:
        return failed(
            _CHECK,
            f"nobody leads: {where} was given back, and nobody took it",
            f"Start the controllers: {setup.in_release} get pods {setup.controllers_pods}",
        )
    if lease.renewed is None:
        return failed(_CHECK, f"{lease.holder} holds {where} and has never renewed it", f"See what it does: {logs}")
    age = facts.now - lease.renewed
    if not live(lease, facts):
        told = f"{lease.holder} leads by {where} and has given no sign for {_seconds(age)}"
        return failed(_CHECK, told, f"See why it and all others are stuck: {logs}")
    if age < -SLACK:
        told = f"the clock of {lease.holder} is {_seconds(-age)} ahead of the API server's"
        return warning(_CHECK, told, "Synchronize the host's machines with NTP: timedatectl timesync-status")
    return ok(_CHECK, f"{lease.holder} leads, its last sign is {_seconds(max(age, timedelta(0)))} old")


def _where(setup: Setup) -> str:
    return "/".join(setup.lease)


def _seconds(span: timedelta) -> str:
    return f"{span.total_seconds():.0f} s"


def conflicts(facts: Facts) -> Iterator[Finding]:
    """By leases on the target, then by what runs on the host."""
    yield from _leases(facts)
    seen, setup = facts.workloads, facts.setup
    if seen is None:
        if facts.other_leases is not None:
            yield skipped("conflicts/host", "what runs on the host was not looked at",
                          "Give access to it with --kubeconfig, or run this inside of it")  # fmt: skip
        return
    if isinstance(seen, Unknown):
        remedy = f"Run this as a user who may: {setup.in_release} auth can-i list deployments"
        yield skipped("conflicts/host", f"Deployments on the host cannot be listed: {seen.problem}", remedy)
        return
    if not seen:
        told = f"neither Karmada nor Berthmaster runs in {setup.namespace} of the host"
        yield skipped(
            "conflicts/host", told, "Name the cluster and the namespace where they run: --kubeconfig, --namespace"
        )
        return
    found = [*_schedulers(seen, setup), *_preemption(seen, setup), *_rebalancing(seen, setup), *_elections(seen, setup)]
    yield from found or [ok("conflicts/host", "nothing on the host does the same work")]


def _leases(facts: Facts) -> Iterator[Finding]:
    """Two elections are two leaders: of the same scheduler name they undo each other's writes."""
    seen, setup = facts.other_leases, facts.setup
    if seen is None:
        return
    if isinstance(seen, Unknown):
        yield skipped("conflicts/leases", f"leases of other namespaces cannot be listed: {seen.problem}")
        return
    others = [each for each in seen if (each.namespace, each.name) != setup.lease and live(each, facts)]
    if others:
        told = f"a second release's controllers lead, too: {_leaders(others)}"
        remedy = (
            "Stop one, unless each has a --scheduler-name of its own: "
            f"{setup.host} get deploy -A -l app.kubernetes.io/part-of=berthmaster"
        )
        yield warning("conflicts/leases", told, remedy)
    else:
        yield ok("conflicts/leases", "no second controllers lead")


def _leaders(leases: Sequence[LeaseSeen]) -> str:
    return ", ".join(f"{each.holder} by {each.namespace}/{each.name}" for each in leases[:3])


def _schedulers(workloads: Sequence[Workload], setup: Setup) -> Iterator[Finding]:
    for each in workloads:
        if (
            each.component == "karmada-scheduler"
            and each.option("scheduler-name", "default-scheduler") == setup.scheduler_name
        ):
            told = f"{each.name} schedules bindings of {setup.scheduler_name!r} as well: both write the same ones"
            remedy = f"Give it another --scheduler-name: {setup.in_karmada} edit deploy {each.name}"
            yield failed("conflicts/scheduler", told, remedy)
    ours = [each for each in workloads if each.component == "controllers"]
    if len(ours) > 1:
        told = f"several Deployments run controllers: {', '.join(each.name for each in ours)}"
        remedy = (
            "Remove all but one, unless each has a --scheduler-name of its own: "
            f"{setup.in_release} delete deploy {ours[-1].name}"
        )
        yield warning("conflicts/scheduler", told, remedy)


def _preemption(workloads: Sequence[Workload], setup: Setup) -> Iterator[Finding]:
    theirs = [
        each for each in workloads
        if each.component == "karmada-controller-manager" and _gate(each, _THEIR_GATE)
    ]  # fmt: skip
    ours = [each for each in workloads if each.component == "controllers" and _gate(each, _OUR_GATE)]
    if theirs and ours:
        told = f"{theirs[0].name} (gate {_THEIR_GATE}) and {ours[0].name} (gate {_OUR_GATE}) both preempt policies"
        remedy = f"Turn one off: {setup.upgrade} --set controllers.featureGates.{_OUR_GATE}=false"
        yield failed("conflicts/preemption", told, remedy)


def _rebalancing(workloads: Sequence[Workload], setup: Setup) -> Iterator[Finding]:
    theirs = [
        each for each in workloads
        if each.component == "karmada-controller-manager" and _runs(each, _THEIR_REBALANCER, by_default=True)
    ]  # fmt: skip
    ours = [
        each for each in workloads if each.component == "controllers" and _runs(each, _OUR_REBALANCER, by_default=False)
    ]
    if theirs and ours:
        told = f"{theirs[0].name} and {ours[0].name} both work on WorkloadRebalancers"
        remedy = (
            f"Leave it to one: add --controllers=*,-{_THEIR_REBALANCER} with "
            f"{setup.in_karmada} edit deploy {theirs[0].name}"
        )
        yield failed("conflicts/rebalancer", told, remedy)


def _elections(workloads: Sequence[Workload], setup: Setup) -> Iterator[Finding]:
    for each in workloads:
        if each.component == "controllers" and _NO_ELECTION in each.arguments and each.wanted > 1:
            told = f"{each.name} runs {each.wanted} pods without an election: all of them write"
            remedy = f"Run one: {setup.in_release} scale deploy {each.name} --replicas=1"
            yield failed("conflicts/election", told, remedy)


def _gate(workload: Workload, name: str) -> bool:
    on = False
    for part in workload.option("feature-gates").split(","):
        gate, _, value = part.strip().partition("=")
        if gate == name:
            on = value.lower() == "true"
    return on


def _runs(workload: Workload, name: str, *, by_default: bool) -> bool:
    """As ``--controllers`` of both is read: ``*``, ``name``, ``-name``."""
    switches = [each.strip() for each in workload.option("controllers", "*").split(",")]
    return f"-{name}" not in switches and (name in switches or (by_default and "*" in switches))


def probes(facts: Facts) -> Iterator[Finding]:
    """One finding each."""
    workloads = () if facts.workloads is None or isinstance(facts.workloads, Unknown) else facts.workloads
    for workload in workloads:
        if workload.component in _OURS:
            yield _pods(workload, facts.setup)
    for each in facts.probes:
        if each.status == _FINE:
            yield ok("probes/ready", f"{each.url} is ready")
        elif each.status:
            remedy = f"Read what it waits for in its log: {facts.setup.in_release} get pods"
            yield failed("probes/ready", f"{each.url} is not ready ({each.status}): {each.told}", remedy)
        else:
            remedy = f"Forward the port first: {facts.setup.in_release} port-forward deploy/NAME 9080"
            yield failed("probes/ready", f"{each.url} does not answer: {each.told}", remedy)


def _pods(workload: Workload, setup: Setup) -> Finding:
    check = "probes/pods"
    told = f"{workload.name} has {workload.ready} of {workload.wanted} pods ready"
    if workload.ready >= workload.wanted > 0:
        return ok(check, told)
    if not workload.wanted:
        return warning(check, told, f"Scale it up: {setup.in_release} scale deploy {workload.name} --replicas=2")
    remedy = (
        f"See what they wait for: {setup.in_release} describe pods -l app.kubernetes.io/component={workload.component}"
    )
    return warning(check, told, remedy) if workload.ready else failed(check, told, remedy)
