"""Rules beyond what the peers check: each has an id, and a level that is configured."""
