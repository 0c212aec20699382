"""``berthmaster plan``: the objects that would be applied and deleted, checked as an apply would check them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec.structs import replace

from berthmaster.manifests import Document, manifests_of, overlaid
from berthmaster.model.errors import BerthmasterError
from berthmaster.model.policy_defaults import DEFAULT_NAMESPACE
from berthmaster.runtime.traces import inner_span, span
from berthmaster.simulation.change_set import PlanIndex
from berthmaster.simulation.plan_answer import Plan
from berthmaster.simulation.planner import plan
from berthmaster.simulation.world import is_observed
from berthmaster.views.texts import count_text
from berthmaster_cli import completion, inputs, namespaces
from berthmaster_cli.flags import option, options
from berthmaster_cli.idle_policies import report_idle_policies
from berthmaster_cli.ignored import report_not_considered, report_unknown_replicas
from berthmaster_cli.options import KustomizeFlags, PlaneFlags
from berthmaster_cli.output import complain, complain_about, complain_error, counting, print_answer, print_page
from berthmaster_cli.plan.changed_objects import Deletions, change_set, checked_objects
from berthmaster_cli.plan.page import markdown_lines, page
from berthmaster_cli.plan.review_comment import SERVICES, write_comment
from berthmaster_cli.reading import documents_of
from berthmaster_cli.scheduling_options import profile_from
from berthmaster_cli.source_options import AssumptionFlags, SimulationFlags
from berthmaster_cli.tables import PLAN, print_plan
from berthmaster_cli.watching import WatchFlags, watched

if TYPE_CHECKING:
    from berthmaster.kube.kubeconfig import ClusterAccess

FORMATS: Final = ("table", "json", "yaml", "markdown", "html")
CONDITIONS: Final = ("lost", "moved", "overcommit")
EXIT_ERROR: Final = 1
EXIT_MOVES: Final = 2
EXIT_LIMIT: Final = 3
EXIT_CODES_HELP: Final = (
    "Exit codes: 0 success, and with --detailed-exitcode nothing moves; 1 an error, or a question that an incomplete "
    "plan cannot answer; 2 with --detailed-exitcode something moves; 3 a limit is exceeded (--fail-on, --max-moves, "
    "--max-percent), or --expect found another plan; 130 interrupted."
)
_PATHS: Final = click.Path(allow_dash=True)
_INSTEAD: Final = "its objects with --against FILE"
_NO_BINDINGS: Final = "no bindings are known: the plan starts from a first scheduling of the manifests"


def _write(plan: Plan, output: str, problems: Sequence[str]) -> None:
    """Print a plan. Documents name the limits that it exceeds: their readers do not see standard error."""
    match output:
        case "json" | "yaml":
            print_answer(PLAN, plan, output)
        case "markdown":
            print_page(markdown_lines(plan, problems))
        case "html":
            print_page(page(plan, problems))
        case _:
            print_plan(plan)


class PlanFlags(PlaneFlags, KustomizeFlags, SimulationFlags, AssumptionFlags, WatchFlags):
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
        "", names=("-n", "--namespace"), metavar="NAME", shell_complete=completion.namespaces,
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
        "Exit with 3 if the plan is not the one with this id.", "", names=("--expect",), metavar="ID"
    )
    old_expected_id: str = option("The old name of --expect.", "", names=("--check",), metavar="ID", hidden=True)

    @property
    def wanted_id(self) -> str:
        return self.expected_id or self.old_expected_id


def _outcome(plan: Plan, flags: PlanFlags) -> tuple[int, list[str]]:
    """Return the exit code, and the sentences that explain it.

    A limit that the known part of a plan exceeds is exceeded in any case. A limit that it keeps is not known to be
    kept if the plan is incomplete, and neither is the id.
    """
    exceeded = list(_exceeded(plan, flags))
    if not plan.complete and flags.wanted_id:
        return EXIT_ERROR, [*exceeded, "the plan is incomplete, so that --expect cannot compare its id"]
    if flags.wanted_id and plan.id != flags.wanted_id:
        exceeded.append(
            f"the plan is {plan.id}, and not {flags.wanted_id}: the changed objects, or what they would move, differ"
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
    if flags.against:
        flags.refuse_manner_of_files("leave out --against")
    if "-" in flags.paths and "-" in flags.against:
        raise click.UsageError("-f and --against cannot both be standard input")


def _changed_documents(flags: PlanFlags, access: "ClusterAccess | None") -> list[Document]:
    read = documents_of(flags.paths, flags.kustomizations)
    named = (flags.namespace, access.named_namespace if access is not None else "")
    return namespaces.placed(read, named, strict=flags.strict_namespace)


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


@contextmanager
def _ending_with_1() -> Iterator[None]:
    try:
        yield
    except click.ClickException as error:
        error.exit_code = EXIT_ERROR  # type: ignore[misc]  # the only place that every caller reads
        raise
    except BerthmasterError as error:
        complain_error(error)
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
@watched("comment")
def command(flags: PlanFlags) -> None:
    """Show what a change of objects would move, before it is applied.

    Reads a control plane, or with --against files, and compares the workloads as they are with what they would be
    after the objects of -f are applied: policies, overrides, clusters and workloads. The id in the first line stands
    for the change and its effect; --expect ID fails once the effect differs.

    \b
    Examples:
      berthmaster plan -f policy.yaml
      berthmaster plan --delete ClusterPropagationPolicy/default-all
      berthmaster plan --against examples/karmada -f examples/plan/nginx.yaml
    """
    if flags.old_expected_id:
        complain("--check is the old name of --expect")
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


def _after(before: Sequence[Document], given: Sequence[Document]) -> list[Document]:
    """Return the templates once some are applied."""
    return list({**{each.identity: each for each in before}, **{each.identity: each for each in given}}.values())


def planned(flags: PlanFlags, known: list[Document] | None = None) -> Plan:
    """Return the plan that the options ask for. ``known``: the documents of ``--against``, if they have been read."""
    profile = profile_from(flags)
    with inner_span("read"):
        _check_usage(flags)
        access = None if flags.against else inputs.find_control_plane(flags, _INSTEAD)
        changed = _changed_documents(flags, access)
        base, origin = base_documents(flags, access, changed) if known is None else (known, ", ".join(flags.against))
        manifests = manifests_of(base, origin, **flags.reading)
        identities = {each.identity for each in changed}
        over = overlaid([each for each in base if each.identity in identities], changed)
        objects, removed = checked_objects(over, flags), Deletions()
        for text in flags.deleted:
            removed.name(text, manifests, flags.namespace)
        if flags.prune:
            removed.prune(flags.selector, base, identities)
        world = replace(inputs.present_world(manifests, flags), lazy_counts=flags.lazy_counts)
        templates = [*manifests.templates, *objects.templates]
        report_idle_policies(objects.policies, templates, manifests.bindings)
        report_not_considered([*manifests.ignored, *objects.ignored], _after(manifests.templates, objects.templates))
        report_unknown_replicas(world)
        changes = change_set(objects, removed, manifests, flags.replica_fields, world)
        complain_about(gap for gap in manifests.gaps if not gap.changes_answers)
    now = inputs.time_of(manifests)
    if not manifests.knows_bindings and world.workloads:
        complain(_NO_BINDINGS)
    gaps = [gap for gap in manifests.gaps if gap.changes_answers]
    with inner_span("decide"), counting("Planning", "steps") as progress:
        return plan(
            PlanIndex(world, profile), changes, now,
            gaps=gaps, progress=progress, observed=is_observed(manifests, world),
        )  # fmt: skip
