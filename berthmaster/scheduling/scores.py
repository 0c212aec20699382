"""Score plugins: which of the clusters that fit are better. The base classes.

The scheduler adds the scores of all plugins, without weights, in Karmada as in KubeAdmiral. A score is an integer from
0 to 100.
"""

from abc import ABC, abstractmethod
from typing import Final

import numpy as np

from berthmaster.model.cluster import Cluster
from berthmaster.model.errors import PluginError
from berthmaster.scheduling.columns import IntArray
from berthmaster.scheduling.context import Context

MIN_SCORE: Final = 0
MAX_SCORE: Final = 100


class UnscorableError(Exception):
    """The policy asks for something that cannot be scored on any cluster. The group fails."""


class Score(ABC):
    """A score plugin."""

    name: str

    @abstractmethod
    def score(self, context: Context, cluster: Cluster) -> int:
        """Return how good a cluster is for the workload, 0 to 100."""

    def scores(self, context: Context, rows: IntArray) -> IntArray | None:
        """Return the scores of the given rows in their order, or None if all are 0. The rows are all that fit.

        Raises:
            PluginError: a score is not an integer from 0 to 100.
            UnscorableError: the policy cannot be scored.
        """
        clusters = context.fleet.clusters
        found = [self.score(context, cluster) for row in rows.tolist() if (cluster := clusters[row]) is not None]
        bad = [each for each in found if not isinstance(each, int) or not MIN_SCORE <= each <= MAX_SCORE]
        if bad:
            raise PluginError(
                f"score plugin {self.name} gave {bad[0]!r}; scores are integers from {MIN_SCORE} to {MAX_SCORE}"
            )
        return np.array(found, dtype=np.int64)


class ColumnScore(Score):
    """A score that is computed for all clusters at once, from the columns of the fleet."""

    @abstractmethod
    def scores(self, context: Context, rows: IntArray) -> IntArray: ...

    def score(self, context: Context, cluster: Cluster) -> int:
        """Return how good a cluster of the fleet would be if no other one fitted."""
        return int(self.scores(context, np.array([context.fleet.row_of[cluster.name]]))[0])


class RelativeScore(ColumnScore):
    """A score that compares clusters: ``counts`` counts something, ``normalised`` scales it over all that fit."""

    @abstractmethod
    def counts(self, context: Context, rows: IntArray) -> IntArray:
        """Return what is counted, for each row."""

    @abstractmethod
    def normalised(self, counts: IntArray) -> IntArray:
        """Return the scores for the counts of all clusters that fit. There is at least one."""

    def scores(self, context: Context, rows: IntArray) -> IntArray:
        return self.normalised(self.counts(context, rows))
