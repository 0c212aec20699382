"""The WorkloadRebalancer controller: it marks bindings of the workloads that a rebalancer names to be scheduled afresh.

``plan`` decides what a rebalancer's status is and what comes next, ``marking`` writes to one binding, ``notices`` says
it in words, and ``reconciler`` reads, writes and puts the three together.
"""

from berthmaster.controllers.rebalancer.reconciler import controller

__all__ = ["controller"]
