"""The admission webhook: API servers call it before they store a policy."""
