"""The binding scheduler: assigns the bindings that name it to clusters.

It behaves as karmada-scheduler does. ``docs/differences.md`` lists the intended differences.

A binding passes through these modules: ``event_handlers`` updates the caches and the queue; the ``reconciler``
takes a key, calls ``decide`` (and with it ``failover``) through the ``cluster_cache``, and sends the ``writes``.
"""
