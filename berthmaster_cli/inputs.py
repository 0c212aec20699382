"""What a simulation reads: files, a control plane, or files over it, and the world that it describes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Final, NoReturn

import click
import msgspec.structs

from berthmaster.deciding.config import DEFAULT_MOVES
from berthmaster.deciding.lease_record import LeaseRecord, lease_record
from berthmaster.deciding.storm_brake import DEFAULT_BRAKE
from berthmaster.interpreters.lua import ScriptError, lua_interpreter
from berthmaster.interpreters.worker import ScriptProcess, is_available
from berthmaster.manifests import Document, Manifests, manifests_of, overlaid
from berthmaster.model.customization import component_scripts, dependency_scripts, replica_scripts
from berthmaster.model.errors import InputError, name_list, shown
from berthmaster.model.hints import closest
from berthmaster.model.interpretation import Interpreter, check_replica_paths
from berthmaster.model.policy_defaults import DEFAULT_NAMESPACE
from berthmaster.runtime.installation import extra_remedy
from berthmaster.scheduling.prices import price_errors
from berthmaster.simulation import changes
from berthmaster.simulation.not_scheduled import SCHEDULERS
from berthmaster.simulation.plan_answer import ALL_OFF, Assumptions, Switch, assumptions, evicting_policies
from berthmaster.simulation.workload import ResourceName
from berthmaster.simulation.world import Change, World, file_gaps, world_of
from berthmaster_cli import options
from berthmaster_cli.namespaces import placed
from berthmaster_cli.output import complain, complain_about
from berthmaster_cli.policy_checks import check_policies
from berthmaster_cli.reading import documents_of, source_of
from berthmaster_cli.resource_names import name_in
from berthmaster_cli.source_options import AssumptionFlags, PresentFlags, SelectorFlags, SimulationFlags, SourceFlags

if TYPE_CHECKING:
    from berthmaster.kube.kubeconfig import ClusterAccess
    from berthmaster_cli.live.collections import ReadLimits
    from berthmaster_cli.live.source import LiveDocuments


_PROBLEMS: Final = 10
LEASE: Final = ("coordination.k8s.io/v1", "Lease")


def time_of(manifests: Manifests) -> datetime:
    """Return the time of an answer: when an API server was read, and otherwise now, in whole seconds as there."""
    return manifests.read_at or datetime.now(UTC).replace(microsecond=0)


def read_manifests(flags: SourceFlags) -> Manifests:
    """Read the manifests of a simulation: files, a control plane, or files laid over what is stored there."""
    if not reads_live(flags):
        manifests = _from_files(flags)
        _require_namespace(manifests, flags.namespace)
        return of_namespace(manifests, flags.namespace)
    from berthmaster_cli.live.source import live_fleet  # noqa: PLC0415 - files need no client

    access = find_control_plane(flags, asked=flags.live)
    over = _changed_files(flags, access)
    live = live_fleet(access, read_limits(flags), flags.namespace, over)
    return of_namespace(_laid_over(live, over, flags), flags.namespace)


def read_workload_manifests(
    flags: SourceFlags, name: ResourceName, *, with_others: bool = False
) -> tuple[Manifests, ResourceName]:
    """Read the manifests that concern one workload, as ``read_manifests``. Return them, and the name with its kind."""
    if not reads_live(flags):
        manifests = _from_files(flags)
        _require_namespace(manifests, flags.namespace or name.namespace)
        named = name_in(manifests, name, flags.namespace)
        _refuse_unpropagated(manifests, named)
        return manifests, named
    from berthmaster_cli.live.source import live_workload  # noqa: PLC0415 - files need no client

    access = find_control_plane(flags, asked=flags.live)
    over = _changed_files(flags, access)
    live = live_workload(
        access,
        read_limits(flags),
        name,
        flags.namespace,
        over,
        with_peers=flags.workload_affinity,
        with_others=with_others or bool(over),
    )
    return _laid_over(live, over, flags), live.name or name


def _refuse_unpropagated(manifests: Manifests, name: ResourceName) -> None:
    """Raise ``InputError`` if only a resource has the name that is no workload, such as one of a reserved namespace."""
    resources = [
        *(each.name for each in manifests.templates),
        *(each.spec.resource.name for each in manifests.bindings),
    ]
    if name.name in resources:
        return
    for document, reason in manifests.ignored:
        found = ResourceName(document.namespace, document.kind, document.name)
        if name.matches(found):
            raise InputError(f"no policy can place {found} ({document.place}): {reason}")


def reads_live(flags: SourceFlags) -> bool:
    """Return whether the options ask for a control plane."""
    files = flags.paths or flags.kustomizations
    live = not files or flags.live or flags.kubeconfig is not None or flags.context is not None
    if flags.dump is not None and not live:
        raise click.UsageError("--dump writes what a control plane holds; add --live, --kubeconfig or --context")
    if not live:
        flags.refuse_manner_of_files("add --live, --kubeconfig or --context")
    if flags.redact and flags.dump is None:
        raise click.UsageError("--redact needs --dump")
    return live


def _require_namespace(manifests: Manifests, namespace: str) -> None:
    """Check that files have something in the namespace of -n, which may be misspelled."""
    known = manifests.namespaces
    if namespace and namespace not in known:
        close = closest(namespace, known)
        hint = f"did you mean {close}?" if close else f"known are {name_list(sorted(filter(None, known)))}"
        raise InputError(f"there is nothing in the namespace {shown(namespace)}; {hint}")


def of_namespace(manifests: Manifests, namespace: str) -> Manifests:
    """Return the manifests without workloads of other namespaces. An empty namespace means all."""
    if not namespace:
        return manifests
    return replace(
        manifests,
        templates=[each for each in manifests.templates if each.namespace == namespace],
        bindings=[each for each in manifests.bindings if each.metadata.namespace == namespace],
        ignored=[each for each in manifests.ignored if each.document.namespace == namespace],
    )


def _from_files(flags: SourceFlags) -> Manifests:
    documents = documents_of(flags.paths, flags.kustomizations)
    origin = ", ".join((*flags.paths, *map(source_of, flags.kustomizations)))
    manifests = manifests_of(documents, origin, namespace=flags.namespace or DEFAULT_NAMESPACE, **flags.reading)
    complain_about(manifests.gaps)
    return manifests


def _laid_over(live: "LiveDocuments", over: list[Document], flags: SourceFlags) -> Manifests:
    """Write the dump, and return the manifests of the stored objects with files laid over them."""
    from berthmaster_cli.live.source import write_dump  # noqa: PLC0415 - files need no client

    if flags.dump is not None:
        write_dump(live, flags.dump, redact=flags.redact)
    manifests = manifests_of(overlaid(live.all(), over), live.snapshot.name, **flags.reading)
    complain_about(manifests.gaps)
    return manifests


def _changed_files(flags: SourceFlags, access: "ClusterAccess") -> list[Document]:
    """Read the files that are laid over a control plane. The namespace of -n or of the context is that of objects."""
    return placed(documents_of(flags.paths, flags.kustomizations), (flags.namespace, access.named_namespace))


def find_control_plane(
    flags: options.PlaneFlags, instead: str = "manifests with -f PATH", *, asked: bool = False
) -> "ClusterAccess":
    """Return the access that the options ask for. An error names what to do ``instead`` if no option asks for one."""
    try:
        return flags.access()
    except InputError as error:
        if flags.kubeconfig is not None or flags.context is not None or asked:
            raise
        raise InputError(f"{error}, or {instead}") from None


def read_limits(flags: options.PlaneFlags) -> "ReadLimits":
    """Return the limits of reading a control plane that the options ask for."""
    from berthmaster_cli.live.collections import ReadLimits  # noqa: PLC0415 - files need no client

    lease = flags.lease if isinstance(flags, options.LeaseFlags) else None
    return ReadLimits(timeout_s=flags.read_timeout_s, lease=lease)


def present_world(manifests: Manifests, flags: SimulationFlags) -> World:
    """Build the world of manifests. Without ``AssumptionFlags`` nothing is assumed."""
    check_policies(manifests, lenient=flags.lenient)
    check_replica_paths(flags.replica_fields, (document.raw for document in manifests.templates))
    reported = len(manifests.gaps)
    with interpreter_of(manifests) as interpreter:
        world = world_of(
            manifests,
            flags.replica_fields,
            workload_affinity=flags.workload_affinity,
            interpreter=interpreter,
            schedulers=SCHEDULERS | set(flags.schedulers),
            assumptions=_assumptions(manifests, flags),
            moves=next((each.moves for each in _leases(manifests, flags)), DEFAULT_MOVES),
        )
    complain_about(manifests.gaps[reported:])
    for problem in islice(price_errors(world.clusters.values()), _PROBLEMS):
        complain(problem)
    if not world.workloads:
        complain_about(file_gaps(manifests, world))
    return world


def selected(world: World, flags: SelectorFlags) -> World:
    """Return the world without workloads that have other labels. Raises ``InputError`` if none is left."""
    labels = flags.labels
    if labels is None:
        return world
    kept = [each for each in world.workloads if labels.matches(each.labels)]
    if not kept:
        raise InputError(f"no workload has the labels of -l {shown(flags.selector)}")
    return msgspec.structs.replace(world, workloads=kept)


def _assumptions(manifests: Manifests, flags: PresentFlags) -> Assumptions:
    """Return what the options and the Lease of the controllers among the manifests say about the switches."""
    if not isinstance(flags, AssumptionFlags):
        return ALL_OFF
    now, leases = time_of(manifests), _leases(manifests, flags)
    running = next(filter(None, (each.running(now) for each in leases)), None)
    return assumptions(
        Switch(flags.failover),
        Switch(flags.preemption),
        running,
        manifests.bindings,
        braked=any(each.brake.reason for each in leases),
        brake=next((each.brake_limits for each in leases), DEFAULT_BRAKE),
        tainted_by=evicting_policies(manifests.taint_policies, manifests.clusters),
        scheduler=next(filter(None, (each.scheduler for each in leases)), ""),
    )


def _leases(manifests: Manifests, flags: PresentFlags) -> list[LeaseRecord]:
    """Return what the Lease of the controllers records, if the manifests have it."""
    if not isinstance(flags, AssumptionFlags):
        return []
    return [
        lease_record(each.raw)
        for each in (ignored.document for ignored in manifests.ignored)
        if (each.api_version, each.kind) == LEASE and (each.namespace, each.name) == flags.lease
    ]


def _without_lua(*_: object) -> NoReturn:
    raise ScriptError(f"it needs the extra `interpreters`: {extra_remedy('interpreters')}")


@contextmanager
def interpreter_of(manifests: Manifests) -> Iterator[Interpreter | None]:
    """Run the scripts of a control plane. The context is their interpreter; None without scripts."""
    given = manifests.customizations
    scripts, needs, parts = replica_scripts(given), dependency_scripts(given), component_scripts(given)
    if not (scripts or needs or parts):
        yield None
    elif not is_available():
        yield lua_interpreter(scripts, _without_lua, needs, parts)
    else:
        with ScriptProcess() as run:
            yield lua_interpreter(scripts, run, needs, parts)


def rebalances(manifests: Manifests, world: World) -> list[Change]:
    """Return the changes that the WorkloadRebalancers of manifests bring, and report workloads without a binding."""
    found = [changes.Rebalance(each) for each in manifests.rebalancers]
    for change in found:
        for workload in change.without_binding(world):
            name = change.rebalancer.metadata.name
            complain(f"WorkloadRebalancer {name}: {workload} has no binding, so that nothing is rescheduled")
    return [change for change in found if change.open_workloads()]
