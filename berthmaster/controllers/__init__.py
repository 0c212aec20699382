"""What watches and writes: watch -> key -> reconcile -> write.

Informers tell a controller of changes; it puts the keys of what may need work on a queue; workers take one key after
the other, look at the latest state of it, and bring it about. A key is never worked on twice at the same time, and an
error puts it back after a wait that grows. All state is in the API server, so that a restart loses nothing.
"""
