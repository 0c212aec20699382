"""Reviews of Karmada's policies."""
