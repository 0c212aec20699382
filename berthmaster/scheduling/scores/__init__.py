"""Score plugins: which of the clusters that fit are better.

Scores are added up, without weights, in Karmada as in KubeAdmiral. They go from 0 to 100; a ``RelativeScore`` gives
what it counts and is scaled to that.
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
    """What a policy asks cannot be scored, on no cluster: the group is left."""


class Score(ABC):
    """A score plugin.

    Attributes:
        name: by which it is switched on and off and named in diagnoses.
    """

    name: str

    @abstractmethod
    def score(self, context: Context, cluster: Cluster) -> int:
        """How good a cluster is for the workload, 0 to 100."""

    def scores(self, context: Context, rows: IntArray) -> IntArray | None:
        """The scores of rows, which are all that fit, in their order; None where all are 0.

        Raises:
            PluginError: a score is no integer from 0 to 100.
            UnscorableError: what is asked cannot be understood.
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
    """A score that is said of all clusters at once, through the fleet's columns."""

    @abstractmethod
    def scores(self, context: Context, rows: IntArray) -> IntArray:
        """The scores of rows, which are all that fit, in their order."""

    def score(self, context: Context, cluster: Cluster) -> int:
        """How good a cluster of the fleet would be if no other one fitted."""
        return int(self.scores(context, np.array([context.fleet.row_of[cluster.name]]))[0])


class RelativeScore(ColumnScore):
    """A score that only a comparison yields: something is counted, and scaled over all clusters that fit."""

    @abstractmethod
    def counts(self, context: Context, rows: IntArray) -> IntArray:
        """What is counted, by row.

        Raises:
            UnscorableError: what is asked cannot be understood.
        """

    @abstractmethod
    def normalised(self, counts: IntArray) -> IntArray:
        """Scores for what was counted of all clusters that fit, which are some."""

    def scores(self, context: Context, rows: IntArray) -> IntArray:
        """The counts, scaled."""
        return self.normalised(self.counts(context, rows))
