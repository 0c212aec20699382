"""What estimators inside members say: Karmada's ``karmada-scheduler-estimator-*``, asked over gRPC.

An estimator sees the nodes, quotas and affinities of its cluster, of which the control plane only has sums. What it
says limits the replicas that a decision assigns to its cluster (``berthmaster.scheduling.request.Request.bounds``). If
no estimator answers in time, the cluster's summary decides alone.
"""
