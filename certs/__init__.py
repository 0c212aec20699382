"""Certificates: a certificate authority, the leaves it issues, and the bundles that clients trust.

A request to an API server raises ``ApiError``. A Secret that belongs to another application is an ``InputError``.
"""
