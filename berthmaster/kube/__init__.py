"""Access to Kubernetes API servers.

A request is a value (``requests``) that a client sends (``client``, ``http_client``). ``responses`` decodes the answer.
An ``Informer`` lists and watches one collection through a ``Reflector`` and calls handlers for each change. ``lease``
and ``election`` elect a leader. ``events`` records events.

What sends a request raises ``ApiError`` if the server does not respond, refuses, or sends something else.
"""
