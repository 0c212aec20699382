"""The API for scripts in Python: load a fleet, ask for a decision with its reasons, plan a change.

    from berthmaster_cli.api import load_fleet

    fleet = load_fleet("examples/karmada/clusters.yaml", "examples/karmada/groups")
    print(fleet.decide("Deployment/nginx").clusters)

The answers are those of ``berthmaster explain`` and ``berthmaster plan``. ``docs/api.md`` says what stays stable.
Everything only reads. Nothing is printed: ``warnings`` has what the commands print on standard error.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

import click

from berthmaster.manifests import manifests_of
from berthmaster.model.errors import BerthmasterError, InputError, ServiceError
from berthmaster.simulation.plan_answer import Plan
from berthmaster.simulation.report import Explanation
from berthmaster_cli.explain import explained_in
from berthmaster_cli.flags import parsed
from berthmaster_cli.inputs import present_world, time_of
from berthmaster_cli.output import complaints
from berthmaster_cli.plan.command import PlanFlags, base_documents, command, planned
from berthmaster_cli.resource_names import name_in, resource_name
from berthmaster_cli.scheduling_options import profile_from

__all__ = [
    "BerthmasterError", "Explanation", "InputError", "LoadedFleet", "Plan", "ServiceError", "connect_fleet",
    "load_fleet",
]  # fmt: skip

Assumed = Literal["auto", "on", "off"]


class LoadedFleet:
    """Clusters, policies and workloads as they were when they were read.

    Attributes:
        workloads: the workloads, as ``NAMESPACE/KIND/NAME``, or ``KIND/NAME`` for a cluster-scoped one.
        warnings: what was reported by reading and by all answers so far: one sentence each.
    """

    def __init__(self, flags: PlanFlags) -> None:
        """Read a fleet. Use ``load_fleet`` or ``connect_fleet``."""
        self.warnings: list[str] = []
        with self._reporting():
            documents, origin = base_documents(flags)
            self._flags, self._documents = flags, documents if flags.against else None
            self._manifests = manifests_of(documents, origin, **flags.reading)
            self._profile = profile_from(flags)
            self._world = present_world(self._manifests, flags)
        self.clusters: Sequence[str] = tuple(self._world.clusters)
        self.workloads: Sequence[str] = tuple(map(str, self._world.workloads))

    def decide(self, workload: str) -> Explanation:
        """Return where a workload is placed and why, as ``berthmaster explain`` does.

        Args:
            workload: ``[NAMESPACE/]TYPE/NAME``, with any name of the type that kubectl accepts.

        Returns:
            The explanation. ``clusters`` has the replicas by cluster, and ``diagnosis`` the reasons for each group and
            cluster. ``error`` and ``message`` say why it cannot be scheduled.

        Raises:
            InputError: there is no such workload, or several have the name.
        """
        with self._reporting():
            name = name_in(self._manifests, resource_name(workload), "")
            return explained_in(name, self._world, self._profile, time_of(self._manifests), ())

    def plan(self, *paths: str | Path, delete: Iterable[str] = (), namespace: str = "") -> Plan:
        """Return what a change would move, as ``berthmaster plan`` does.

        A fleet of a control plane is read again: a changed policy can select workloads that were not read before.

        Args:
            paths: files and folders with the objects that would be applied.
            delete: objects that would be deleted, as ``[NAMESPACE/]KIND/NAME``.
            namespace: the namespace of objects that name none, as ``-n``.

        Returns:
            The plan. ``moves`` has the workloads that move, ``unplaced`` those without a place, and ``complete`` says
            whether more may move.

        Raises:
            InputError: there is nothing to plan, or an object is invalid or does not exist.
            ServiceError: the control plane does not respond.
        """
        with self._reporting():
            changes = [*(f"--filename={path}" for path in paths), *(f"--delete={each}" for each in delete)]
            given = parsed(PlanFlags, command, changes)
            flags = replace(self._flags, paths=given.paths, deleted=given.deleted, namespace=namespace)
            return planned(flags, self._documents)

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        with complaints() as lines:
            try:
                yield
            except click.UsageError as error:
                raise InputError(error.format_message()) from None
            finally:
                self.warnings.extend(line for line in lines if line not in self.warnings)


def load_fleet(
    *paths: str | Path, plugins: str = "*", failover: Assumed = "auto", preemption: Assumed = "auto",
    scheduler_names: Iterable[str] = (), lenient: bool = False,
) -> LoadedFleet:  # fmt: skip
    """Load a fleet from manifests or from a dump.

    Args:
        paths: files and folders. A dump is a file of ``berthmaster simulate --dump``.
        plugins: the filters and scores, as in ``--plugins``.
        failover: what moves off a lost cluster, as in ``--failover``.
        preemption: whether policies take workloads over, as in ``--preemption``.
        scheduler_names: further schedulers whose bindings are simulated.
        lenient: whether invalid policies and misspelled fields are only warnings.

    Raises:
        InputError: a file cannot be read, or an object is invalid.
    """
    if not paths:
        raise InputError("name at least one file or folder with manifests, or use connect_fleet")
    source = [f"--against={path}" for path in paths]
    return LoadedFleet(_flags(source, plugins, failover, preemption, scheduler_names, lenient=lenient))


def connect_fleet(
    kubeconfig: str | Path | None = None, context: str | None = None, *, read_timeout_s: float = 120.0,
    plugins: str = "*", failover: Assumed = "auto", preemption: Assumed = "auto",
    scheduler_names: Iterable[str] = (), lenient: bool = False,
) -> LoadedFleet:  # fmt: skip
    """Read a fleet from a control plane.

    Args:
        kubeconfig: the file with the access; None for kubectl's order.
        context: the context; None for the current one.
        read_timeout_s: the time limit of each read, in seconds.

    Raises:
        InputError: there is no access to a control plane, or an object is invalid.
        ServiceError: the control plane does not respond.
    """
    source = [f"--read-timeout-s={read_timeout_s}"]
    source += [f"--kubeconfig={kubeconfig}"] if kubeconfig is not None else []
    source += [f"--context={context}"] if context is not None else []
    return LoadedFleet(_flags(source, plugins, failover, preemption, scheduler_names, lenient=lenient))


def _flags(
    source: Sequence[str], plugins: str, failover: Assumed, preemption: Assumed, schedulers: Iterable[str], *,
    lenient: bool,
) -> PlanFlags:  # fmt: skip
    words = [*source, f"--plugins={plugins}", f"--failover={failover}", f"--preemption={preemption}"]
    words += [f"--scheduler-name={each}" for each in schedulers]
    return parsed(PlanFlags, command, [*words, "--lenient"] if lenient else words)
