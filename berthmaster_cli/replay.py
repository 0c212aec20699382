"""``berthmaster replay``: decide recorded decisions again, under another policy, other plugins or this version."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from berthmaster.manifests import read_documents
from berthmaster.manifests.document import Document
from berthmaster.model.binding import Binding, holder, short_assignment
from berthmaster.model.decode import convert
from berthmaster.model.errors import FieldError, InputError
from berthmaster.model.meta import object_name, with_spec
from berthmaster.model.policy import POLICY_KINDS, Policy
from berthmaster.model.policy_defaults import defaulted
from berthmaster.model.unsupported_placement import checked_placement
from berthmaster_cli.answers import AnswerKind
from berthmaster_cli.flags import option, options
from berthmaster_cli.ledger_options import RangeFlags
from berthmaster_cli.main import EXIT_CHECK_FAILED
from berthmaster_cli.output import OutputFlags, complain, echo, print_answer, print_table
from berthmaster_cli.scheduling_options import PluginFlags, plugin_profile

if TYPE_CHECKING:
    from berthmaster.ledger.past import PastDecision
    from berthmaster.ledger.replay import Replayed
    from berthmaster.scheduling.profile import Profile

_MAX_SHOWN: Final = 1000
_COLUMNS: Final = ("TIME", "ID", "RESOURCE", "RECORDED", "NOW", "DIFFERENCE")
_PLUGIN_OPTIONS: Final = ("plugins", "keep_empty", "placement_limits")


class ReplayDifference(msgspec.Struct, frozen=True, rename="camel"):
    """A decision that differs from the recorded one, with the recorded and the new value of each part."""

    id: str
    time: str
    resource: str
    differences: dict[str, tuple[Any, Any]]
    recorded: dict[str, int] | None
    now: dict[str, int] | None


class ReplayReport(msgspec.Struct, frozen=True):
    """How many decisions were made again, how many of them differ, and the first of these."""

    decisions: int
    differ: int
    differences: list[ReplayDifference]


_ANSWER: Final = AnswerKind("ReplayReport", ReplayReport)


class _ReplayFlags(RangeFlags, PluginFlags, OutputFlags):
    policies: tuple[Path, ...] = option(
        "Policies that replace those of the same name. Only workloads that they hold are decided. Repeatable.",
        type=click.Path(exists=True, path_type=Path), names=("--policy",), metavar="PATH",
    )  # fmt: skip
    check: bool = option("Exit with 1 if a decision differs from the recorded one.")


@click.command(
    context_settings={"auto_envvar_prefix": "BERTHMASTER_REPLAY"},
    epilog="Exit codes: 0 success; 1 with --check, a decision differs; 2 bad usage or input.",
)
@options(_ReplayFlags, ledger="The ledger to read", records="decisions")
@click.pass_context
def command(ctx: click.Context, flags: _ReplayFlags, /) -> None:
    """Decide recorded decisions again on what they read, and show what differs.

    Without --policy and plugin options, this version must decide the same, byte for byte: use --check before an
    upgrade. Each decision starts from the recorded assignment, and not from the replayed one before it.
    """
    from berthmaster.ledger.history import row_for  # noqa: PLC0415 - SQLAlchemy is imported only for a ledger
    from berthmaster.ledger.replay import replay  # noqa: PLC0415 - the same

    since_us, until_us = flags.range_us()
    rewrite = _rewrite(flags.policies) if flags.policies else None
    found: list[ReplayDifference] = []
    count = differing = 0
    for each in replay(flags.opened(), since_us, until_us, _profile(ctx, flags), rewrite):
        count += 1
        if each.same:
            continue
        differing += 1
        if len(found) < _MAX_SHOWN:
            found.append(_difference(each, row_for(each.past.segment, each.past.entry).time))
    if flags.output == "table":
        _print(found)
    else:
        print_answer(_ANSWER, ReplayReport(count, differing, found), flags.output)
    if differing > len(found):
        complain(f"{differing - len(found)} more decisions differ")
    if flags.output == "table":
        echo(f"{count} decision{'' if count == 1 else 's'}, {differing} differ")
    if not count:
        complain("the ledger has no decisions in this range")
    ctx.exit(EXIT_CHECK_FAILED if flags.check and differing else 0)


def _profile(ctx: click.Context, flags: PluginFlags) -> "Profile | None":
    """Return the profile that options ask for; None without such an option: each decision has its own."""
    default = click.core.ParameterSource.DEFAULT
    if all(ctx.get_parameter_source(name) is default for name in _PLUGIN_OPTIONS):
        return None
    return plugin_profile(flags, workload_affinity=True)


def _rewrite(paths: Sequence[Path]) -> "Callable[[PastDecision], Binding | None]":
    documents = read_documents([str(path) for path in paths])
    found = [_policy(each) for each in documents if each.raw["kind"] in POLICY_KINDS]
    policies = {each.reference: each for each in found}
    if not policies:
        raise InputError("--policy: the files contain no PropagationPolicy and no ClusterPropagationPolicy")

    def rewritten(past: "PastDecision") -> Binding | None:
        held_by = holder(past.binding.metadata)
        policy: Policy | None = None if held_by is None else policies.get(held_by)
        if policy is None:
            return None
        return with_spec(past.binding, placement=policy.spec.placement)

    return rewritten


def _policy(document: Document) -> Policy:
    try:
        policy = defaulted(convert(Policy, document.raw))
        placement = checked_placement(policy.spec.placement, document.raw.get("spec", {}).get("placement"))
    except FieldError as error:
        raise document.error(error) from None
    return with_spec(policy, placement=placement)


def _difference(replayed: "Replayed", time: str) -> ReplayDifference:
    past, then, now = replayed.past, replayed.past.outcome, replayed.outcome
    resource = past.binding.spec.resource
    parts = {
        name: (getattr(then, name), getattr(now, name))
        for name in then.__struct_fields__
        if getattr(then, name) != getattr(now, name)
    }
    return ReplayDifference(
        past.id,
        time,
        object_name(resource.namespace, resource.kind, resource.name),
        {name: (msgspec.to_builtins(before), msgspec.to_builtins(after)) for name, (before, after) in parts.items()},
        then.clusters,
        now.clusters,
    )


def _print(found: Sequence[ReplayDifference]) -> None:
    rows = []
    for each in found:
        recorded, now = (
            "stays" if clusters is None else short_assignment(clusters) for clusters in (each.recorded, each.now)
        )
        names = ", ".join(sorted(each.differences)) or "encoding"
        rows.append((each.time[:19] + "Z", each.id, each.resource, recorded, now, names))
    if rows:
        print_table(_COLUMNS, rows)
