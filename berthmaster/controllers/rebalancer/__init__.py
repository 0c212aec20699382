"""The WorkloadRebalancer controller: it triggers rescheduling of the workloads that a rebalancer names.

``progress`` decides a rebalancer's status, its events and what comes next. ``reconciler`` reads
and writes: bindings, the status, and the deletion of a finished rebalancer.
"""
