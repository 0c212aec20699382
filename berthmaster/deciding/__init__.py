"""What the binding scheduler decides for one binding: its assignment, and the next step of its move. Pure.

Nothing here knows the network, threads, a clock, or a log. ``decide`` decides without moves, ``moves`` with them.
"""
