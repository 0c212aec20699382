"""Pure values of the Kubernetes, Karmada and KubeAdmiral APIs, and the rules that need nothing but them.

Types are decoded by ``berthmaster.model.decode``; every list is a tuple and every struct frozen, so a decoded
value can be shared and used as the key of a cache. Field names are the API's, in Python's case.
"""
