"""Judges processes and the fleet: whether the controllers lead, others do the same work, and pods are ready.

Also whether there are clusters to schedule to, and whether bindings are scheduled.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

from berthmaster.model.errors import name_list
from berthmaster.model.policy import DEFAULT_SCHEDULER
from berthmaster.runtime.feature_gates import MULTIPLE_POD_TEMPLATES, WORKLOAD_AFFINITY
from berthmaster_cli.doctor.facts import (
    BindingFacts,
    DeploymentFacts,
    Facts,
    Finding,
    FleetFacts,
    LeaseFacts,
    Setup,
    Unobserved,
    failed,
    ok,
    skipped,
    warning,
)

SLACK: Final = timedelta(seconds=5)
"""How far the clocks of the holder, the API server and this machine may differ without a finding."""
_LEADER: Final = "controllers/leader"
_THEIR_GATE: Final = "PropagationPolicyPreemption"
_OUR_GATE: Final = "PolicyPreemption"
_THEIR_REBALANCER: Final = "workloadRebalancer"
_OUR_REBALANCER: Final = "workload-rebalancer"
_KARMADA_MANAGER: Final = "karmada-controller-manager"
_OK_STATUS: Final = 200
_OURS: Final = frozenset({"webhook", "extender", "controllers"})


def is_live(lease: LeaseFacts | None, facts: Facts) -> bool:
    """Whether a process holds a lease and has renewed it in time."""
    if lease is None or not lease.holder or lease.renewed is None:
        return False
    return facts.now - lease.renewed <= timedelta(seconds=lease.duration_s) + SLACK


def leadership(facts: Facts) -> Iterator[Finding]:
    """Judge the controllers' lease."""
    lease, setup = facts.lease, facts.setup
    if isinstance(lease, Unobserved):
        yield skipped(_LEADER, f"the lease cannot be read: {lease.problem}")
    elif not is_live(lease, facts) and _without_controllers(facts.known_deployments):
        yield skipped(_LEADER, "this installation has no controllers that schedule")
    elif lease is None:
        pods = f"{setup.in_release} get pods {setup.controllers_pods}"
        remedy = f"Start them, or set their lease with --leader-elect-namespace and --leader-elect-name: {pods}"
        yield failed(_LEADER, f"no controllers have led yet: there is no lease {'/'.join(setup.lease)}", remedy)
    else:
        yield _leader(lease, facts)


def _without_controllers(deployments: Sequence[DeploymentFacts]) -> bool:
    """Whether Berthmaster is installed without controllers, or with a shadow, which needs no lease."""
    scheduling = [each for each in _running("controllers", deployments) if "--shadow" not in each.arguments]
    return not scheduling and any(each.component in _OURS for each in deployments)


def _leader(lease: LeaseFacts, facts: Facts) -> Finding:
    setup, where = facts.setup, "/".join(facts.setup.lease)
    if not lease.holder:
        message = f"no process leads: the lease {where} was released, and no process has acquired it"
        return failed(_LEADER, message, f"Start the controllers: {setup.in_release} get pods {setup.controllers_pods}")
    if lease.renewed is None:
        message = f"{lease.holder} holds the lease {where} but has never renewed it"
        return failed(_LEADER, message, f"Read its log: {setup.controllers_logs}")
    age = facts.now - lease.renewed
    if not is_live(lease, facts):
        message = f"{lease.holder} holds the lease {where} but has not renewed it for {_seconds(age)}"
        return failed(_LEADER, message, f"Find out why no replica renews or acquires it: {setup.controllers_logs}")
    if age < -SLACK:
        message = f"the clock of {lease.holder} is {_seconds(-age)} ahead of the clock of the API server"
        return warning(_LEADER, message, "Synchronize the host's machines with NTP: timedatectl timesync-status")
    return ok(_LEADER, f"{lease.holder} leads; it renewed its lease {_seconds(max(age, timedelta(0)))} ago")


def _seconds(span: timedelta) -> str:
    return f"{span.total_seconds():.0f} s"


def conflicts(facts: Facts) -> Iterator[Finding]:
    """Judge whether other components do the same work, by the leases on the target and the Deployments on the host."""
    yield from _leases(facts)
    deployments, setup = facts.deployments, facts.setup
    check = "conflicts/host"
    if deployments is None:
        if facts.other_leases is not None:
            remedy = "Give access to the host with --kubeconfig, or run this command inside it"
            yield skipped(check, "the host was not checked", remedy)
    elif isinstance(deployments, Unobserved):
        remedy = f"Run as a user who may list them: {setup.in_release} auth can-i list deployments"
        yield skipped(check, f"Deployments on the host cannot be listed: {deployments.problem}", remedy)
    elif not deployments:
        message = f"neither Karmada nor Berthmaster runs in the namespace {setup.namespace} of the host"
        yield skipped(check, message, "Set the cluster and the namespace where they run: --kubeconfig, --namespace")
    else:
        found = [
            *_schedulers(deployments, setup),
            *_preemption(deployments, setup),
            *_rebalancing(deployments, setup),
            *_elections(deployments, setup),
            *_gates(deployments, setup),
        ]
        yield from found or [ok(check, "no other component on the host does the same work")]


def _leases(facts: Facts) -> Iterator[Finding]:
    """Two leases mean two leaders. With the same scheduler name they undo each other's writes."""
    leases, setup = facts.other_leases, facts.setup
    if leases is None:
        return
    if isinstance(leases, Unobserved):
        yield skipped("conflicts/leases", f"leases of other namespaces cannot be listed: {leases.problem}")
        return
    others = [each for each in leases if (each.namespace, each.name) != setup.lease and is_live(each, facts)]
    if not others:
        yield ok("conflicts/leases", "no second release leads")
        return
    leaders = ", ".join(f"{each.holder} (lease {each.namespace}/{each.name})" for each in others[:3])
    remedy = (
        "Stop one release, or give each its own --scheduler-name: "
        f"{setup.host} get deploy -A -l app.kubernetes.io/part-of=berthmaster"
    )
    yield warning("conflicts/leases", f"the controllers of a second release lead too: {leaders}", remedy)


def _schedulers(deployments: Sequence[DeploymentFacts], setup: Setup) -> Iterator[Finding]:
    check = "conflicts/scheduler"
    for each in _running("karmada-scheduler", deployments):
        if each.option("scheduler-name", "default-scheduler") == setup.scheduler_name:
            message = f"{each.name} also schedules bindings of {setup.scheduler_name!r}, and both write them"
            remedy = f"Give it another --scheduler-name: {setup.in_karmada} edit deploy {each.name}"
            yield failed(check, message, remedy)
    ours = _running("controllers", deployments)
    if len(ours) > 1:
        message = f"several Deployments run the controllers: {', '.join(each.name for each in ours)}"
        remedy = (
            "Delete all but one, or give each its own --scheduler-name: "
            f"{setup.in_release} delete deploy {ours[-1].name}"
        )
        yield warning(check, message, remedy)


def _preemption(deployments: Sequence[DeploymentFacts], setup: Setup) -> Iterator[Finding]:
    theirs = [each for each in _running(_KARMADA_MANAGER, deployments) if _has_gate(each, _THEIR_GATE)]
    ours = [each for each in _running("controllers", deployments) if _has_gate(each, _OUR_GATE)]
    if theirs and ours:
        message = f"{theirs[0].name} (gate {_THEIR_GATE}) and {ours[0].name} (gate {_OUR_GATE}) both preempt policies"
        remedy = f"Disable one gate: {setup.upgrade} --set controllers.featureGates.{_OUR_GATE}=false"
        yield failed("conflicts/preemption", message, remedy)


def _rebalancing(deployments: Sequence[DeploymentFacts], setup: Setup) -> Iterator[Finding]:
    managers = _running(_KARMADA_MANAGER, deployments)
    theirs = [each for each in managers if _runs(each, _THEIR_REBALANCER, by_default=True)]
    ours = [each for each in _running("controllers", deployments) if _runs(each, _OUR_REBALANCER, by_default=False)]
    if theirs and ours:
        message = f"{theirs[0].name} and {ours[0].name} both reconcile WorkloadRebalancers"
        edit = f"{setup.in_karmada} edit deploy {theirs[0].name}"
        yield failed("conflicts/rebalancer", message, f"Add --controllers=*,-{_THEIR_REBALANCER} to one: {edit}")


def _elections(deployments: Sequence[DeploymentFacts], setup: Setup) -> Iterator[Finding]:
    for each in _running("controllers", deployments):
        if "--no-leader-elect" in each.arguments and each.wanted > 1:
            message = f"{each.name} runs {each.wanted} pods without leader election, so all of them write"
            remedy = f"Run one pod: {setup.in_release} scale deploy {each.name} --replicas=1"
            yield failed("conflicts/election", message, remedy)


def _gates(deployments: Sequence[DeploymentFacts], setup: Setup) -> Iterator[Finding]:
    """Gates of Karmada that add fields to bindings, which our controllers would ignore."""
    theirs = [*_running("karmada-scheduler", deployments), *_running(_KARMADA_MANAGER, deployments)]
    for gate in (WORKLOAD_AFFINITY, MULTIPLE_POD_TEMPLATES):
        on = [each for each in theirs if _has_gate(each, gate.name)]
        off = [
            each
            for each in _running("controllers", deployments)
            if not _has_gate(each, gate.name, by_default=gate.default)
        ]
        if on and off:
            message = f"{on[0].name} has the gate {gate.name}, and {off[0].name} has not: it ignores what the gate adds"
            remedy = f"Enable it: {setup.upgrade} --set controllers.featureGates.{gate.name}=true"
            yield warning("conflicts/gates", message, remedy)


def _running(component: str, deployments: Sequence[DeploymentFacts]) -> list[DeploymentFacts]:
    return [each for each in deployments if each.component == component]


def _has_gate(deployment: DeploymentFacts, name: str, *, by_default: bool = False) -> bool:
    on = by_default
    for part in deployment.option("feature-gates").split(","):
        gate, _, value = part.strip().partition("=")
        if gate == name:
            on = value.lower() == "true"
    return on


def _runs(deployment: DeploymentFacts, name: str, *, by_default: bool) -> bool:
    """Whether a controller runs, by ``--controllers``: ``*``, ``NAME``, ``-NAME``."""
    switches = [each.strip() for each in deployment.option("controllers", "*").split(",")]
    return f"-{name}" not in switches and (name in switches or (by_default and "*" in switches))


def probes(facts: Facts) -> Iterator[Finding]:
    """Judge whether processes are ready, by their Deployments and by the given probe endpoints."""
    setup = facts.setup
    for deployment in facts.known_deployments:
        if deployment.component in _OURS:
            yield _pods(deployment, setup)
    for each in facts.probes:
        if each.status == _OK_STATUS:
            yield ok("probes/ready", f"{each.url} is ready")
        elif each.status:
            remedy = f"Read in its log what it waits for: {setup.in_release} get pods"
            yield failed("probes/ready", f"{each.url} is not ready ({each.status}): {each.message}", remedy)
        else:
            remedy = f"Forward the port first: {setup.in_release} port-forward deploy/NAME 9080"
            yield failed("probes/ready", f"{each.url} does not respond: {each.message}", remedy)


def _pods(deployment: DeploymentFacts, setup: Setup) -> Finding:
    check = "probes/pods"
    message = f"{deployment.name} has {deployment.ready} of {deployment.wanted} pods ready"
    if deployment.ready >= deployment.wanted > 0:
        return ok(check, message)
    if not deployment.wanted:
        remedy = f"Scale it up: {setup.in_release} scale deploy {deployment.name} --replicas=2"
        return warning(check, message, remedy)
    pods = f"pods -l app.kubernetes.io/component={deployment.component}"
    remedy = f"Find out what the pods wait for: {setup.in_release} describe {pods}"
    return warning(check, message, remedy) if deployment.ready else failed(check, message, remedy)


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
        yield from _scheduler_findings(facts.bindings, facts)
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


def _scheduler_findings(bindings: BindingFacts, facts: Facts) -> Iterator[Finding]:
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
