"""``berthmaster moves``, ``drain`` and ``undrain``.

``reading`` reads a control plane or a dump. ``rows`` and ``draining`` are pure: they say what moves, what waits, and
what stays on a cluster. ``following`` watches. ``command`` and ``drain`` are the commands.
"""
