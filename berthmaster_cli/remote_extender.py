"""Questions to a running extender instead of files or a control plane."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from berthmaster.model.binding import binding_name
from berthmaster.model.errors import ServiceError
from berthmaster.model.policy_defaults import DEFAULT_NAMESPACE
from berthmaster.simulation.workload import ResourceName
from berthmaster_cli.output import complain
from berthmaster_cli.source_options import InputFlags

if TYPE_CHECKING:
    from berthmaster.native_api import wire
    from berthmaster.native_api.client import Client
    from berthmaster.simulation.report import Explanation


_STATUS_NOT_FOUND: Final = 404


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
