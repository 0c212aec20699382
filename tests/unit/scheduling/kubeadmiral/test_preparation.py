import dataclasses
import json

import pytest
from builders import quantities
from kubeadmiral_builders import NOW, spec, term, web
from tables import cases, data

from berthmaster.model.decode import builtins
from berthmaster.model.errors import FieldError
from berthmaster.model.taint import Toleration
from berthmaster.scheduling.kubeadmiral.preparation import UnitWorkload, policy_unit, prepare, with_migration_applied
from berthmaster.scheduling.kubeadmiral.unit import Preference, ReplicasStrategy

ROWS = data("scheduling/migrations")

PREFIX = "kubeadmiral.io/"
PATH = f"metadata.annotations[{PREFIX}"
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
IN_A = term(("az", "In", "a"))
IN_B = term(("az", "In", "b"))
POLICY = spec(
    schedulingMode="Divide",
    clusterSelector={"tier": "gold"},
    clusterAffinity=[builtins(IN_A)],
    tolerations=[{"key": "policy", "operator": "Exists"}],
    maxClusters=5,
    placement=[
        {"cluster": "A", "preferences": {"minReplicas": 1, "maxReplicas": 9, "weight": 2, "priority": 3}},
        {"cluster": "B"},
    ],
)


def prepared(policy=POLICY, workload=None, **annotations):
    """Return annotations, given by name without prefix. Values that are no text become JSON."""
    texts = {
        PREFIX + name.replace("_", "-"): value if isinstance(value, str) else json.dumps(value)
        for name, value in annotations.items()
    }
    return prepare(workload or web(), policy, texts, NOW)


def test_a_policy_without_settings():
    unit = prepared().unit
    assert unit.key == "default/web"
    assert (unit.divide, unit.replicas, unit.strategy) == (True, 3, ReplicasStrategy.SPREAD)
    assert unit.cluster_selector == {"tier": "gold"}
    assert unit.required == (IN_A,)
    assert unit.tolerations == (Toleration(key="policy", operator="Exists"),)
    assert unit.max_clusters == 5
    assert unit.candidates == {"A", "B"}
    assert unit.preferences == {"A": Preference(1, 9, 2, 3), "B": Preference()}
    assert (unit.sticky, unit.avoid_disruption, unit.keep_unschedulable) == (False, False, False)


@cases(
    ("fields", "expected"),
    {
        "no mode is Duplicate": ({"schedulingMode": ""}, {"divide": False}),
        "an unknown mode is Duplicate": ({"schedulingMode": "Scatter"}, {"divide": False}),
        "Binpack": ({"replicasStrategy": "Binpack"}, {"strategy": ReplicasStrategy.BINPACK}),
        "any other strategy is Spread": ({"replicasStrategy": "Else"}, {"strategy": ReplicasStrategy.SPREAD}),
        "no terms are no condition": ({"clusterAffinity": []}, {"required": None}),
        "a negative limit is kept, and fails later": ({"maxClusters": -3}, {"max_clusters": -3}),
        "no list": ({"placement": []}, {"candidates": frozenset(), "preferences": {}}),
        "of a duplicate cluster the last entry counts": (
            {
                "placement": [
                    {"cluster": "A", "preferences": {"minReplicas": 4, "weight": 1}},
                    {"cluster": "A", "preferences": {"weight": 2, "maxReplicas": 8}},
                ]
            },
            {"preferences": {"A": Preference(0, 8, 2, None)}},
        ),
        "rescheduling disabled": ({"reschedulePolicy": {"disableRescheduling": True}}, {"sticky": True}),
        "avoid disruption": (
            {"reschedulePolicy": {"replicaRescheduling": {"avoidDisruption": True}}},
            {"avoid_disruption": True},
        ),
        "without avoidDisruption it is false": (
            {"reschedulePolicy": {"replicaRescheduling": {}}},
            {"avoid_disruption": False},
        ),
        "keep replicas": ({"autoMigration": {"keepUnschedulableReplicas": True}}, {"keep_unschedulable": True}),
    },
)
def test_fields_of_a_policy(fields, expected):
    unit = policy_unit(web(), spec(**fields))
    assert {name: getattr(unit, name) for name in expected} == expected


@cases(
    ("annotations", "expected"),
    {
        "mode": ({"scheduling_mode": "Duplicate"}, {"divide": False, "replicas": 0}),
        "sticky": ({"sticky_cluster": "true"}, {"sticky": True}),
        "the whole selector": ({"clusterSelector": {"a": "b"}}, {"cluster_selector": {"a": "b"}}),
        "an empty selector": ({"clusterSelector": "{}"}, {"cluster_selector": {}}),
        "a null selector is empty": ({"clusterSelector": "null"}, {"cluster_selector": {}}),
        "tolerations": ({"tolerations": [{"key": "x"}]}, {"tolerations": (Toleration(key="x"),)}),
        "no tolerations": ({"tolerations": " null "}, {"tolerations": ()}),
        "maxClusters 0": ({"maxClusters": "0"}, {"max_clusters": 0}),
        "a number with a sign": ({"maxClusters": "+2"}, {"max_clusters": 2}),
        "required terms": (
            {"affinity": {"clusterAffinity": {REQUIRED: {"clusterSelectorTerms": [builtins(IN_B)]}}}},
            {"required": (IN_B,), "preferred": ()},
        ),
        "an empty list of required terms, which matches nothing": (
            {"affinity": {"clusterAffinity": {REQUIRED: {"clusterSelectorTerms": []}}}},
            {"required": ()},
        ),
        "an empty affinity is no condition": ({"affinity": {}}, {"required": None, "preferred": ()}),
        "a null affinity is no condition": ({"affinity": "null"}, {"required": None, "preferred": ()}),
        "preferred terms": (
            {"affinity": {"clusterAffinity": {PREFERRED: [{"weight": 7, "preference": builtins(IN_B)}]}}},
            {"required": None, "preferred": ((7, IN_B),)},
        ),
        "placements, all parts": (
            {"placements": [{"cluster": "C", "preferences": {"weight": 1}}]},
            {"candidates": {"C"}, "preferences": {"C": Preference(0, None, 1, None)}},
        ),
        "an empty list of placements allows all clusters": (
            {"placements": []},
            {"candidates": set(), "preferences": {}},
        ),
        "an unrelated annotation": ({"unheard_of": "x"}, {}),
    },
)
def test_annotations_override_the_policy(annotations, expected):
    preparation = prepared(**annotations)
    unchanged = dataclasses.replace(prepared().unit, **{name: getattr(preparation.unit, name) for name in expected})
    assert {name: getattr(preparation.unit, name) for name in expected} == expected
    assert preparation.unit == unchanged
    assert preparation.notes == ()
    assert bool(preparation.overrides) == bool(expected)


@cases(
    ("annotations", "path", "message"),
    {
        "mode": ({"scheduling_mode": "divide"}, "scheduling-mode]", "accepted are Divide, Duplicate"),
        "sticky": ({"sticky_cluster": "True"}, "sticky-cluster]", "accepted are true, false"),
        "not JSON": ({"clusterSelector": "{"}, "clusterSelector]", "not valid JSON"),
        "a value that is not a string": ({"clusterSelector": {"a": 1}}, "clusterSelector].a", ""),
        "no list": ({"tolerations": {}}, "tolerations]", "where a list is accepted"),
        "another shape": ({"affinity": {"clusterAffinity": [1]}}, "affinity].clusterAffinity", ""),
        "not a number": ({"maxClusters": "many"}, "maxClusters]", "no decimal integer"),
        "a fraction": ({"maxClusters": "1.0"}, "maxClusters]", "no decimal integer"),
        "beyond an int64": ({"maxClusters": "9" * 19}, "maxClusters]", "no decimal integer"),
        "a negative number": ({"maxClusters": "-1"}, "maxClusters]", "negative"),
        "nested too deeply": ({"placements": "[" * 5000}, "placements]", ""),
    },
)
def test_invalid_annotations_are_ignored(annotations, path, message):
    preparation = prepared(**annotations)
    assert preparation.unit == prepared().unit
    (note,) = preparation.notes
    assert note.path.startswith(PATH + path.partition("]")[0])
    assert message in note.problem


@cases(
    ("preferences", "expected", "notes"),
    {
        "with negative weights all weights of the policy apply": (
            {"weight": -1, "minReplicas": 2},
            {"A": Preference(0, None, 2, None), "C": Preference(2, None, None, None)},
            ["weight of 'C' is -1"],
        ),
        "negative minima": (
            {"minReplicas": -1, "maxReplicas": 5},
            {"A": Preference(1), "B": Preference(0), "C": Preference(0, 5)},
            ["minReplicas of 'C' is -1"],
        ),
        "two invalid parts": (
            {"maxReplicas": -1, "priority": -2},
            {"A": Preference(0, 9, None, 3), "C": Preference(0)},
            ["maxReplicas of 'C' is -1", "priority of 'C' is -2"],
        ),
        "with invalid preferences those of the policy apply, and the names count": (
            {"weight": "heavy"},
            {"A": Preference(1, 9, 2, 3), "B": Preference()},
            ["'heavy' is a text, where a number is accepted"],
        ),
    },
)
def test_each_part_of_placements_is_validated_separately(preferences, expected, notes):
    preparation = prepared(placements=[{"cluster": "C", "preferences": preferences}])
    assert preparation.unit.candidates == {"C"}
    assert preparation.unit.preferences == expected
    assert [note.problem.partition(";")[0] for note in preparation.notes] == [note.partition(";")[0] for note in notes]


@pytest.mark.parametrize("annotation", ["true", "false", "x"])
def test_scheduling_can_be_suppressed(annotation):
    assert prepared(no_scheduling=annotation).suppressed
    assert not prepared(no_scheduling="").suppressed


CONFIG_MAP = UnitWorkload("v1", "ConfigMap", "settings", "default")


def test_a_workload_without_replicas_is_not_divided():
    for annotations in ({}, {"scheduling_mode": "Divide"}):
        unit = prepared(workload=CONFIG_MAP, **annotations).unit
        assert (unit.divide, unit.replicas) == (False, 0)


def test_a_missing_number_of_replicas_to_divide_is_an_error():
    with pytest.raises(FieldError) as raised:
        prepared(workload=web(None))
    assert raised.value.path == "spec.replicas"
    assert prepared(workload=web(None), scheduling_mode="Duplicate").unit.replicas == 0


def test_only_requests_for_gpus_count():
    requests = quantities({"cpu": 2, "memory": "1Gi", "nvidia.com/gpu": 1, "example.com/x": 1})
    assert prepared(workload=web(requests=requests)).unit.requests == quantities({"nvidia.com/gpu": 1})


MIGRATING = spec(schedulingMode="Divide", autoMigration={})
INFO = {"estimatedCapacity": {"A": 3, "B": -1}, "scheduledReplicas": {"A": 2}}


@cases(
    ("policy", "info", "expected"),
    {
        "negative estimates are dropped": (MIGRATING, INFO, ({"A": 3}, {"A": 2})),
        "an empty annotation": (MIGRATING, {}, ({}, {})),
        "null": (MIGRATING, "null", ({}, {})),
        "without autoMigration the annotation is ignored": (POLICY, INFO, ({}, {})),
        "without autoMigration an invalid annotation is ignored": (POLICY, "{", ({}, {})),
    },
)
def test_automatic_migration(policy, info, expected):
    unit = prepared(policy, auto_migration_info=info).unit
    assert (unit.estimated_capacity, unit.scheduled) == expected


@cases(
    ("until", "evicted"),
    {
        "one second before the end": ("2026-03-01T12:00:01Z", {"A"}),
        "at the end": ("2026-03-01T12:00:00Z", set()),
        "another time zone": ("2026-03-01T13:30:00+02:00", set()),
        "still another time zone": ("2026-03-01T11:30:00-02:00", {"A"}),
    },
)
def test_custom_migration(until, evicted):
    applied = {"limitedCapacity": {"B": 4}, "unavailableClusters": [{"cluster": "A", "validUntil": until}]}
    unit = prepared(applied_migration_configuration=applied).unit
    assert unit.evicted == evicted
    assert unit.limited_capacity == {"B": 4}


@cases(
    ("annotations", "path"),
    {
        "not JSON": ({"auto_migration_info": "{"}, "auto-migration-info]"),
        "a limit that is not a number": (
            {"auto_migration_info": {"estimatedCapacity": {"A": "x"}}},
            "auto-migration-info].estimatedCapacity[A]",
        ),
        "a time that is not a time": (
            {"applied_migration_configuration": {"unavailableClusters": [{"cluster": "A", "validUntil": "soon"}]}},
            "applied-migration-configuration].unavailableClusters[0].validUntil",
        ),
    },
)
def test_invalid_annotations_of_controllers_are_an_error(annotations, path):
    with pytest.raises(FieldError) as raised:
        prepared(MIGRATING, **annotations)
    assert raised.value.path == PATH + path


ASKED = "kubeadmiral.io/migration-configuration"
APPLIED = "kubeadmiral.io/applied-migration-configuration"
BEFORE = '{"limitedCapacity":{"old":1}}'
SOON = "2026-03-01T13:00:00Z"


def applied(asked, *, has_replicas=True, before=BEFORE):
    annotations = {ASKED: asked if isinstance(asked, str) else json.dumps(asked), APPLIED: before, "team": "a"}
    return with_migration_applied(annotations, has_replicas=has_replicas)


def limit(cluster="a", **fields):
    return {"replicasMigrations": [{"cluster": cluster, "limitedCapacity": 1, **fields}]}


def keep_clear(cluster="a", **fields):
    return {"workloadMigrations": [{"cluster": cluster, "validUntil": SOON, **fields}]}


@cases(("asked", "expected"), ROWS["requests"])
def test_a_requested_migration_is_applied(asked, expected):
    annotations, problem = applied(asked)
    assert problem is None
    assert json.loads(annotations[APPLIED]) == expected
    assert list(json.loads(annotations[APPLIED]).get("limitedCapacity", {})) == sorted(
        expected.get("limitedCapacity", {})
    )
    assert annotations["team"] == "a"


def test_without_a_request_no_migration_is_applied():
    assert with_migration_applied({APPLIED: BEFORE, "team": "a"}, has_replicas=True) == ({"team": "a"}, None)


@cases(("asked", "path", "message"), ROWS["invalid requests"])
def test_an_invalid_request_leaves_the_applied_migration(asked, path, message):
    annotations, problem = applied(asked)
    assert annotations[APPLIED] == BEFORE
    assert problem.path == f"metadata.annotations[{ASKED}]{path}"
    assert message in problem.problem


def test_without_replicas_clusters_can_be_unavailable_but_not_limited():
    assert applied(limit(), has_replicas=False).problem is not None
    assert applied(keep_clear(), has_replicas=False).problem is None


def test_an_applied_migration_affects_scheduling():
    annotations, _ = applied({**limit("b"), **keep_clear("a")})
    unit = prepare(web(), spec(schedulingMode="Divide"), annotations, NOW).unit
    assert unit.limited_capacity == {"b": 1}
    assert unit.evicted == {"a"}
