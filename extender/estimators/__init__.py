"""What estimators inside members say: Karmada's ``karmada-scheduler-estimator-*``, asked over gRPC.

An estimator sees the nodes, quotas and affinities of its cluster, of which the control plane only has sums. What it
says bounds what a decision gives its cluster (``extender.scheduling.request.Request.bounds``); where nobody answers in
time, the cluster's summary decides alone.
"""
