"""The admission webhook: what an API server asks before it stores a policy."""
