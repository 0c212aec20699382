"""What follows for answers if the objects of a kind may not be read."""

from typing import Final

from berthmaster.model.control_planes import CONTROL_PLANES, Role

_WAITED_FOR: Final = "policies that wait for such an object count as if it existed"
_BY_ROLE: Final = {
    Role.CLUSTER: "what {plane} schedules here is left out",
    Role.POLICY: (
        "workloads that only such policies claim are not scheduled, and explanations do not name these policies"
    ),
    Role.PROFILE: "policies that name a profile are not scheduled",
    Role.TAINT_POLICY: "it is not known whether such a policy gives a lost cluster a NoExecute taint, and none counts",
    Role.OVERRIDE: f"{_WAITED_FOR}, and copies count with the replicas that Karmada assigns, whatever overrides set",
    Role.BINDING: (
        "their current assignments, replicas and evictions are not known, so each answer is a first decision and not "
        "what would move"
    ),
    Role.INTERPRETER: (
        "the replicas of custom resources are taken from their bindings; without a binding they are not known"
    ),
}
_TEMPLATES: Final = "their replicas and labels are taken from their bindings, and those without a binding are missing"
_BY_KIND: Final = {
    ("scheduling.k8s.io", "PriorityClass"): _WAITED_FOR,
    **{
        (each.group, each.kind): _BY_ROLE[each.role].format(plane=plane.name)
        for plane in CONTROL_PLANES
        for each in plane.read
    },
}


def consequence_of(group: str, kind: str) -> str:
    """Return what follows if the objects of a kind, with its API group, may not be read."""
    return _BY_KIND.get((group, kind), _TEMPLATES)
