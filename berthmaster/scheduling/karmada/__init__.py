"""Karmada's profile (karmada-io/karmada ``pkg/scheduler``).

``profile`` names its plugins and stages: ``placement`` compiles a placement, ``selection`` estimates and
selects, ``division`` assigns replicas, ``reasons`` explains. ``trigger`` says when a binding needs scheduling. Filters
that KubeAdmiral has as well are in ``berthmaster.scheduling.filters``.
"""
