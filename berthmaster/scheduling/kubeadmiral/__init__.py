"""KubeAdmiral's way of scheduling (kubewharf/kubeadmiral ``pkg/controllers/scheduler``, commit 19de01c).

It is a profile of the engine: ``profile.profile_of`` names its plugins and stages, ``request.request_of`` puts a unit
in the engine's words. Of its filters those that Karmada has as well are the same classes; its scores, select plugins,
weights and planners stand here, as does what leads to a unit: overrides, migration, snapshots and triggers.
"""
