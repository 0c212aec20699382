"""Asks what a set-up is like. Every question has a bound, and none changes anything."""
