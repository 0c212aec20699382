"""What the plan of a change depends on: everything that can change its result, and little else."""

import copy

from extender_services import world_with
from karmada_plane import binding, cluster, deployment, policy, selector
from tables import cases

from berthmaster.model.decode import convert
from berthmaster.model.gaps import Gap, GapKind
from berthmaster.model.policy import Policy
from berthmaster.model.policy_defaults import defaulted
from berthmaster.scheduling.karmada.profile import karmada_profile
from berthmaster.simulation.basis import basis_of
from berthmaster.simulation.change_set import ChangeSet, PlanIndex

HOLDER = policy("web", selector(name="web"))
OTHER = policy("other", selector(name="other"), namespace="ops")
WEB, APART = deployment("web", by=HOLDER), deployment("other", namespace="ops", by=OTHER)
FLEET = {
    "m1": cluster("m1"), "m2": cluster("m2"), "holder": HOLDER, "other": OTHER,
    "web": WEB, "web binding": binding(WEB, HOLDER, m1=2),
    "apart": APART, "apart binding": binding(APART, OTHER, m1=2),
}  # fmt: skip
CHANGED = policy("web", selector(name="web"), placement={"clusterAffinity": {"clusterNames": ["m2"]}})
CHANGE = ChangeSet(policies=(defaulted(convert(Policy, CHANGED)),))


def basis(fleet, gaps=()):
    return basis_of(PlanIndex(world_with(*fleet.values()), karmada_profile()), CHANGE, gaps)


def edited(fleet, name, *path, value):
    """Return the fleet with another value at a path in one object."""
    changed = copy.deepcopy(fleet)
    part = changed[name]
    for step in path[:-1]:
        part = part.setdefault(step, {})
    part[path[-1]] = value
    return changed


@cases(
    ("path", "value", "same"),
    {
        "a heartbeat of a cluster": (("m1", "metadata", "resourceVersion"), "9", True),
        "the labels of a cluster": (("m2", "metadata", "labels"), {"zone": "z"}, False),
        "the free capacity of a cluster": (
            ("m2", "status", "resourceSummary", "allocated"), {"cpu": "90"}, False,
        ),
        "the edited policy": (("holder", "spec", "priority"), 3, False),
        "another policy": (("other", "spec", "priority"), 3, False),
        "a workload that the change concerns": (("web", "spec", "replicas"), 5, False),
        "where such a workload is": (
            ("web binding", "spec", "clusters"), [{"name": "m2", "replicas": 2}], False,
        ),
        "a claim of such a workload": (("web", "metadata", "labels"), {}, False),
        "a workload that it does not concern": (("apart", "spec", "replicas"), 5, True),
    },
)  # fmt: skip
def test_a_plan_depends_on(path, value, same):
    assert basis(FLEET).is_same(basis(edited(FLEET, *path, value=value))) is same


def test_a_plan_depends_on_the_workloads_that_exist():
    more = deployment("web", namespace="shop", by=HOLDER)
    assert basis(FLEET).is_same(basis({**FLEET, "again": more}))
    fewer = {name: each for name, each in FLEET.items() if not name.startswith("web")}
    assert not basis(FLEET).is_same(basis(fewer))


def test_a_plan_depends_on_all_workloads_if_some_policy_propagates_dependencies():
    following = edited(FLEET, "other", "spec", "propagateDeps", value=True)
    assert basis(following).is_same(basis(following))
    assert not basis(following).is_same(basis(edited(following, "apart", "spec", "replicas", value=5)))


def test_a_plan_depends_on_what_is_not_known():
    assert not basis(FLEET).is_same(basis(FLEET, [Gap(GapKind.NO_TEMPLATES)]))
