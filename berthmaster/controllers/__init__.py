"""Controllers: watch -> key -> reconcile -> write.

Event handlers of informers add the keys of objects that may need work to a queue. Workers take one key at a time, read
the latest state, and write what is missing. No two workers reconcile one key at the same time. A failed key is retried
with backoff. All state is in the API server, so a restart loses nothing.
"""
