"""``berthmaster explain``: why a workload is placed where it is, and why not elsewhere."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeVar

import click
import msgspec.structs
from rich.text import Text

from berthmaster.ledger.records import PastExplanation
from berthmaster.ledger.times import microseconds
from berthmaster.manifests import Manifests
from berthmaster.model.binding import binding_name
from berthmaster.model.errors import InputError, name_list
from berthmaster.model.policy_defaults import DEFAULT_SCHEDULER
from berthmaster.model.taint import NO_EXECUTE
from berthmaster.runtime.console_link import ConsoleLink
from berthmaster.scheduling.decision import Mode
from berthmaster.scheduling.diagnosis import Diagnosis, GroupDiagnosis
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.scheduling.profile import Profile
from berthmaster.simulation.change_set import what_if
from berthmaster.simulation.changes import AddTaint
from berthmaster.simulation.losses import loss_of
from berthmaster.simulation.planner import explained
from berthmaster.simulation.report import Explanation, explanation
from berthmaster.simulation.scheduling_cycle import present_result
from berthmaster.simulation.workload import ResourceName, SimulatedWorkload
from berthmaster.simulation.world import Change, World
from berthmaster.views.plan_sections import assumed
from berthmaster.views.texts import assignment_text, count_text, without_zeros
from berthmaster_cli import change_options, completion, inputs, ledger_options
from berthmaster_cli.answers import AnswerKind
from berthmaster_cli.flags import argument, option, options
from berthmaster_cli.history import moves_text, workload_query
from berthmaster_cli.ignored import notes_about_overrides
from berthmaster_cli.kubeadmiral.options import FederationFlags
from berthmaster_cli.output import WorkloadOutputFlags, echo, is_printed, print_answer, print_line, print_table, styled
from berthmaster_cli.remote_extender import explain_remotely, remote_from
from berthmaster_cli.resource_names import name_in, resource_argument
from berthmaster_cli.scheduling_options import profile_from
from berthmaster_cli.source_options import AssumptionFlags, InputFlags, SelectorFlags, WorkloadNamespaceFlags
from berthmaster_cli.tables import TRIGGERS_HELP, best_first, print_group, print_preemption
from berthmaster_cli.watching import WatchFlags, watched

if TYPE_CHECKING:
    from berthmaster.ledger.records import InputDifference, Query
    from berthmaster_cli.kubeadmiral.answers import FederationExplanation

_COLUMNS: Final = ("", "SUBJECT", "WHAT", "BEFORE", "AFTER")
_CHANGES_SHOWN: Final = 30
_MOST_SELECTED: Final = 100
_ANSWER: Final = AnswerKind("Explanation", Explanation)
_SELECTED: Final = AnswerKind("ExplanationList", list[Explanation])
_PAST: Final = AnswerKind("PastExplanation", PastExplanation)
_CONFLICTS: Final = ("paths", "live", "kubeconfig", "context", "dump", "server")


AnyExplanation = TypeVar("AnyExplanation", Explanation, "FederationExplanation")
_LIMIT: Final = 20
_NOT_GIVEN: Final = "needs, not among the input:"
_NOT_FOUND: Final = "needs, does not exist or may not be read:"


class PastFlags(InputFlags, ledger_options.ReadLedgerFlags):
    """Which recorded decision is explained."""

    at: datetime | None = option(
        "Explain the last decision up to this time from the ledger, with the fleet as it was: a time, or a "
        "duration such as 3h.",
        type=ledger_options.MOMENT,
    )  # fmt: skip
    record: str = option("Explain the decision with this id, as history shows it.", "", metavar="ID")
    diff: bool = option(
        "With --at or --record: also show what changed in the inputs since the decision before, and which of "
        "these changes made the difference. Without them it explains the latest decision.",
    )  # fmt: skip


def _asks_past(flags: PastFlags) -> bool:
    """Return whether the options ask for a recorded decision."""
    if flags.at is None and not flags.record and not flags.diff:
        return False
    if flags.ledger is None:
        raise click.UsageError(f"--at, --record and --diff need --ledger, or {ledger_options.ENVIRONMENT}")
    if flags.at is not None and flags.record:
        raise click.UsageError("--at cannot be combined with --record")
    other = next((name for name in _CONFLICTS if getattr(flags, name)), None)
    if other is not None:
        option = "-f" if other == "paths" else f"--{other}"
        raise click.UsageError(f"{option} cannot be combined with --at, --record and --diff: the ledger has the fleet")
    return True


def _explained_past(words: Sequence[str], flags: PastFlags) -> PastExplanation:
    """Return the explanation of a recorded decision."""
    from berthmaster.ledger.explanations import explain_decision  # noqa: PLC0415 - SQLAlchemy is imported only for a ledger
    from berthmaster.ledger.records import RecordId  # noqa: PLC0415 - the same

    query = workload_query(words, flags.namespace)
    wanted: Query | RecordId
    if flags.record:
        wanted = RecordId.parse(flags.record)
    else:
        wanted = query if flags.at is None else query._replace(until_us=microseconds(flags.at))
    found = explain_decision(flags.opened(), wanted, difference=flags.diff)
    record = found.record
    if query.name != record.name or query.resource_kind != record.resource_kind:
        raise InputError(
            f"decision {record.id} is about {record.resource}, and not about {query.resource_kind} {query.name}"
        )
    if flags.diff and found.difference is None:
        raise InputError(f"the ledger has no decision on this binding before {record.id}; leave out --diff")
    return found


def _print_record(explained: PastExplanation) -> None:
    record = explained.record
    print_line(styled(f"decision {record.id}", "bold"), f" of {record.time[:19]}Z, fleet {record.fleet[:12]}: ",
        moves_text(record),
    )  # fmt: skip
    for note in explained.notes:
        print_line(styled(note, "yellow"))


def _print_difference(difference: "InputDifference") -> None:
    print_line()
    print_line(styled(f"since decision {difference.previous}: ", "bold"), difference.summary)
    shown = difference.changes[:_CHANGES_SHOWN]
    if shown:
        rows = [
            (styled("*", "bold green") if each.decisive else "", each.subject, each.aspect, each.before, each.after)
            for each in shown
        ]
        print_table(_COLUMNS, rows)
    more = len(difference.changes) - len(shown)
    if more > 0:
        print_line(f"and {more} more; -o json shows all")
    if difference.without is not None:
        clusters = assignment_text(dict(difference.without)) or "no cluster"
        print_line("without the changes marked *: ", clusters)


class _ExplainFlags(
    WorkloadOutputFlags,
    SelectorFlags,
    WorkloadNamespaceFlags,
    PastFlags,
    AssumptionFlags,
    change_options.ChangeFlags,
    FederationFlags,
    WatchFlags,
):
    resource: tuple[str, ...] = argument(metavar="[TYPE/NAME]", nargs=-1, shell_complete=completion.workloads)
    selector: str = option(
        f"Explain the workloads with these labels, instead of one by its name: at most {_MOST_SELECTED}, of all "
        "namespaces without -n.", "", names=("-l", "--selector"), metavar="SELECTOR",
    )  # fmt: skip
    limit: int | None = option(
        f"The number of clusters to show for each group, the best first; 0 for all. Default: {_LIMIT} in a table, all "
        "in JSON and YAML.", type=click.IntRange(0),
    )  # fmt: skip
    console_url: str | None = option(
        "The address of the console. The answer then ends with the address of the workload's page.",
        envvar="BERTHMASTER_CONSOLE_URL", show_envvar=True, metavar="URL",
    )  # fmt: skip

    @property
    def table_limit(self) -> int:
        """How many clusters a table shows; 0 for all."""
        if self.limit is not None:
            return self.limit
        return 0 if self.output == "wide" else _LIMIT


@click.command(epilog=f"{change_options.CHANGES_HELP} {TRIGGERS_HELP}")
@options(_ExplainFlags, server="the control plane to read", ledger="With --at: the ledger to read")
@watched("at", "record", "diff", "dump")
def command(flags: _ExplainFlags) -> None:
    """Show why one workload is placed where it is, and why not elsewhere.

    TYPE/NAME is as in kubectl, for example deploy/checkout or deployments.apps/checkout. Also accepted are TYPE NAME
    and NAMESPACE/TYPE/NAME. Reads a control plane; with -f it reads manifests instead.

    For each group and cluster: the plugin that rejected it, or its score, current replicas, weight and result. With
    changes it explains the decision after them.

    \b
    Examples:
      berthmaster explain deploy/checkout -n shop
      berthmaster explain deploy/checkout -n shop --down member7
      berthmaster explain -f examples/karmada deploy/trainer
    """
    link = None if not flags.console_url else ConsoleLink(flags.console_url)
    if bool(flags.resource) == bool(flags.selector):
        raise click.UsageError("name one workload as TYPE/NAME, or choose workloads by their labels with -l")
    if flags.selector:
        _explain_selected(flags)
        return
    if _asks_past(flags):
        _show_past(flags)
        return
    remote = remote_from(flags)
    has_changes = change_options.chooses_clusters(flags) or bool(change_options.changes_from(flags))
    if remote is not None and has_changes:
        raise click.UsageError("--server cannot be combined with changes: an extender explains only what is")
    name = resource_argument(flags.resource, flags.namespace)
    if remote is not None:
        _show(explain_remotely(remote, name_in(Manifests(), name, flags.namespace)), flags, link)
        return
    manifests, name = inputs.read_workload_manifests(flags, name, with_others=has_changes)
    changes = change_options.changes_from(flags, manifests.every_cluster)
    if manifests.federation.clusters:
        from berthmaster_cli.kubeadmiral import answers as federation  # noqa: PLC0415 - only KubeAdmiral needs it

        explained = federation.explain_in_federation(
            manifests, flags.replica_fields, name, changes, duplicate_limits=flags.duplicate_limits
        )
        clusters = sorted(explained.workload.clusters)
        if not is_printed(flags.output, federation.EXPLANATION, _limited(explained, flags.limit), clusters):
            federation.print_federation_explanation(explained, flags.table_limit)
        return
    profile = profile_from(flags)
    world = inputs.present_world(manifests, flags)
    all_changes = [*inputs.rebalances(manifests, world), *changes] if changes else []
    if flags.output in {"table", "wide"}:
        print_preemption(manifests, world)
    explained_now = explained_in(name, world, profile, inputs.time_of(manifests), all_changes)
    (workload,) = world.find(name)
    notes = [*explained_now.notes, *notes_about_overrides(manifests.ignored, workload)]
    explained_now = msgspec.structs.replace(explained_now, notes=notes)
    missing = _NOT_FOUND if inputs.reads_live(flags) else _NOT_GIVEN
    _show(explained_now, flags, link, missing=missing, changes=changes)


def _explain_selected(flags: _ExplainFlags) -> None:
    """Explain each workload with the labels of ``-l``."""
    if _asks_past(flags) or remote_from(flags) is not None:
        raise click.UsageError("-l cannot be combined with --server, --at, --record and --diff")
    manifests = inputs.read_manifests(flags)
    if manifests.federation.clusters:
        raise InputError("-l selects workloads of Karmada only; name one workload of a KubeAdmiral federation instead")
    world, now = inputs.present_world(manifests, flags), inputs.time_of(manifests)
    chosen = inputs.selected(world, flags).workloads
    if len(chosen) > _MOST_SELECTED:
        raise InputError(f"-l selects {len(chosen)} workloads; at most {_MOST_SELECTED} are explained at once")
    changes = change_options.changes_from(flags, manifests.every_cluster)
    all_changes = [*inputs.rebalances(manifests, world), *changes] if changes else []
    profile = profile_from(flags)
    found = [explained_in(each.name, world, profile, now, all_changes) for each in chosen]
    limited = [_limited(each, flags.limit) for each in found]
    if is_printed(flags.output, _SELECTED, limited, (each.resource for each in found)):
        return
    for number, each in enumerate(found):
        if number:
            print_line()
        _show(each, flags, changes=changes)


def _show_past(flags: _ExplainFlags) -> None:
    if change_options.chooses_clusters(flags) or change_options.changes_from(flags):
        raise click.UsageError("changes cannot be combined with --at, --record and --diff")
    explained = _explained_past(flags.resource, flags)
    if flags.output in {"json", "yaml"}:
        print_answer(_PAST, explained, flags.output)
        return
    if flags.output != "name":
        _print_record(explained)
    _show(explained.explanation, flags)
    if explained.difference is not None and flags.output != "name":
        _print_difference(explained.difference)


def _show(
    explained: Explanation,
    flags: _ExplainFlags,
    link: ConsoleLink | None = None,
    *,
    missing: str = _NOT_GIVEN,
    changes: Sequence[Change] = (),
) -> None:
    """Print an explanation after changes. ``missing`` says why dependencies are not among the workloads."""
    if is_printed(flags.output, _ANSWER, _limited(explained, flags.limit), sorted(explained.clusters)):
        return
    if explained.assumptions is not None:
        moved = int(explained.clusters != (explained.present or explained.clusters))
        taints = any(isinstance(each, AddTaint) and each.taint.effect == NO_EXECUTE for each in changes)
        for line in assumed(explained.assumptions, explained.loss, moved, evicting_taints=taints):
            print_line(line)
    print_line(styled(explained.resource, "bold"), *(f"  {part}" for part in _headline(explained)))
    _print_claims(explained)
    related = {"follows": explained.follows, "followed by": explained.followed_by, missing: explained.missing}
    for text, names in related.items():
        if names:
            print_line(f"{text} {', '.join(names)}")
    for note in explained.notes:
        print_line(styled(note, "dim"))
    if explained.diagnosis is not None:
        if explained.trigger is Trigger.NONE and _moves(explained.diagnosis):
            print_line("nothing triggers scheduling; otherwise it would be scheduled like this:")
        _print_diagnosis(explained.diagnosis, flags.table_limit)
    result = _result(explained)
    if result:
        print_line(*result)
    if link is not None:
        *namespace, kind, name = explained.resource.split("/")
        echo(f"console: {link.workload('/'.join(namespace), binding_name(kind, name))}")


def _limited(explained: AnyExplanation, limit: int | None) -> AnyExplanation:
    """Return an explanation with at most ``limit`` clusters in each group, and how many are left out."""
    diagnosis = explained.diagnosis
    if not limit or diagnosis is None:
        return explained
    if isinstance(diagnosis, GroupDiagnosis):
        return msgspec.structs.replace(explained, diagnosis=_limited_group(diagnosis, limit))
    groups = [_limited_group(each, limit) for each in diagnosis.groups]
    return msgspec.structs.replace(explained, diagnosis=msgspec.structs.replace(diagnosis, groups=groups))


def _limited_group(group: GroupDiagnosis, limit: int) -> GroupDiagnosis:
    omitted = max(0, len(group.clusters) - limit)
    return msgspec.structs.replace(group, clusters=best_first(group)[:limit], omitted_clusters=omitted)


def explained_in(
    name: ResourceName, world: World, profile: Profile, now: datetime, changes: Sequence[Change]
) -> Explanation:
    """Return the explanation of the decision on a workload after changes."""
    found = world.find(name)
    if len(found) != 1:
        raise InputError(_not_one(str(name), found, world))
    planned, hosts = explained(world, found[0], what_if(changes, world), profile, now)
    if not changes:
        return explanation(planned.after, present_result(found[0], world.schedulers))
    return msgspec.structs.replace(
        explanation(planned.after, planned.before),
        assumptions=world.assumptions,
        loss=loss_of([planned], hosts) if hosts.stopping else None,
    )


def _not_one(resource: str, found: list[SimulatedWorkload], world: World) -> str:
    if found:
        return f"{resource} is ambiguous: {', '.join(map(str, found))}; name it as NAMESPACE/KIND/NAME"
    known = name_list([str(workload) for workload in world.workloads])
    return f"the manifests contain no {resource}" + (f"; known are {known}" if known else "")


def _moves(diagnosis: Diagnosis) -> bool:
    """Return whether the decision differs from the current assignment."""
    clusters = [each for group in diagnosis.groups for each in group.clusters]
    return any((each.replicas or 0) != (each.current or 0) for each in clusters)


def _print_diagnosis(diagnosis: Diagnosis, limit: int) -> None:
    if diagnosis.skipped:
        current = diagnosis.groups[0].group if diagnosis.groups else None
        from_current = f"the current assignment comes from group {current}; " if current else ""
        skipped = ", ".join(diagnosis.skipped)
        print_line(styled(f"{from_current}groups before it, not tried: {skipped}", "dim"))
    for group in diagnosis.groups:
        print_line()
        print_group(group, limit)
    print_line()
    if diagnosis.untried:
        print_line(styled(f"groups not tried: {', '.join(diagnosis.untried)}", "dim"))
        print_line()


def _result(explained: Explanation) -> tuple[str | Text, ...]:
    """Return the last line: where the workload is or goes, and why; empty if nothing places it."""
    clusters = assignment_text(without_zeros(explained.clusters)) or "no cluster"
    if explained.follows and explained.replicas is None:
        return (f"follows to {clusters}",)
    if explained.not_scheduled is not None:
        return (f"stays on {clusters}: {explained.message or ''}",) if explained.replicas is not None else ()
    if explained.error is None and explained.trigger is Trigger.NONE:
        return (f"stays on {clusters}: nothing triggers rescheduling",)
    if explained.error is not None or not explained.clusters:
        failed = len(explained.diagnosis.groups) if explained.diagnosis is not None else 0
        reason = f"none of the {failed} groups that were tried can place it" if failed > 1 else explained.message or ""
        stays = f"; stays on {clusters}" if explained.clusters else ""
        return styled("not scheduled", "bold red"), f": {reason}{stays}"
    moves = explained.present is not None and explained.present != explained.clusters
    now = assignment_text(without_zeros(explained.present or {})) or "no cluster"
    return styled("scheduled to", "bold green"), f" {clusters}{f'; now on {now}' if moves else ''}"


def _headline(explained: Explanation) -> list[str]:
    if explained.replicas is None:
        return [explained.message or ""]
    replicas = count_text(explained.replicas, "replica") if explained.replicated else "no replicas"
    strategy = explained.diagnosis.strategy.value if explained.diagnosis is not None else ""
    trigger = "" if explained.trigger is Trigger.NONE else explained.trigger.value
    fresh = ", all replicas reassigned" if explained.mode is Mode.FRESH else ""
    return [part for part in (replicas, strategy, f"{trigger}{fresh}") if part]


def _print_claims(explained: Explanation) -> None:
    if explained.policy is not None and not any(claim.holds for claim in explained.claims):
        print_line(f"claimed by {explained.policy}")
    for claim in explained.claims:
        how = f"{claim.policy} (priority {claim.priority}, by {claim.matched_by})"
        if claim.holds:
            print_line(f"claimed by {how}")
        else:
            reason = f": {claim.why_not}" if claim.why_not else ""
            print_line(styled(f"also matches {how}{reason}", "dim"))
    if explained.scheduler not in {None, DEFAULT_SCHEDULER}:
        print_line(f"scheduled by {explained.scheduler}")
