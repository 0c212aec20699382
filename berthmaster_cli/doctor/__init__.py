"""``berthmaster doctor``: what a set-up is like, what is wrong with it, and what to do.

``gather`` asks: API servers, the webhook, probes; every question has a bound and changes nothing. Its answers are
``facts``. ``judge`` makes findings of them: pure, so that a broken set-up is a row in a table of tests.
"""
