"""The preemption controller (feature gate ``PolicyPreemption``).

A policy with ``preemption: Always`` takes over resources that weaker policies claim. Event handlers of policies and of
the kinds that they name put keys on a queue. The reconciler handles one key at a time: a resource, a kind to watch, or
a recorded priority drop.
"""
