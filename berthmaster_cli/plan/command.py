"""``berthmaster plan``: the objects that would be applied and deleted, checked as an apply would check them."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec.structs import replace

from berthmaster.manifests import Document, Manifests, manifests_of, overlaid
from berthmaster.manifests.document import Identity
from berthmaster.manifests.loader import objects_of
from berthmaster.model.errors import BerthmasterError, FieldError, InputError, name_list
from berthmaster.model.hints import closest
from berthmaster.model.interpretation import check_replica_paths
from berthmaster.model.kinds import BUILT_IN_NAMES, group_of, reason_not_propagated, resolve
from berthmaster.model.policy import DEFAULT_NAMESPACE, POLICY_KINDS, PolicyReference
from berthmaster.model.replicas import ReplicaPath, template_of
from berthmaster.model.selector import parse_selector
from berthmaster.runtime.logs import inner_span, span
from berthmaster.simulation.change_set import ChangeSet, PlanIndex
from berthmaster.simulation.detector import WorkloadBuilder
from berthmaster.simulation.plan_answer import Plan
from berthmaster.simulation.planner import plan
from berthmaster.simulation.workload import ResourceName, SimulatedWorkload
from berthmaster.simulation.world import World, is_observed
from berthmaster.views.texts import count_text
from berthmaster_cli import inputs, namespaces
from berthmaster_cli.flags import option, options
from berthmaster_cli.idle_policies import report_idle_policies
from berthmaster_cli.ignored import NOT_CONSIDERED, report_not_considered, report_unknown_replicas
from berthmaster_cli.options import KubeconfigFlags, KustomizeFlags, ReadTimeoutFlags
from berthmaster_cli.output import complain, complain_about, counting, print_data, print_page
from berthmaster_cli.plan.page import SERVICES, markdown_lines, page, write_comment
from berthmaster_cli.reading import documents_of
from berthmaster_cli.tables import print_plan

if TYPE_CHECKING:
    from berthmaster.kube.kubeconfig import ClusterAccess

_CLUSTER: Final = "Cluster"
_GROUPS: Final = frozenset({"policy.karmada.io", "cluster.karmada.io"})


@dataclass(slots=True)
class Deletions:
    """What would be deleted."""

    policies: list[PolicyReference] = field(default_factory=list)
    clusters: list[str] = field(default_factory=list)
    workloads: list[ResourceName] = field(default_factory=list)
    overrides: list[str] = field(default_factory=list)

    def name(self, text: str, manifests: Manifests, namespace: str) -> None:
        """Add what a value of ``--delete`` names: ``[NAMESPACE/]KIND/NAME``, with any name of the kind.

        ``namespace``: the one of -n, for a name without a namespace; empty if there must be one such object only.
        """
        name = inputs.resource_name(text)
        kind = _karmada_kind(name.kind)
        if kind in POLICY_KINDS:
            self.policies.append(_policy(name, kind, manifests, namespace))
        elif kind == _CLUSTER:
            known = [each.name for each in manifests.clusters]
            if name.name not in known:
                raise InputError(f"--delete {name}: there is no such Cluster{_hint(name.name, known)}")
            self.clusters.append(name.name)
        elif kind in _OVERRIDES:
            self.overrides.append(f"{kind} {name.name}")
        else:
            self.workloads.append(_workload(name, manifests, namespace))

    def prune(self, selector: str, documents: Iterable[Document], kept: Collection[Identity]) -> None:
        """Add the policies and workloads that ``kubectl apply --prune`` would delete."""
        wanted = parse_selector(selector)
        for document in documents:
            if document.identity in kept or not _is_prunable(document):
                continue
            try:
                template = template_of(document.raw)
            except FieldError as error:
                raise document.error(error) from None
            if not wanted.matches(template.labels):
                continue
            if group_of(document.api_version) == "policy.karmada.io":
                namespace = "" if document.kind == POLICY_KINDS[1] else document.namespace
                self.policies.append(PolicyReference(document.kind, namespace, document.name))  # type: ignore[arg-type]
            else:
                self.workloads.append(ResourceName(document.namespace, document.kind, document.name))


def _is_prunable(document: Document) -> bool:
    if group_of(document.api_version) == "policy.karmada.io":
        return document.kind in POLICY_KINDS
    return reason_not_propagated(document.api_version, document.kind, document.namespace) is None


def _karmada_kind(text: str) -> str:
    names = resolve(text, [each for each in BUILT_IN_NAMES if each.group in _GROUPS])
    if names is not None:
        return names.kind
    return next((each for each in (*POLICY_KINDS, *_OVERRIDES, _CLUSTER) if each.lower() == text.lower()), "")


def _policy(name: ResourceName, kind: str, manifests: Manifests, namespace: str) -> PolicyReference:
    same_kind = [each.reference for each in manifests.policies if each.kind == kind]
    wanted = name.namespace or (namespace if kind == POLICY_KINDS[0] else "")
    found = [each for each in same_kind if each.name == name.name and wanted in {"", each.namespace}]
    if len(found) == 1:
        return found[0]
    if found:
        places = name_list([f"{each.namespace}/{kind}/{each.name}" for each in found])
        raise InputError(f"--delete {name}: {len(found)} policies have this name; name one of {places}")
    raise InputError(f"--delete {name}: there is no such {kind}{_hint(name.name, [each.name for each in same_kind])}")


def _workload(name: ResourceName, manifests: Manifests, namespace: str) -> ResourceName:
    meant = inputs.name_in(manifests, name, namespace)
    known = [ResourceName(each.namespace, each.kind, each.name) for each in manifests.templates]
    bound = [each.spec.resource for each in manifests.bindings]
    known += [ResourceName(each.namespace, each.kind, each.name) for each in bound]
    found = {each for each in known if meant.matches(each)}
    if len(found) == 1:
        return found.pop()
    if found:
        raise InputError(f"--delete {name}: {len(found)} resources have this name; name it as NAMESPACE/KIND/NAME")
    raise InputError(f"--delete {name}: there is no such resource{_hint(str(meant), [str(each) for each in known])}")


def _hint(name: str, known: Sequence[str]) -> str:
    close = closest(name, known)
    return f"; did you mean {close}?" if close else ""


_OVERRIDES: Final = ("OverridePolicy", "ClusterOverridePolicy")
_REFUSED: Final = {
    "work.karmada.io": "Karmada writes it: change the policy or the workload",
    "apps.karmada.io": "`berthmaster simulate -f` shows what it reschedules",
    "config.karmada.io": "a plan does not know what a change of an interpreter does",
    "core.kubeadmiral.io": "plans are for Karmada only; use `berthmaster simulate` for KubeAdmiral",
    "berthmaster.io": "name a dump with --against",
}
"""The API groups whose objects no plan can change, and what to do instead."""


def _checked_objects(documents: Sequence[Document], flags: "PlanFlags") -> Manifests:
    """Return the objects that would be applied: those of files, laid over those that they replace."""
    for document in documents:
        problem = _REFUSED.get(group_of(document.api_version))
        if problem is not None:
            raise document.error(FieldError("kind", f"{document.kind} cannot be planned: {problem}"))
    objects = objects_of(documents, **flags.reading)
    inputs.check_policies(objects, lenient=flags.lenient)
    for ignored in objects.ignored:
        if ignored.document.kind not in NOT_CONSIDERED:
            complain(f"{ignored.document.place}: ignored: {ignored.reason}")
    for sentence in objects.warnings:
        complain(sentence)
    return objects


def _change_set(
    objects: Manifests, removed: Deletions, manifests: Manifests, paths: Sequence[ReplicaPath], world: World
) -> ChangeSet:
    """Return the change set of objects that would be applied, and of those that would be deleted."""
    written = {each.reference for each in objects.policies}
    both = next((each for each in removed.policies if each in written), None)
    if both is not None:
        raise InputError(f"--delete {both}: a file of -f would apply it; leave one of them out")
    overrides = [each.document for each in objects.ignored if each.document.kind in _OVERRIDES]
    named = [f"{each.kind} {'/'.join(filter(None, (each.namespace, each.name)))}" for each in overrides]
    return ChangeSet(
        policies=tuple(objects.policies),
        deleted_policies=tuple(dict.fromkeys(removed.policies)),
        clusters=tuple(objects.clusters),
        deleted_clusters=tuple(dict.fromkeys(removed.clusters)),
        workloads=tuple(_workloads(objects, manifests, paths, world)),
        deleted_workloads=tuple(dict.fromkeys(removed.workloads)),
        overrides=(*named, *dict.fromkeys(removed.overrides)),
        existence={**dict.fromkeys(objects.found, True), **dict.fromkeys(removed.overrides, False)},
    )


def _after(before: Sequence[Document], given: Sequence[Document]) -> list[Document]:
    """Return the templates once some are applied."""
    return list({**{each.identity: each for each in before}, **{each.identity: each for each in given}}.values())


def _workloads(
    objects: Manifests, manifests: Manifests, paths: Sequence[ReplicaPath], world: World
) -> Iterable[SimulatedWorkload]:
    if not objects.templates:
        return []
    check_replica_paths(paths, (each.raw for each in (*manifests.templates, *objects.templates)))
    with inputs.interpreter_of(manifests) as interpreter:
        builder = WorkloadBuilder(
            manifests,
            paths,
            interpreter,
            workload_affinity=world.workload_affinity,
            existing=manifests.existing.changed(dict.fromkeys(objects.found, True)),
            preempts=world.assumptions.preempts,
        )
        return [builder.of_template(document) for document in objects.templates]


FORMATS: Final = ("table", "json", "yaml", "markdown", "html")


def _write(plan: Plan, output: str, problems: Sequence[str]) -> None:
    """Print a plan. Documents name the limits that it exceeds: their readers do not see standard error."""
    match output:
        case "json" | "yaml":
            print_data(plan, output)
        case "markdown":
            print_page(markdown_lines(plan, problems))
        case "html":
            print_page(page(plan, problems))
        case _:
            print_plan(plan)


CONDITIONS: Final = ("lost", "moved", "overcommit")
EXIT_ERROR: Final = 1
EXIT_MOVES: Final = 2
EXIT_LIMIT: Final = 3
EXIT_CODES_HELP: Final = (
    "Exit codes: 0 success, and with --detailed-exitcode nothing moves; 1 an error, or a question that an incomplete "
    "plan cannot answer; 2 with --detailed-exitcode something moves; 3 a limit is exceeded (--fail-on, --max-moves, "
    "--max-percent), or --check found another plan; 130 interrupted."
)


_PATHS: Final = click.Path(allow_dash=True)


class PlanFlags(KubeconfigFlags, ReadTimeoutFlags, KustomizeFlags, inputs.SimulationFlags, inputs.AssumptionFlags):
    """The options of ``berthmaster plan``."""

    paths: tuple[str, ...] = option(
        "The objects that would be applied: a file, a folder, or - for standard input. Repeatable.",
        type=_PATHS, names=("-f", "--filename"), metavar="PATH",
    )  # fmt: skip
    deleted: tuple[str, ...] = option(
        "An object that would be deleted: a policy, a cluster or a workload. Repeatable.",
        names=("--delete",), metavar="[NAMESPACE/]KIND/NAME",
    )  # fmt: skip
    prune: bool = option("The policies and workloads that -l selects and that -f does not have would be deleted, too.")
    selector: str = option(
        "With --prune: their labels, as in kubectl.", "", names=("-l", "--selector"), metavar="SELECTOR"
    )
    namespace: str = option(
        "The namespace of objects that name none. Default: that of the context; with --against, default and a warning.",
        "", names=("-n", "--namespace"), metavar="NAME",
    )  # fmt: skip
    strict_namespace: bool = option("Refuse objects of -f without a namespace, unless -n or the context names one.")
    against: tuple[str, ...] = option(
        "Read manifests, such as a dump of `berthmaster simulate --dump`, instead of a control plane. Repeatable.",
        type=_PATHS, metavar="PATH",
    )  # fmt: skip
    output: str = option(
        "Output format: markdown for a comment on a pull request, html for a page of its own.",
        "table", click.Choice(FORMATS), names=("-o", "--output"),
    )  # fmt: skip
    comment: str | None = option(
        "Also write the plan as a comment on the pull request (GitHub) or merge request (GitLab) of the CI job. A "
        "later plan replaces the comment. GITHUB_TOKEN or GITLAB_TOKEN has the token.",
        type=click.Choice(SERVICES),
    )  # fmt: skip
    lazy_counts: bool = option(
        "Count what may happen later, as the gate blast-radius does: what Lazy policies put off, and claims of "
        "policies that are deleted or do not select the workload any more."
    )
    detailed: bool = option("Exit with 2 if something moves.", names=("--detailed-exitcode",))
    conditions: tuple[str, ...] = option(
        "Exit with 3 if a workload would have no place or too few replicas (lost), if any would move (moved), or if "
        "a cluster would be overcommitted (overcommit). Repeatable.",
        type=click.Choice(CONDITIONS), names=("--fail-on",),
    )  # fmt: skip
    max_moves: int | None = option("Exit with 3 if more workloads would move.", type=click.IntRange(min=0), metavar="N")
    max_percent: float | None = option(
        "Exit with 3 if a larger part of all workloads would move, in percent.",
        type=click.FloatRange(0, 100), metavar="P",
    )  # fmt: skip
    expected_id: str = option(
        "Exit with 3 if the plan is not the one with this id.", "", names=("--check",), metavar="ID"
    )


def _outcome(plan: Plan, flags: PlanFlags) -> tuple[int, list[str]]:
    """Return the exit code, and the sentences that explain it.

    A limit that the known part of a plan exceeds is exceeded in any case. A limit that it keeps is not known to be
    kept if the plan is incomplete, and neither is the id.
    """
    exceeded = list(_exceeded(plan, flags))
    if not plan.complete and flags.expected_id:
        return EXIT_ERROR, [*exceeded, "the plan is incomplete, so that --check cannot compare its id"]
    if flags.expected_id and plan.id != flags.expected_id:
        exceeded.append(
            f"the plan is {plan.id}, and not {flags.expected_id}: the changed objects, or what they would move, differ"
        )
    if exceeded:
        return EXIT_LIMIT, exceeded
    limited = flags.conditions or flags.max_moves is not None or flags.max_percent is not None
    if not plan.complete and limited:
        return EXIT_ERROR, ["the plan is incomplete, so that it is not known whether it keeps the limits"]
    if flags.detailed and plan.moves_anything:
        return EXIT_MOVES, []
    if flags.detailed and not plan.complete:
        return EXIT_ERROR, ["the plan is incomplete, so that it is not known whether anything moves"]
    return 0, []


def _exceeded(plan: Plan, flags: PlanFlags) -> Iterator[str]:
    summary = plan.summary
    if "lost" in flags.conditions and summary.new_failures:
        failed = count_text(len(summary.new_failures), "workload")
        yield f"--fail-on lost: {failed} would have no place or too few replicas"
    if "moved" in flags.conditions and summary.moved:
        yield f"--fail-on moved: {count_text(summary.moved, 'workload')} would move"
    if "overcommit" in flags.conditions and plan.overcommitted:
        yield f"--fail-on overcommit: {count_text(len(plan.overcommitted), 'cluster')} would be overcommitted"
    if flags.max_moves is not None and summary.moved > flags.max_moves:
        yield f"--max-moves {flags.max_moves}: {count_text(summary.moved, 'workload')} would move"
    percent = 100 * summary.moved / summary.workloads if summary.workloads else 0.0
    if flags.max_percent is not None and percent > flags.max_percent:
        yield f"--max-percent {flags.max_percent:g}: {percent:.3g} % of the workloads would move"


def _check_usage(flags: PlanFlags) -> None:
    if flags.prune != bool(flags.selector):
        raise click.UsageError("--prune and -l go together: -l selects the objects that --prune deletes")
    if not flags.paths and not flags.kustomizations and not flags.deleted:
        raise click.UsageError("name the objects that would be applied with -f, or deleted with --delete")
    live_options = [name for name in ("kubeconfig", "context") if getattr(flags, name) is not None]
    if flags.against and live_options:
        raise click.UsageError(f"--against cannot be combined with --{live_options[0]}")
    if "-" in flags.paths and "-" in flags.against:
        raise click.UsageError("-f and --against cannot both be standard input")


def _changed_documents(flags: PlanFlags, access: "ClusterAccess | None") -> list[Document]:
    read = documents_of(flags.paths, flags.kustomizations)
    named = (flags.namespace, access.named_namespace if access is not None else "")
    return namespaces.placed(read, named, strict=flags.strict_namespace)


_INSTEAD: Final = "its objects with --against FILE"


def base_documents(
    flags: PlanFlags, access: "ClusterAccess | None" = None, changed: Sequence[Document] = ()
) -> tuple[list[Document], str]:
    """Return the stored objects with what ``changed`` selects, or those of ``--against``, and where they come from."""
    if flags.against:
        documents = documents_of(flags.against)
        namespace = flags.namespace or DEFAULT_NAMESPACE
        return [each.with_namespace(namespace) for each in documents], ", ".join(flags.against)
    from berthmaster_cli.live.source import live_fleet  # noqa: PLC0415 - files need no client

    access = access or inputs.find_control_plane(flags, _INSTEAD)
    live = live_fleet(access, inputs.read_limits(flags), "", changed)
    return live.all(), live.snapshot.name


_NO_BINDINGS = "no bindings are known: the plan starts from a first scheduling of the manifests"


@contextmanager
def _ending_with_1() -> Iterator[None]:
    try:
        yield
    except click.ClickException as error:
        error.exit_code = EXIT_ERROR  # type: ignore[misc]  # the only place that every caller reads
        raise
    except BerthmasterError as error:
        complain(str(error))
        raise SystemExit(EXIT_ERROR) from None


class _PlanCommand(click.Command):
    """A command that ends with 1 after an error: 2 means that something moves."""

    def make_context(self, *args: Any, **extra: Any) -> click.Context:  # noqa: ANN401 - click's
        with _ending_with_1():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's
        with _ending_with_1():
            return super().invoke(ctx)


@click.command(cls=_PlanCommand, epilog=EXIT_CODES_HELP)
@options(PlanFlags, server="the control plane to read")
def command(flags: PlanFlags) -> None:
    """Show what a change of objects would move, before it is applied.

    Reads a control plane, or with --against files, and compares the workloads as they are with what they would be
    after the objects of -f are applied: policies, overrides, clusters and workloads. The id in the first line stands
    for the change and its effect; --check ID fails once the effect differs.

    \b
    Examples:
      berthmaster plan -f policy.yaml
      berthmaster plan --delete ClusterPropagationPolicy/default-all
      berthmaster plan --against examples -f examples-plan/nginx.yaml
    """
    with span("plan"):
        found = planned(flags)
    exit_code, messages = _outcome(found, flags)
    _write(found, flags.output, messages)
    if flags.comment is not None:
        write_comment(flags.comment, markdown_lines(found, messages))
    for message in messages:
        complain(message)
    if exit_code:
        raise SystemExit(exit_code)


def planned(flags: PlanFlags, known: list[Document] | None = None) -> Plan:
    """Return the plan that the options ask for. ``known``: the documents of ``--against``, if they have been read."""
    profile = inputs.profile_from(flags)
    with inner_span("read"):
        _check_usage(flags)
        access = None if flags.against else inputs.find_control_plane(flags, _INSTEAD)
        changed = _changed_documents(flags, access)
        base, origin = base_documents(flags, access, changed) if known is None else (known, ", ".join(flags.against))
        manifests = manifests_of(base, origin, **flags.reading)
        if manifests.federation.clusters:
            raise InputError(f"{origin}: plans are for Karmada only; use `berthmaster simulate` for KubeAdmiral")
        identities = {each.identity for each in changed}
        over = overlaid([each for each in base if each.identity in identities], changed)
        objects, removed = _checked_objects(over, flags), Deletions()
        for text in flags.deleted:
            removed.name(text, manifests, flags.namespace)
        if flags.prune:
            removed.prune(flags.selector, base, identities)
        world = replace(inputs.present_world(manifests, flags), lazy_counts=flags.lazy_counts)
        templates = [*manifests.templates, *objects.templates]
        report_idle_policies(objects.policies, templates, manifests.bindings)
        report_not_considered([*manifests.ignored, *objects.ignored], _after(manifests.templates, objects.templates))
        report_unknown_replicas(world)
        changes = _change_set(objects, removed, manifests, flags.replica_fields, world)
        complain_about(gap for gap in manifests.gaps if not gap.changes_answers)
    now = manifests.read_at or inputs.current_time()
    if not manifests.knows_bindings and world.workloads:
        complain(_NO_BINDINGS)
    gaps = [gap for gap in manifests.gaps if gap.changes_answers]
    with inner_span("decide"), counting("Planning", "steps") as progress:
        return plan(
            PlanIndex(world, profile), changes, now,
            gaps=gaps, progress=progress, observed=is_observed(manifests, world),
        )  # fmt: skip
