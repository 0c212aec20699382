import json

from kubeadmiral_builders import NOW, spec, web
from tables import cases

from berthmaster.scheduling.kubeadmiral.preparation import prepare, with_migration_applied

ASKED = "kubeadmiral.io/migration-configuration"
APPLIED = "kubeadmiral.io/applied-migration-configuration"
BEFORE = '{"limitedCapacity":{"old":1}}'
SOON, LATER = "2026-03-01T13:00:00Z", "2026-03-02T00:00:00Z"


def applied(asked, *, has_replicas=True, before=BEFORE):
    annotations = {ASKED: asked if isinstance(asked, str) else json.dumps(asked), APPLIED: before, "team": "a"}
    return with_migration_applied(annotations, has_replicas=has_replicas)


def limit(cluster="a", **fields):
    return {"replicasMigrations": [{"cluster": cluster, "limitedCapacity": 1, **fields}]}


def keep_clear(cluster="a", **fields):
    return {"workloadMigrations": [{"cluster": cluster, "validUntil": SOON, **fields}]}


@cases(
    ("asked", "expected"),
    {
        "an empty configuration": ({}, {}),
        "no replicas": (limit(limitedCapacity=0), {"limitedCapacity": {"a": 0}}),
        "both, ordered by cluster": (
            {
                "replicasMigrations": [
                    {"cluster": "d", "limitedCapacity": 2},
                    {"cluster": "b", "limitedCapacity": 5},
                ],
                "workloadMigrations": [
                    {"cluster": "c", "validUntil": LATER},
                    {"cluster": "a", "validUntil": "2026-03-01T15:00:00+02:00"},
                ],
            },
            {
                "limitedCapacity": {"b": 5, "d": 2},
                "unavailableClusters": [
                    {"cluster": "a", "validUntil": "2026-03-01T15:00:00+02:00"},
                    {"cluster": "c", "validUntil": LATER},
                ],
            },
        ),
    },
)
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


@cases(
    ("asked", "path", "message"),
    {
        "not JSON": ("{", "", "not valid JSON"),
        "a limit without a cluster": (limit(""), ".replicasMigrations[0].cluster", "is missing"),
        "a cluster without a limit": (
            limit(limitedCapacity=None),
            ".replicasMigrations[0].limitedCapacity",
            "is missing",
        ),
        "a negative limit": (limit(limitedCapacity=-1), ".replicasMigrations[0].limitedCapacity", "-1 is negative"),
        "an unavailability without a cluster": (keep_clear(""), ".workloadMigrations[0].cluster", "is missing"),
        "an unavailability without a time": (
            keep_clear(validUntil=None),
            ".workloadMigrations[0].validUntil",
            "is missing",
        ),
        "an invalid time": (keep_clear(validUntil="soon"), ".workloadMigrations[0].validUntil", ""),
        "a duplicate cluster": (
            {**limit(), **keep_clear()},
            ".workloadMigrations[0].cluster",
            "'a' is named by another",
        ),
    },
)
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
