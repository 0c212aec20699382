"""Moves of workloads: what may move, how many at once, when, and when nothing may move."""
