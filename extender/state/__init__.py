"""The fleet and what runs on it, in memory behind a lock, and the sources that feed it."""
