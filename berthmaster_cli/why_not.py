"""``berthmaster why-not``: the smallest change under which a cluster would get a workload."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import click

from berthmaster.ledger.times import microseconds
from berthmaster.model.errors import InputError
from berthmaster.simulation.scheduling_cycle import run, scheduler_of
from berthmaster.simulation.why_not import WhyNot, question_of, why_not
from berthmaster.views.texts import assignment_text, without_zeros
from berthmaster_cli import completion, inputs, ledger_options
from berthmaster_cli.answers import AnswerKind
from berthmaster_cli.flags import argument, option, options
from berthmaster_cli.history import workload_query
from berthmaster_cli.output import OutputFlags, print_answer, print_line, styled
from berthmaster_cli.resource_names import resource_argument
from berthmaster_cli.scheduling_options import profile_from
from berthmaster_cli.source_options import SourceFlags, WorkloadNamespaceFlags
from berthmaster_cli.watching import WatchFlags, watched

_ANSWER: Final = AnswerKind("WhyNot", WhyNot)


class _WhyNotFlags(OutputFlags, WorkloadNamespaceFlags, SourceFlags, ledger_options.ReadLedgerFlags, WatchFlags):
    words: tuple[str, ...] = argument(
        metavar="TYPE/NAME CLUSTER", nargs=-1, required=True, shell_complete=completion.workload_and_cluster
    )
    at: datetime | None = option(
        "Answer for the last decision up to this time, from the ledger.", type=ledger_options.MOMENT
    )


@click.command()
@options(_WhyNotFlags, server="the control plane to read", ledger="With --at: the ledger to read")
@watched("at", "dump")
def command(flags: _WhyNotFlags) -> None:
    """Show the smallest change under which a cluster would get a workload.

    Says for each group, in order, why the cluster is not taken. Then tries labels, taints, names, spread constraints,
    requests, replicas and more, alone and together. Each answer is enough and confirmed by deciding again. No number
    becomes more than twice or less than half the present one. Reads a control plane; with -f it reads manifests, with
    --at the ledger. Changes nothing.

    \b
    Examples:
      berthmaster why-not deploy/checkout member7 -n shop
      berthmaster why-not -f examples/karmada deploy/trainer member5
    """
    if len(flags.words) not in {2, 3}:
        raise click.UsageError("accepted are TYPE/NAME CLUSTER and TYPE NAME CLUSTER")
    *resource, cluster = flags.words
    answer = _present(resource, cluster, flags) if flags.at is None else _past(resource, cluster, flags.at, flags)
    if flags.output != "table":
        print_answer(_ANSWER, answer, flags.output)
    else:
        _print(answer)


def _past(resource: Sequence[str], cluster: str, at: datetime, flags: _WhyNotFlags) -> WhyNot:
    if flags.ledger is None:
        raise click.UsageError(f"--at needs --ledger, or {ledger_options.ENVIRONMENT}")
    if flags.paths or flags.live or flags.kubeconfig is not None or flags.context is not None:
        raise click.UsageError("--at cannot be combined with -f, --live, --kubeconfig or --context")
    from berthmaster.ledger.explanations import why_not_then  # noqa: PLC0415 - SQLAlchemy is imported only for a ledger

    query = workload_query(resource, flags.namespace)._replace(until_us=microseconds(at))
    return why_not_then(flags.opened(), query, cluster)


def _present(resource: Sequence[str], cluster: str, flags: _WhyNotFlags) -> WhyNot:
    name = resource_argument(resource, flags.namespace)
    manifests, name = inputs.read_workload_manifests(flags, name)
    profile = profile_from(flags)
    world, now = inputs.present_world(manifests, flags), inputs.time_of(manifests)
    settled, results = run(world, profile, now)
    found = [index for index, each in enumerate(world.workloads) if name.matches(each.resource)]
    if not found:
        raise InputError(f"there is no {name}")
    if len(found) > 1:
        raise InputError(f"{name} is ambiguous; name it as NAMESPACE/KIND/NAME")
    (index,) = found
    scheduler = scheduler_of(settled, profile)
    return why_not(question_of(scheduler, settled, world.workloads[index], results[index], now), cluster)


def _print(answer: WhyNot) -> None:
    clusters = assignment_text(without_zeros(answer.clusters)) or "no cluster"
    if answer.taken:
        print_line(styled(f"{answer.cluster} is selected", "bold green"), f": {clusters}")
        return
    for reason in answer.reasons:
        print_line(reason)
    if answer.changes:
        print_line(styled(f"{answer.cluster} would be selected with:", "bold"))
        for change in answer.changes:
            print_line("  ", styled(change, "green"))
        print_line("then: ", clusters)
    for other in answer.alternatives:
        print_line("or with: ", "; ".join(other))
    for text in answer.unknown:
        print_line(styled(text, "yellow"))
