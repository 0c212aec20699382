"""``berthmaster doctor``: check an installation, report what is wrong and how to fix it.

``gather`` asks API servers, webhook endpoints and probes. Every question has a timeout, and none changes anything.
The answers are the values of ``facts``. ``judge`` turns facts into findings. It is pure, so each broken installation is
one row of a test table.
"""
