"""The scheduler extender: answers scheduling requests of other schedulers and of programs over HTTP."""
