"""``berthmaster test``: files that say what a fleet must keep, and whether it does."""
