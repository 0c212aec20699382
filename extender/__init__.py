"""The extender: answers what goes where for an existing control plane."""
