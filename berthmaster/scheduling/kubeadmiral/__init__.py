"""KubeAdmiral's profile (kubewharf/kubeadmiral ``pkg/controllers/scheduler``, commit 19de01c).

``preparation`` makes a scheduling unit from a workload, its policy and its annotations. ``unit`` makes a request for
the engine from it. ``profile`` names the plugins and stages. ``plugins`` filters, scores and selects. ``division``
and ``planners`` assign replicas. ``trigger`` says when an object needs scheduling.

Filters that Karmada has as well are in ``berthmaster.scheduling.filters``.
"""
