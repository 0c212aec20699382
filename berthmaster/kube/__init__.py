"""The API server's edge: the official client for configuration and transport; raw JSON in, typed values out.

A request is prepared as a value (``requests``) and sent by a connection (``transport``, ``connection``); ``reflector``
lists and watches one kind of object with both, and tells a ``Mirror`` what there is.
"""
