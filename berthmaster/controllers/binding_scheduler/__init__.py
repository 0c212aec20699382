"""The binding scheduler: takes over the bindings that name it, and assigns them to clusters.

It behaves as karmada-scheduler does; where it is better on purpose, ``docs/differences.md`` says how.
"""
