"""Gathers facts about an installation. Every question has a timeout, and none changes anything.

A question raises an ``ApiError`` if it cannot be answered. ``client.observe`` turns the error into an ``Unobserved``.
"""
