"""The fleet and its bindings in memory, behind a lock, and the sources that update them."""
