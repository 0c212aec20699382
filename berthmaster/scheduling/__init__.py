"""The scheduling core, pure: a fleet and a request in, a decision out.

The four steps of a decision are filter, score, select and assign, for one group of clusters after the other. They work
on columns: one array entry for each cluster, kept up to date in place (``fleet``), and one derived array for each thing
that is asked often, such as "does it match this affinity" (``columns``).

The engine (``scheduler``) is one for all ways of scheduling. What a way does at each step is a ``profile``: Karmada's
(``karmada``), which is the default, and KubeAdmiral's (``kubeadmiral``). What both do alike stands beside the engine.
"""
