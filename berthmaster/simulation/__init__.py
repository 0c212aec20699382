"""What would happen: a fleet and its workloads, scheduled as Karmada's control plane would, before and after changes.

Pure: a world goes in, a world and its outcomes come out. As in Karmada each workload is scheduled against the capacity
that clusters report; what others of the same world were just given is not deducted from it.
"""
