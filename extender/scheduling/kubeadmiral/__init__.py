"""KubeAdmiral's way of scheduling (kubewharf/kubeadmiral ``pkg/controllers/scheduler``, commit 19de01c).

It decides about the same clusters as Karmada's way and shares with it what the two define alike: label requirements,
taints and tolerations, served kinds, failures and diagnoses. Its pipeline is its own: filters, normalised scores,
select plugins, then a planner for the replicas.
"""
