"""The world of simulate and explain: the present that manifests describe, and what is not known about it."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import click

from berthmaster.deciding.lease_record import DEFAULT_BRAKE, lease_record
from berthmaster.interpreters.lua import LuaInterpreter
from berthmaster.interpreters.worker import ScriptProcess, is_available
from berthmaster.manifests import Document, Manifests
from berthmaster.model.errors import FieldError
from berthmaster.model.interpretation import Interpreter, UnknownReplicas, check_replica_paths, replica_scripts
from berthmaster.model.policy import DEFAULT_NAMESPACE, TAINT_POLICY
from berthmaster.model.replicas import ReplicaPath
from berthmaster.model.validation import update_errors
from berthmaster.runtime.installation import extra_remedy
from berthmaster.simulation.changes import Rebalance
from berthmaster.simulation.eligibility import SCHEDULERS
from berthmaster.simulation.plan_answer import ALL_OFF, Assumptions, Switch, assumptions, evicting_policies
from berthmaster.simulation.world import Change, World, file_gaps, world_of
from berthmaster_cli.flags import option
from berthmaster_cli.inputs import PresentFlags, current_time, report_prices
from berthmaster_cli.options import LeaseFlags
from berthmaster_cli.output import complain, complain_about

_SWITCHES: Final = click.Choice([each.value for each in Switch])


class AssumptionFlags(LeaseFlags):
    """The switches of the running controllers that decide what moves."""

    failover: str = option(
        "What moves off a lost cluster. off: nothing. on: what does not tolerate a NoExecute taint, as with "
        "Karmada's gate Failover, --enable-no-execute-taint-eviction and such a taint. auto: as the running "
        "controllers of Berthmaster record for their bindings; otherwise off, which is Karmada's default, unless "
        "eviction tasks show that Karmada evicts.",
        Switch.AUTO.value, _SWITCHES,
    )  # fmt: skip
    preemption: str = option(
        "Whether policies with preemption Always take workloads over. auto: as the running controllers of "
        "Berthmaster record; otherwise off, which is the default of Karmada's gate PropagationPolicyPreemption.",
        Switch.AUTO.value, _SWITCHES,
    )  # fmt: skip


def present_world(
    manifests: Manifests, replica_paths: Sequence[ReplicaPath], flags: PresentFlags, *, workload_affinity: bool
) -> World:
    """Build the world of manifests. Without ``AssumptionFlags`` nothing is assumed."""
    check_policies(manifests, lenient=flags.lenient)
    check_replica_paths(replica_paths, (document.raw for document in manifests.templates))
    reported = len(manifests.gaps)
    with ScriptProcess() as run:
        world = world_of(
            manifests,
            replica_paths,
            workload_affinity=workload_affinity,
            interpreter=interpreter_of(manifests, run),
            schedulers=SCHEDULERS | set(flags.schedulers),
            assumptions=_assumptions(manifests, flags),
        )
    complain_about(manifests.gaps[reported:])
    report_prices(world.clusters.values())
    if not world.workloads:
        complain_about(file_gaps(manifests, world))
    return world


def _assumptions(manifests: Manifests, flags: PresentFlags) -> Assumptions:
    """Return what the options and the Lease of the controllers among the manifests say about the switches.

    A command without these options assumes nothing.
    """
    if not isinstance(flags, AssumptionFlags):
        return ALL_OFF
    now = manifests.read_at or current_time()
    leases = [lease_record(each.document.raw) for each in manifests.ignored if is_lease(each.document, flags.lease)]
    running = next(filter(None, (each.running(now) for each in leases)), None)
    return assumptions(
        Switch(flags.failover),
        Switch(flags.preemption),
        running,
        manifests.bindings,
        braked=any(each.brake.reason for each in leases),
        brake=next((each.brake_limits for each in leases), DEFAULT_BRAKE),
        tainted_by=evicting_policies(manifests.taint_policies, manifests.clusters),
    )


def is_lease(document: Document, key: tuple[str, str]) -> bool:
    """Return whether a document is the Lease with this namespace and name."""
    kind = document.api_version, document.kind
    return kind == ("coordination.k8s.io/v1", "Lease") and (document.namespace, document.name) == key


class _MissingInterpreter:
    """Takes the place of the interpreter if Lua is not installed: the replicas of its kinds are not known."""

    def __init__(self, kinds: Collection[tuple[str, str]]) -> None:
        self._kinds = frozenset(kinds)

    def replicas(self, raw: Mapping[str, Any]) -> UnknownReplicas | None:
        kind = str(raw.get("apiVersion")), str(raw.get("kind"))
        if kind not in self._kinds:
            return None
        return UnknownReplicas(
            f"a script of a ResourceInterpreterCustomization computes the replicas of {kind[1]}, which needs "
            f"the extra `interpreters`: {extra_remedy('interpreters')}"
        )


def interpreter_of(manifests: Manifests, run: ScriptProcess) -> Interpreter | None:
    """Return the interpreter of the scripts of a control plane; None without scripts."""
    kinds = replica_scripts(manifests.customizations)
    if not kinds:
        return None
    return LuaInterpreter(manifests.customizations, run) if is_available() else _MissingInterpreter(kinds)


def check_policies(manifests: Manifests, *, lenient: bool) -> None:
    """Refuse the policies of files that the webhook would refuse. A stored policy is only reported.

    Raises:
        ManifestError: a policy of a file is refused.
    """
    if not manifests.policy_documents:
        return
    from webhook.admission.reviews import lint  # noqa: PLC0415 - importing all rules takes a while
    from webhook.admission.rule_catalog import AdmissionContext  # noqa: PLC0415
    from webhook.admission.schema import UNKNOWN_FIELD  # noqa: PLC0415
    from webhook.admission.settings import AdmissionSettings, Level  # noqa: PLC0415

    # The loader has judged unknown fields, and knows which of them hold a workload.
    settings = AdmissionSettings(peer_checks=True, levels={UNKNOWN_FIELD: Level.OFF})
    context = AdmissionContext(settings, lambda: "")
    edits = {after.reference: before for before, after in manifests.policy_edits if before is not None}
    for document, policy in zip(manifests.policy_documents, manifests.policies, strict=True):
        found, before = lint(document.raw, context, DEFAULT_NAMESPACE), edits.get(policy.reference)
        problems = [FieldError(each.path, each.detail) for each in (found.errors if found is not None else ())]
        for problem in (*problems, *(update_errors(before, policy) if before is not None else ())):
            error = document.error(problem)
            if not (lenient or document.stored):
                raise error
            complain(f"{error} (the webhook would refuse this policy)")


def rebalances(manifests: Manifests, world: World) -> list[Change]:
    """Return the changes that the WorkloadRebalancers of manifests bring, and report workloads without a binding."""
    changes = [Rebalance(each) for each in manifests.rebalancers]
    for change in changes:
        for workload in change.without_binding(world):
            name = change.rebalancer.metadata.name
            complain(f"WorkloadRebalancer {name}: {workload} has no binding, so that nothing is rescheduled")
    return [change for change in changes if change.open_workloads()]


def report_unused(manifests: Manifests) -> None:
    """Report on standard error what was not used, and what is suspicious."""
    for ignored in manifests.ignored:
        if ignored.document.kind in {"Lease", TAINT_POLICY}:
            continue  # they are read for the switches of the controllers, and for losses
        complain(f"{ignored.document.place}: ignored: {ignored.reason}")
    for sentence in manifests.warnings:
        complain(sentence)
