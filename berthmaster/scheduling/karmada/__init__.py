"""Karmada's profile (karmada-io/karmada ``pkg/scheduler``).

``profile`` names its plugins and stages: ``placement`` compiles a placement, ``selection`` and ``regions`` estimate and
select, ``division`` assigns replicas, ``reasons`` explains. ``trigger`` says when a binding needs scheduling. Filters
that KubeAdmiral has as well are in ``berthmaster.scheduling.filters``.
"""
