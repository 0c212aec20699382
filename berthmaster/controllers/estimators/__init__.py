"""The client of Karmada's ``karmada-scheduler-estimator-*``, one in each member cluster, over gRPC.

An estimator sees the nodes, quotas and affinities of its cluster. The control plane only has sums. The answers limit
the replicas that a decision assigns (``bounds`` of ``berthmaster.scheduling.request.Request``). If an estimator does
not answer in time, the cluster's summary decides alone.
"""
