"""Plugins that KubeAdmiral calls as webhooks."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

import numpy as np

from berthmaster.model.cluster import Cluster
from berthmaster.scheduling import filters
from berthmaster.scheduling.candidates import Candidates
from berthmaster.scheduling.columns import IntArray
from berthmaster.scheduling.context import Context
from berthmaster.scheduling.decision import Failure, FailureKind
from berthmaster.scheduling.kubeadmiral.score_plugins import scaled_to_best
from berthmaster.scheduling.kubeadmiral.unit import (
    SchedulingUnit,
    unit_of,
)


class ScoredCluster(NamedTuple):
    """A cluster with the sum of its scores."""

    cluster: Cluster
    score: int


class WebhookPlugin(Protocol):
    """What a webhook answers. A failed call is not modelled."""

    def rejection(self, unit: SchedulingUnit, cluster: Cluster) -> str | None:
        """Return why filter rejects a cluster; None if it passes."""

    def score(self, unit: SchedulingUnit, cluster: Cluster) -> int:
        """Return the score of a cluster. KubeAdmiral scales the best one to 100.

        Raises:
            UnscorableError: the webhook answers with an error, which fails the attempt.
        """

    def select(self, unit: SchedulingUnit, scored: Sequence[ScoredCluster]) -> list[str] | str:
        """Return the names of the selected clusters in order, or the error that fails the attempt."""

    def remark(self, unit: SchedulingUnit, selected: Sequence[Cluster]) -> str:
        """Describe the selected clusters in a few words; empty if there is nothing to say."""


Webhooks = Mapping[str, WebhookPlugin]
"""The webhooks that are known, by the name of their SchedulerPluginWebhookConfiguration."""
NO_WEBHOOKS: Final[Webhooks] = MappingProxyType({})


class WebhookFilter(filters.Filter):
    """The filter of a webhook. It is asked about clusters that have the workload, too."""

    def __init__(self, name: str, webhook: WebhookPlugin) -> None:
        super().__init__(name)
        self._webhook = webhook

    def reason(self, context: Context, cluster: Cluster) -> str | None:
        return self._webhook.rejection(unit_of(context), cluster)


class WebhookScore(filters.RelativeScore):
    """The score of a webhook. Its best score becomes 100."""

    def __init__(self, name: str, webhook: WebhookPlugin) -> None:
        self.name = name
        self._webhook = webhook

    def counts(self, context: Context, rows: IntArray) -> IntArray:
        clusters, unit = context.fleet.clusters, unit_of(context)
        scores = [self._webhook.score(unit, cluster) for row in rows.tolist() if (cluster := clusters[row]) is not None]
        return np.array(scores, dtype=np.int64)

    def normalised(self, counts: IntArray) -> IntArray:
        return scaled_to_best(counts)


def select_by_webhook(webhook: WebhookPlugin, unit: SchedulingUnit, candidates: Candidates) -> Candidates | Failure:
    """Select what a webhook selects, in its order."""
    scores = [0] * len(candidates) if candidates.scores is None else candidates.scores.tolist()
    scored = list(map(ScoredCluster, candidates.clusters(), scores))
    selected = webhook.select(unit, scored)
    if isinstance(selected, str):
        return Failure(FailureKind.SELECT_FAILED, selected)
    place = {name: index for index, name in enumerate(candidates.names())}
    return candidates.at(np.array([place[name] for name in selected], dtype=np.int64))
