"""The input of simulate, explain and plan: files, a control plane or an extender, and the world that it describes.

Also names of resources on the command line, as kubectl accepts them, and the changes of a what-if. Each change has the
effect that it has in Karmada.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, TypedDict

import click
import msgspec.structs

from berthmaster.deciding.config import DEFAULT_BRAKE
from berthmaster.deciding.lease_record import lease_record
from berthmaster.interpreters.lua import ScriptError, lua_interpreter
from berthmaster.interpreters.worker import ScriptProcess, is_available
from berthmaster.manifests import Document, Manifests, manifests_of, overlaid
from berthmaster.model.binding import binding_name
from berthmaster.model.decode import convert, unknown_fields
from berthmaster.model.errors import FieldError, InputError, ServiceError, name_list, shown
from berthmaster.model.hints import closest
from berthmaster.model.interpretation import (
    Interpreter,
    check_replica_paths,
    component_scripts,
    dependency_scripts,
    replica_scripts,
)
from berthmaster.model.kinds import BUILT_IN_NAMES, group_of, guessed_names
from berthmaster.model.policy import DEFAULT_NAMESPACE
from berthmaster.model.replicas import ReplicaPath
from berthmaster.model.selector import LabelSelector, parse_selector
from berthmaster.model.validation import update_errors
from berthmaster.runtime.feature_gates import WORKLOAD_AFFINITY, FeatureGates, gates_help
from berthmaster.runtime.installation import extra_remedy
from berthmaster.scheduling.karmada.profile import built_in, karmada_profile
from berthmaster.scheduling.prices import NO_PRICES, ClusterCost, Prices, price_errors
from berthmaster.scheduling.profile import Plugins, Profile, with_third_parties
from berthmaster.simulation import changes
from berthmaster.simulation.not_scheduled import SCHEDULERS
from berthmaster.simulation.plan_answer import ALL_OFF, Assumptions, Switch, assumptions, evicting_policies
from berthmaster.simulation.workload import ResourceName
from berthmaster.simulation.world import Change, World, file_gaps, world_of
from berthmaster_cli import completion, options
from berthmaster_cli.flags import Flags, option
from berthmaster_cli.namespaces import placed
from berthmaster_cli.output import complain, complain_about
from berthmaster_cli.reading import documents_of, source_of

if TYPE_CHECKING:
    from berthmaster.kube.kubeconfig import ClusterAccess
    from berthmaster.native_api import wire
    from berthmaster.native_api.client import Client
    from berthmaster.simulation.report import Explanation
    from berthmaster_cli.live.collections import ReadLimits
    from berthmaster_cli.live.source import LiveDocuments


def resource_name(text: str) -> ResourceName:
    """Parse the name of a resource."""
    try:
        return ResourceName.parse(text)
    except InputError as error:
        raise click.UsageError(str(error)) from None


def resource_argument(words: Sequence[str], namespace: str) -> ResourceName:
    """Parse a resource as kubectl does: ``TYPE/NAME`` or ``TYPE NAME``; also ``NAMESPACE/TYPE/NAME``."""
    if len(words) > 2 or (len(words) == 2 and any("/" in word for word in words)):
        raise click.UsageError(f"{' '.join(words)!r} is not one resource; accepted is TYPE/NAME or TYPE NAME")
    name = resource_name("/".join(words))
    if namespace and name.namespace not in {"", namespace}:
        raise click.UsageError(f"{words[0]!r} is in another namespace than -n {namespace}")
    return name


def name_in(manifests: Manifests, name: ResourceName, namespace: str) -> ResourceName:
    """Return a name with the kind that a plural or short name means, and the namespace, as the manifests have them."""
    present = {(group_of(each.api_version), each.kind) for each in manifests.templates}
    present |= {(group_of(each.spec.resource.api_version), each.spec.resource.kind) for each in manifests.bindings}
    # Kinds that the manifests contain come first: they are what the name can mean.
    known = [names for names in BUILT_IN_NAMES if (names.group, names.kind) in present]
    guessed = [guessed_names(*each) for each in sorted(present)]
    return changes.full_name(name, namespace, [*known, *guessed])


_PRICES_KIND: Final = "Prices"
_PROBLEMS: Final = 10
_GATES: Final = (WORKLOAD_AFFINITY,)
_STATUS_NOT_FOUND: Final = 404
LEASE: Final = ("coordination.k8s.io/v1", "Lease")


class PluginFlags(options.PlacementLimitsFlags):
    """The plugins of decisions."""

    plugins: str = option(
        "The filter and score plugins, as in karmada-scheduler: a comma-separated list of * (all), NAME (only the "
        f"named ones) and -NAME (without it). Known are {', '.join(built_in().names)}.",
        "*", metavar="LIST",
    )  # fmt: skip
    keep_empty: bool = option(
        "Keep selected clusters that get no replicas in the assignment.",
        names=("--enable-empty-workload-propagation",),
    )  # fmt: skip
    prices: Path | None = option(
        "A file with the prices of CPU and memory by labels of clusters (docs/extending.md#prices). Answers then say "
        "what a change costs each month."
    )
    cost_weight: int = option(
        "Prefer clusters on which a workload costs less: the score of the cheapest one, beside 100 for a cluster that "
        "has the workload. 0 turns the score off.",
        0, click.IntRange(0, 100),
    )  # fmt: skip


class SchedulingFlags(PluginFlags):
    """How workloads are scheduled."""

    replica_paths: tuple[str, ...] = option(
        "The fields of a custom resource that hold its replicas and its pod template, for example "
        "example.io/v1/Widget=spec.size,spec.template. *=- takes all kinds whose replicas are not known as kinds "
        "without replicas. Repeatable.",
        names=("--replica-path",), metavar="GROUP/VERSION/KIND=PATH[,PATH]",
    )  # fmt: skip
    feature_gates: str = option(
        f"Feature gates, as a comma-separated list of NAME=true|false. {gates_help(_GATES)}.", "", metavar="LIST"
    )

    @property
    def workload_affinity(self) -> bool:
        """Whether the gate WorkloadAffinity is on. Decisions depend on no other gate."""
        return FeatureGates.parse(self.feature_gates, _GATES).on(WORKLOAD_AFFINITY)

    @property
    def replica_fields(self) -> list[ReplicaPath]:
        """The fields that hold the replicas of custom resources."""
        return [ReplicaPath.parse(text) for text in self.replica_paths]


class LiveFlags(options.PlaneFlags):
    """How a control plane is read."""

    live: bool = option(
        "Read the control plane even if -f is given: the manifests replace stored objects, as an apply would."
    )
    dump: Path | None = option("Write what was read from the control plane to a file that -f reads again.")
    redact: bool = option(
        "With --dump: leave out environments, commands, images, data, and annotations that can hold them."
    )


class Reading(TypedDict):
    """Arguments of ``manifests_of``."""

    lenient: bool
    hold_unknown: bool


class PresentFlags(Flags):
    """Which bindings and policies are simulated."""

    schedulers: tuple[str, ...] = option(
        "Also simulate the bindings of the scheduler with this name, by Karmada's rules. Always simulated: "
        f"{', '.join(sorted(SCHEDULERS))}. Repeatable.",
        names=("--scheduler-name",), metavar="NAME",
    )  # fmt: skip
    unknown_fields: str = option(
        "What to do with placements that have fields which this version does not know. hold: report that no "
        "decision is simulated. ignore: decide as if the fields were absent.",
        "hold", click.Choice(["hold", "ignore"]),
    )  # fmt: skip
    lenient: bool = option(
        "Ignore misspelled fields and read policies that the webhook would refuse, with a warning for each. "
        "Otherwise both are errors.",
    )  # fmt: skip

    @property
    def reading(self) -> Reading:
        """How manifests are read."""
        return {"lenient": self.lenient, "hold_unknown": self.unknown_fields == "hold"}


class SimulationFlags(SchedulingFlags, PresentFlags):
    """What is simulated, and how it is scheduled."""


class NamespaceFlags(Flags):
    """The namespace of all workloads."""

    namespace: str = option(
        "Only the workloads of this namespace.",
        "",
        names=("-n", "--namespace"),
        metavar="NAME",
        shell_complete=completion.namespaces,
    )


class SelectorFlags(Flags):
    """The labels of workloads. A command with a text of its own for the option says what they choose."""

    selector: str = option(
        "Only the workloads with these labels, as in kubectl.", "", names=("-l", "--selector"), metavar="SELECTOR"
    )

    @property
    def labels(self) -> LabelSelector | None:
        """The selector; None without one. Raises ``InputError`` if it is invalid."""
        return parse_selector(self.selector) if self.selector else None


class WorkloadNamespaceFlags(NamespaceFlags):
    """The namespace of one workload."""

    namespace: str = option(
        "The namespace of the workload. Default: on a control plane, that of the context.",
        "", names=("-n", "--namespace"), metavar="NAME", shell_complete=completion.namespaces,
    )  # fmt: skip


class SourceFlags(LiveFlags, SimulationFlags, NamespaceFlags, options.KustomizeFlags):
    """Manifests or a control plane, and how to schedule what they hold."""

    paths: tuple[str, ...] = option(
        "Read manifests instead of a control plane: a file, a folder, or - for standard input. Repeatable.",
        type=click.Path(allow_dash=True), names=("-f", "--filename"), metavar="PATH",
    )  # fmt: skip
    namespace: str = option(
        "Only the workloads of this namespace, which is also that of objects of -f that name none.",
        "", names=("-n", "--namespace"), metavar="NAME", shell_complete=completion.namespaces,
    )  # fmt: skip


class InputFlags(SourceFlags, options.ServerFlags):
    """A source, or a running extender to ask instead."""

    server: str | None = option("Ask a running `berthmaster extender` instead.", metavar="URL")


def profile_from(flags: SchedulingFlags) -> Profile:
    """Return the scheduling profile from flags, including plugins of third parties."""
    return plugin_profile(flags, workload_affinity=flags.workload_affinity)


def plugin_profile(flags: PluginFlags, *, workload_affinity: bool, component_sets: bool = True) -> Profile:
    """Return the profile of plugins as ``profile_from`` does, with the features of gates."""
    prices = NO_PRICES if flags.prices is None else prices_in(flags.prices)
    known = with_third_parties(built_in(workload_affinity=workload_affinity))
    if flags.cost_weight:
        known = Plugins(known.filters, (*known.scores, ClusterCost(prices, flags.cost_weight)))
    switches = [switch.strip() for switch in flags.plugins.split(",") if switch.strip()]
    return karmada_profile(
        known.selected(switches),
        keep_empty=flags.keep_empty,
        limits=flags.placement_limits,
        component_sets=component_sets,
        prices=prices,
    )


def prices_in(path: Path) -> Prices:
    """Return the prices in a file. An error has the path of the value."""
    raw = options.yaml_document(path)
    if raw.get("kind") != _PRICES_KIND:
        raise InputError(f"{path}: is no list of prices; accepted is a document with kind: {_PRICES_KIND}")
    try:
        if unknown := unknown_fields(Prices, raw):
            raise unknown[0]
        prices = convert(Prices, raw)
        prices.check()
    except FieldError as error:
        raise InputError(f"{path}: {error}") from None
    return prices


def current_time() -> datetime:
    """Return the current time in whole seconds, as API servers record it."""
    return datetime.now(UTC).replace(microsecond=0)


def remote_from(flags: InputFlags) -> "Client | None":
    """Return a client of the extender that ``--server`` names; None without the option."""
    if flags.server is None:
        return flags.remote()
    if flags.paths or flags.kustomizations or flags.replica_paths:
        raise click.UsageError("--server cannot be combined with -f or --replica-path: the extender has its manifests")
    if flags.live or flags.kubeconfig is not None or flags.context is not None or flags.dump is not None:
        raise click.UsageError("--server cannot be combined with --live, --kubeconfig, --context or --dump")
    return flags.remote()


def explain_remotely(remote: "Client", name: ResourceName) -> "Explanation":
    """Ask an extender. A name without a namespace means a resource in ``default``, or else a cluster-scoped one."""
    binding = binding_name(name.kind, name.name)
    with remote as client:
        try:
            answer = client.decision(binding, name.namespace or DEFAULT_NAMESPACE)
        except ServiceError as error:
            if error.status != _STATUS_NOT_FOUND or name.namespace:
                raise
            answer = client.decision(binding)
    report_gaps(answer.gaps, answer.staleness)
    return answer.explanation


def report_gaps(gaps: Sequence[str], staleness: "wire.Staleness | None") -> None:
    """Print on standard error what an extender does not know, and since when its state is stale."""
    for gap in gaps:
        complain(gap)
    if staleness is not None and staleness.stale_since is not None:
        since = staleness.stale_since.isoformat(timespec="seconds")
        complain(f"the extender is stale since {since}: {staleness.problem}")


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
    if flags.redact and flags.dump is None:
        raise click.UsageError("--redact needs --dump")
    return live


def _require_namespace(manifests: Manifests, namespace: str) -> None:
    """Check that files have something in the namespace of -n, which may be misspelled."""
    known = {each.namespace for each in manifests.templates} | {each.metadata.namespace for each in manifests.bindings}
    known |= {each.reference.namespace for each in manifests.policies}
    known |= {each.document.namespace for each in manifests.ignored}
    known |= {each.document.namespace for each in manifests.federation.objects}
    known |= {each.metadata.namespace for each in manifests.federation.policies}
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


_SWITCHES: Final = click.Choice([each.value for each in Switch])


class AssumptionFlags(options.LeaseFlags):
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
    now = manifests.read_at or current_time()
    ignored = [each.document for each in manifests.ignored]
    leases = [
        lease_record(each.raw)
        for each in ignored
        if (each.api_version, each.kind) == LEASE and (each.namespace, each.name) == flags.lease
    ]
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


def check_policies(manifests: Manifests, *, lenient: bool) -> None:
    """Refuse the policies of files that the webhook would refuse. A stored policy is only reported."""
    if not manifests.policy_documents:
        return
    from webhook.admission.linting import lint  # noqa: PLC0415 - importing all rules takes a while
    from webhook.admission.rule_catalog import AdmissionContext  # noqa: PLC0415
    from webhook.admission.rules.failover import PURGE_MODE  # noqa: PLC0415
    from webhook.admission.schema import UNKNOWN_FIELD  # noqa: PLC0415
    from webhook.admission.settings import AdmissionSettings, Level  # noqa: PLC0415

    # The loader has judged unknown fields, and knows which of them hold a workload.
    settings = AdmissionSettings(peer_checks=True, levels={UNKNOWN_FIELD: Level.OFF})
    context = AdmissionContext(settings, lambda: "")
    edits = {after.reference: before for before, after in manifests.policy_edits if before is not None}
    for document, policy in zip(manifests.policy_documents, manifests.policies, strict=True):
        found, before = lint(document.raw, context, DEFAULT_NAMESPACE), edits.get(policy.reference)
        problems = [FieldError(each.path, each.detail) for each in (found.errors if found is not None else ())]
        for each in found.warnings if found is not None and not document.stored else ():
            if each.rule == PURGE_MODE:
                complain(str(document.error(FieldError(each.path, each.detail))))
        for problem in (*problems, *(update_errors(before, policy) if before is not None else ())):
            error = document.error(problem)
            if not (lenient or document.stored):
                raise error
            complain(f"{error} (the webhook would refuse this policy)")


def rebalances(manifests: Manifests, world: World) -> list[Change]:
    """Return the changes that the WorkloadRebalancers of manifests bring, and report workloads without a binding."""
    found = [changes.Rebalance(each) for each in manifests.rebalancers]
    for change in found:
        for workload in change.without_binding(world):
            name = change.rebalancer.metadata.name
            complain(f"WorkloadRebalancer {name}: {workload} has no binding, so that nothing is rescheduled")
    return [change for change in found if change.open_workloads()]


class SharedCapacityFlags(Flags):
    """Whether decisions share capacity."""

    shared_capacity: bool = option(
        "Decisions see the replicas that others add. By default each sees only what clusters report, as in Karmada."
    )
