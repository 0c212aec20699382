"""Karmada's policies and rebalancers, as karmada-webhook reviews them."""
