"""Hypothesis strategies for small worlds with many collisions: ties, shared labels, full clusters.

Strategies are made once, not for each example: Hypothesis checks a new strategy before it draws from it.
"""

from functools import cache

from hypothesis import strategies as st
from msgspec.structs import replace

from berthmaster.model.affinity import ClusterAffinity
from berthmaster.model.binding import Binding, TargetCluster
from berthmaster.model.cluster import Cluster, ClusterStatus
from berthmaster.model.decode import convert
from berthmaster.model.placement import Placement
from berthmaster.model.taint import Toleration

NAMES = ("m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "m9", "m10")
REGIONS = ("r1", "r2", "r3", "r4")
ZONES = ("z1", "z2", "z3")
KINDS = ("Deployment", "ConfigMap")
TAINTS = (
    {"key": "gpu", "value": "yes", "effect": "NoSchedule"},
    {"key": "down", "effect": "NoExecute"},
    {"key": "busy", "effect": "PreferNoSchedule"},
)
MODELS = [
    {
        "grade": grade,
        "ranges": [{"name": "cpu", "min": minimum, "max": "64"}, {"name": "memory", "min": minimum, "max": "64"}],
    }
    for grade, minimum in enumerate(("0", "1", "2", "4"))
]


def subsets(values, max_size=None):
    return st.lists(st.sampled_from(values), unique_by=str, max_size=max_size)


def optional(strategy):
    return st.none() | strategy


def _present(fields):
    return {key: value for key, value in fields.items() if value is not None}


def objects(**fields):
    """Return JSON objects with these fields. A field that draws None is absent."""
    return st.fixed_dictionaries(fields).map(_present)


_amounts = st.sampled_from(["0", "1", "1500m", "2", "3", "4", "8", "100"])
_resources = objects(pods=st.sampled_from(["0", "2", "3", "5", "10", "110"]), cpu=optional(_amounts), memory=_amounts)
_used = objects(pods=optional(st.sampled_from(["0", "1", "4"])), cpu=optional(_amounts), memory=optional(_amounts))
_summaries = objects(
    allocatable=_resources,
    allocated=optional(_used),
    allocating=optional(_used),
    allocatableModelings=st.none()
    | st.lists(objects(grade=st.integers(0, 3), count=st.integers(-1, 3) | st.integers(0, 3)), max_size=4),
)
_specs = objects(
    provider=st.sampled_from(["", "aws", "gcp"]),
    region=st.sampled_from(["", *REGIONS]),
    zones=subsets(ZONES, 2),
    taints=st.just([]) | subsets(TAINTS, 1),
    resourceModels=st.sampled_from([None, None, MODELS, MODELS[::-1]]),
)
_labels = objects(env=st.sampled_from([None, "dev", "prod"]), tier=st.sampled_from([None, "1", "2", "x"]))


def _enabled(kinds):
    return [{"groupVersion": "v1", "resources": [{"name": kind.lower(), "kind": kind} for kind in kinds]}]


@cache
def clusters(name):
    return objects(
        metadata=st.tuples(_labels, st.integers(0, 15)).map(
            lambda drawn: {
                "name": name,
                "labels": drawn[0],
                **({} if drawn[1] else {"deletionTimestamp": "2026-01-01T00:00:00Z"}),
            }
        ),
        spec=_specs,
        status=objects(
            apiEnablements=st.sampled_from([KINDS, KINDS, KINDS, KINDS[:1]]).map(_enabled),
            resourceSummary=optional(_summaries) | _summaries,
        ),
    ).map(lambda raw: convert(Cluster, raw))


@st.composite
def fleets(draw, min_size=1, max_size=8):
    size = draw(st.integers(min_size, max_size))
    names = draw(st.permutations(NAMES[:size]))
    return [draw(clusters(name)) for name in names]


def roomy_cluster(name, region, room):
    """Return a cluster of a region with room for so many replicas."""
    summary = {"allocatable": {"pods": str(room), "cpu": "100", "memory": "100"}}
    status = {"apiEnablements": _enabled(KINDS), "resourceSummary": summary}
    return convert(Cluster, {"metadata": {"name": name}, "spec": {"region": region}, "status": status})


def _expressions(keys, values):
    with_values = objects(
        key=st.sampled_from(keys),
        operator=st.sampled_from(["In", "NotIn"]),
        values=st.lists(st.sampled_from(values), min_size=1, max_size=2),
    )
    without = objects(key=st.sampled_from(keys), operator=st.sampled_from(["Exists", "DoesNotExist"]))
    return with_values | without


_label_selectors = objects(
    matchLabels=optional(objects(env=st.sampled_from(["dev", "prod"]))),
    matchExpressions=st.none() | st.lists(_expressions(["env", "tier"], ["dev", "prod", "1"]), max_size=1),
)
_field_expressions = (
    _expressions(["region"], REGIONS) | _expressions(["zone"], ZONES) | _expressions(["provider"], ["aws", "gcp"])
)
_field_selectors = objects(
    matchExpressions=st.lists(
        _field_expressions
        | st.just({"key": "zone", "operator": "Gt", "values": ["1"]})
        | st.just({"key": "region", "operator": "Like", "values": ["r1"]}),
        max_size=2,
    )
)
_affinity_fields = {
    "labelSelector": st.none() | st.none() | _label_selectors,
    "fieldSelector": st.none() | st.none() | _field_selectors,
    "clusterNames": st.none() | st.lists(st.sampled_from(NAMES), max_size=5),
    "exclude": st.none() | st.lists(st.sampled_from(NAMES), max_size=1),
}
affinities = objects(**_affinity_fields)
"""Return affinities as JSON."""

cluster_affinities = affinities.map(lambda raw: convert(ClusterAffinity, raw))


def _named(index, fields):
    return objects(affinityName=st.just(f"g{index}"), **fields)


def _terms(index):
    overflow = st.none() | st.none() | st.lists(_named(index, _affinity_fields), max_size=2)
    return _named(index, {**_affinity_fields, "overflowAffinities": overflow})


_groups = st.integers(0, 3).flatmap(lambda count: st.tuples(*map(_terms, range(count)))).map(list)
_weights = objects(targetCluster=affinities, weight=st.integers(1, 3))


def divided(preference, **weights):
    return {"replicaSchedulingType": "Divided", "replicaDivisionPreference": preference, **weights}


DUPLICATED = {"replicaSchedulingType": "Duplicated"}
AGGREGATED = divided("Aggregated")
DYNAMIC = divided("Weighted", weightPreference={"dynamicWeight": "AvailableReplicas"})
static_weights = st.lists(_weights, max_size=2).map(
    lambda rules: divided("Weighted", weightPreference={"staticWeightList": rules})
)
dividing = st.sampled_from([AGGREGATED, DYNAMIC, divided("Weighted")]) | static_weights
schedulings = st.sampled_from([None, DUPLICATED]) | dividing
"""Return replica scheduling as JSON."""


def _constraint(field):
    return st.tuples(st.integers(1, 3), st.integers(0, 3), st.booleans()).map(
        lambda drawn: {"spreadByField": field, "minGroups": drawn[0], "maxGroups": (drawn[0] + drawn[1]) * drawn[2]}
    ) | st.tuples(st.integers(1, 3), st.integers(0, 3)).map(
        lambda drawn: {"spreadByField": field, "minGroups": drawn[0], "maxGroups": drawn[0] + drawn[1]}
    )


constraints = (
    st.just([])
    | st.tuples(_constraint("cluster"))
    | st.tuples(_constraint("region"), _constraint("cluster"))
    | st.tuples(_constraint("region"))
    | st.tuples(_constraint("zone"), _constraint("cluster"))
    | st.tuples(_constraint("provider"))
).map(list)
"""Return spread constraints as JSON."""

tolerations = st.sampled_from(
    [None, [], [{"operator": "Exists"}], [{"key": "gpu", "operator": "Equal", "value": "yes"}], [{"key": "down"}]]
)


def placements(scheduling=schedulings, spread=constraints):
    """Return placements without affinity, with one, with groups, or with both."""
    return objects(
        clusterAffinity=st.none() | st.none() | affinities,
        clusterAffinities=st.none() | _groups,
        clusterTolerations=tolerations,
        spreadConstraints=spread,
        replicaScheduling=scheduling,
    ).map(lambda raw: convert(Placement, raw))


def easy_placements(scheduling):
    """Return placements that most worlds can satisfy."""
    return objects(
        clusterAffinity=st.none() | objects(exclude=st.lists(st.sampled_from(NAMES), max_size=2)),
        clusterTolerations=st.just([{"operator": "Exists"}]),
        replicaScheduling=scheduling,
    ).map(lambda raw: convert(Placement, raw))


def overflowing_placements():
    """Return placements with one group and two overflow affinities by name, so that most decisions succeed."""
    names = objects(clusterNames=st.lists(st.sampled_from(NAMES), min_size=1, max_size=4))
    tier = names.map(lambda drawn: {"affinityName": "over", **drawn})
    group = st.tuples(names, st.lists(tier, min_size=1, max_size=3)).map(
        lambda drawn: {"affinityName": "g0", **drawn[0], "overflowAffinities": drawn[1]}
    )
    return st.builds(
        lambda group, scheduling: convert(
            Placement,
            {
                "clusterAffinities": [group],
                "clusterTolerations": [{"operator": "Exists"}],
                "replicaScheduling": scheduling,
            },
        ),
        group,
        st.sampled_from([AGGREGATED, DYNAMIC]),
    )


_requirements = objects(
    resourceRequest=objects(
        cpu=optional(st.sampled_from(["0", "500m", "1", "2"])), memory=optional(st.sampled_from(["1", "2"]))
    )
)
_assignments = st.lists(
    objects(name=st.sampled_from(NAMES), replicas=st.integers(0, 6)), unique_by=lambda each: each["name"], max_size=4
)


_WANTED = st.integers(0, 12)
_PLACEMENTS = placements()
_TRIGGERED = st.booleans()
_UIDS = st.sampled_from(["", "a", "b"])
_OBSERVED = st.sampled_from(["", "g0", "g1", "gone"])


@cache
def _specs_of_bindings(kind, wanted):
    return objects(
        replicas=st.just(0) if kind == "ConfigMap" else wanted,
        replicaRequirements=st.none() if kind == "ConfigMap" else optional(_requirements) | _requirements,
        clusters=st.just([]) | _assignments,
        gracefulEvictionTasks=st.sampled_from([None, None, None, [{"fromCluster": "m1"}]]),
    )


@st.composite
def bindings(draw, placed=None, replicas=None, fresh=None):
    """Return new, scheduled, evicted and rescheduled bindings. ConfigMaps have no replicas."""
    wanted = _WANTED if replicas is None else replicas
    kinds = ["Deployment"] if replicas is not None else ["Deployment", "Deployment", "Deployment", "ConfigMap"]
    kind = draw(st.sampled_from(kinds))
    # The drawn object may be shared with other draws, so it must not change.
    spec = dict(draw(_specs_of_bindings(kind, wanted)))
    if draw(_TRIGGERED if fresh is None else st.just(fresh)):
        spec["rescheduleTriggeredAt"] = "2026-01-02T00:00:00Z"
    uid = draw(_UIDS)
    raw = {
        "spec": {**spec, "resource": {"apiVersion": "v1", "kind": kind, "name": "web", "namespace": "ns", "uid": uid}},
        "status": {
            "schedulerObservingAffinityName": draw(_OBSERVED),
            "lastScheduledTime": "2026-01-01T00:00:00Z",
        },
    }
    binding = convert(Binding, raw)
    placement = draw(_PLACEMENTS if placed is None else placed)
    return with_placement(binding, placement)


def with_placement(binding, placement):
    return replace(binding, spec=replace(binding.spec, placement=placement))


def at(binding, assignment):
    targets = tuple(TargetCluster(name=name, replicas=replicas) for name, replicas in assignment.items())
    return replace(binding, spec=replace(binding.spec, clusters=targets))


def placed(binding, decision, *, replicas):
    """Return the binding after a decision was applied, with another number of requested replicas."""
    after = at(binding, decision.assignment)
    status = replace(after.status, scheduler_observing_affinity_name=decision.group or "")
    return replace(after, spec=replace(after.spec, replicas=replicas), status=status)


TOLERATE_ALL = Toleration(operator="Exists")
SERVES_ALL = convert(ClusterStatus, {"apiEnablements": _enabled(KINDS)}).api_enablements
