"""Simulation of Karmada and KubeAdmiral: schedule the workloads of a fleet before and after changes.

The code is pure: its input is a world, its output a world and the result for each workload. As in Karmada, each
workload is scheduled against the capacity that clusters report. Replicas that the same run assigned to other workloads
are not deducted.
"""
