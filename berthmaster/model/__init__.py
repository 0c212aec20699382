"""Pure values of the Kubernetes, Karmada and KubeAdmiral APIs, and the rules that depend only on them.

``decode`` creates the values. Every list is a tuple and every struct is frozen, so a value can be shared and used as
a cache key. Field names are those of the API in snake case.
"""
