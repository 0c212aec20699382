"""The options that say what a simulation reads: files, a control plane or an extender, and what is assumed of it."""

from pathlib import Path
from typing import Final, TypedDict

import click

from berthmaster.model.selector import LabelSelector, parse_selector
from berthmaster.simulation.not_scheduled import SCHEDULERS
from berthmaster.simulation.plan_answer import Switch
from berthmaster_cli import completion, options
from berthmaster_cli.flags import Flags, option
from berthmaster_cli.scheduling_options import SchedulingFlags

_SWITCHES: Final = click.Choice([each.value for each in Switch])


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


class SharedCapacityFlags(Flags):
    """Whether decisions share capacity."""

    shared_capacity: bool = option(
        "Decisions see the replicas that others add. By default each sees only what clusters report, as in Karmada."
    )
