"""The options that say how workloads are scheduled, and the profile that they make."""

from pathlib import Path
from typing import Final

import click

from berthmaster.model.comma_lists import comma_separated
from berthmaster.model.decode import convert
from berthmaster.model.errors import FieldError, InputError
from berthmaster.model.replicas import ReplicaPath
from berthmaster.model.unknown_fields import unknown_fields
from berthmaster.runtime.feature_gates import WORKLOAD_AFFINITY, FeatureGates, gates_help
from berthmaster.scheduling.karmada.profile import built_in, karmada_profile
from berthmaster.scheduling.prices import NO_PRICES, ClusterCost, Prices
from berthmaster.scheduling.profile import Plugins, Profile, with_third_parties
from berthmaster_cli import options
from berthmaster_cli.flags import option
from berthmaster_cli.placement_limit_options import PlacementLimitsFlags

_PRICES_KIND: Final = "Prices"
_GATES: Final = (WORKLOAD_AFFINITY,)


class PluginFlags(PlacementLimitsFlags):
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
        "A file with the prices of CPU and memory by labels of clusters (docs/plugins.md#prices). Answers then say "
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


def profile_from(flags: SchedulingFlags) -> Profile:
    """Return the scheduling profile from flags, including plugins of third parties."""
    return plugin_profile(flags, workload_affinity=flags.workload_affinity)


def plugin_profile(flags: PluginFlags, *, workload_affinity: bool, component_sets: bool = True) -> Profile:
    """Return the profile of plugins as ``profile_from`` does, with the features of gates."""
    prices = NO_PRICES if flags.prices is None else prices_in(flags.prices)
    known = with_third_parties(built_in(workload_affinity=workload_affinity))
    if flags.cost_weight:
        known = Plugins(known.filters, (*known.scores, ClusterCost(prices, flags.cost_weight)))
    return karmada_profile(
        known.selected(comma_separated(flags.plugins)),
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
