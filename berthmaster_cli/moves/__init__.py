"""``berthmaster moves``, ``drain`` and ``undrain``.

``reading`` reads a control plane or a dump, and watches. ``draining`` is pure: it says what stays on a cluster.
``command`` and ``drain`` are the commands.
"""
