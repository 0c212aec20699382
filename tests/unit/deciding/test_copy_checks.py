"""Whether a copy can start in a cluster, and whether the copy there may go."""

from typing import Any

import msgspec
from builders import binding
from tables import cases

from berthmaster.deciding.copy_checks import blocked_failover, blocked_move, cannot_start, must_stay, suspended_clusters
from berthmaster.deciding.move_settings import MoveSettings
from berthmaster.model.binding import Binding
from berthmaster.model.decode import convert, decode_json
from berthmaster.model.meta import with_spec
from berthmaster.model.move import MovePhase, MoveReason, MoveState, MoveStrategy, VolumeLoss
from berthmaster.model.move_refusal import Cause
from berthmaster.model.placement import Placement
from berthmaster.model.policy import Suspension
from berthmaster.model.template_facts import TemplateFacts, facts_of
from berthmaster.model.work import Copies, KarmadaWork, copies_of

LOSES = MoveSettings(volumes=VolumeLoss.MAY_BE_LOST)
KEEPS = MoveSettings()
MOVE = MoveState(MoveReason.DRAIN, MovePhase.ADMITTED, source={"old": 4}, target={"new": 4})
DIVIDED = convert(Placement, {"replicaScheduling": {"replicaSchedulingType": "Divided"}})


def work(cluster: str = "old", kind: str = "Deployment", *, applied: bool = True, **given: Any) -> KarmadaWork:
    """Return a Work as the API server sends it. ``given``: its manifest, its status, and fields of its spec."""
    group = {"Deployment": "apps/v1", "StatefulSet": "apps/v1", "Job": "batch/v1"}.get(kind, "v1")
    metadata = {"name": "web", "namespace": "shop", "labels": given.pop("labels", {})}
    manifest = {"apiVersion": group, "kind": kind, "metadata": metadata, "spec": given.pop("manifest", {})}
    status = {
        "conditions": [{"type": "Applied", "status": str(applied)}],
        "manifestStatuses": [{"status": given.pop("status", {"readyReplicas": 4})}],
    }
    content = {
        "metadata": {"name": "web", "namespace": f"karmada-es-{cluster}"},
        "spec": {"workload": {"manifests": [manifest]}, **given},
        "status": status,
    }
    return decode_json(KarmadaWork, msgspec.json.encode(content))


def suspended(**fields: Any) -> Binding:
    return with_spec(binding(clusters={"old": 4}), suspension=convert(Suspension, fields))


def mounting(claim: str) -> Any:
    pod = {"containers": [], "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}
    return {"template": {"spec": pod}}


WEB = binding(clusters={"old": 4})
RETAINED = {"resourcetemplate.karmada.io/retain-replicas": "true"}
NAMED = {"dispatchingOnClusters": {"clusterNames": ["new"]}}


@cases(
    ("given", "cluster", "works", "cause"),
    {
        "a Deployment": (WEB, "new", [work()], None),
        "without any Work": (WEB, "new", [], None),
        "dispatching is suspended everywhere": (suspended(dispatching=True), "new", [work()], Cause.SUSPENDED),
        "dispatching is suspended there": (suspended(**NAMED), "new", [work()], Cause.SUSPENDED),
        "dispatching is suspended elsewhere": (suspended(**NAMED), "third", [work()], None),
        "only scheduling is suspended": (suspended(scheduling=True), "new", [work()], None),
        "a paused Deployment": (WEB, "new", [work(manifest={"paused": True})], Cause.TEMPLATE_PAUSED),
        "a paused Deployment grows where it is": (WEB, "old", [work(manifest={"paused": True})], None),
        "a StatefulSet has no pause": (WEB, "new", [work(kind="StatefulSet", manifest={"paused": True})], None),
        "a member decides the replicas, and has fewer": (
            WEB, "old", [work(labels=RETAINED, status={"readyReplicas": 3})], Cause.REPLICAS_RETAINED,
        ),
        "a member decides the replicas, and has enough": (WEB, "old", [work(labels=RETAINED)], None),
        "a member without a copy takes the number": (WEB, "new", [work(labels=RETAINED)], None),
    },
)  # fmt: skip
def test_whether_a_copy_can_start(given: Binding, cluster: str, works: list[KarmadaWork], cause: Cause | None):
    refusal = cannot_start(given, cluster, 4, copies_of(works))
    assert (None if refusal is None else refusal.cause) == cause


JOB = binding(kind="Job", clusters={"old": 4})
COMPLETE = {"conditions": [{"type": "Complete", "status": "True"}]}
RUNNING = {"conditions": [{"type": "Complete", "status": "False"}], "active": 4}


@cases(
    ("given", "copy", "cause"),
    {
        "a Job that runs": (JOB, work(kind="Job", status=RUNNING), None),
        "a Job that is complete": (JOB, work(kind="Job", status=COMPLETE), Cause.JOB_FINISHED),
        "a Job that has failed": (
            JOB, work(kind="Job", status={"conditions": [{"type": "Failed", "status": "True"}]}), Cause.JOB_FINISHED,
        ),
        "a suspended Job": (JOB, work(kind="Job", manifest={"suspend": True}), Cause.TEMPLATE_PAUSED),
        "a divided Job": (with_spec(JOB, placement=DIVIDED), work(kind="Job", status=RUNNING), Cause.JOB_DIVIDED),
        "a divided Deployment": (with_spec(WEB, placement=DIVIDED), work(), None),
    },
)  # fmt: skip
def test_whether_a_job_moves(given: Binding, copy: KarmadaWork, cause: Cause | None):
    refusal = blocked_move(given, MOVE, copies_of([copy]), KEEPS)
    assert (None if refusal is None else refusal.cause) == cause


FOLLOWED = with_spec(WEB, propagate_deps=True)
DATABASE = {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]}
OLD = {"dispatchingOnClusters": {"clusterNames": ["old"]}}


@cases(
    ("given", "copy", "settings", "cause"),
    {
        "a Deployment": (WEB, work(), KEEPS, None),
        "dispatching is suspended there": (suspended(**OLD), work(), KEEPS, Cause.SUSPENDED),
        "nothing was applied there": (suspended(**OLD), work(applied=False), KEEPS, None),
        "dispatching is suspended elsewhere": (suspended(**NAMED), work(), KEEPS, None),
        "a claim that follows": (FOLLOWED, work(manifest=mounting("data")), KEEPS, Cause.VOLUMES),
        "a claim that stays": (WEB, work(manifest=mounting("data")), KEEPS, Cause.VOLUMES),
        "its policy says that volumes may be lost": (FOLLOWED, work(manifest=mounting("data")), LOSES, None),
        "claims of a StatefulSet": (WEB, work(kind="StatefulSet", manifest=DATABASE), KEEPS, Cause.VOLUMES),
        "a claim itself": (
            binding(kind="PersistentVolumeClaim", clusters={"old": 0}), work(kind="PersistentVolumeClaim"), KEEPS,
            Cause.VOLUMES,
        ),
    },
)  # fmt: skip
def test_whether_the_copy_may_go(given: Binding, copy: KarmadaWork, settings: MoveSettings, cause: Cause | None):
    refusal = must_stay(given, "old", copies_of([copy]), settings)
    assert (None if refusal is None else refusal.cause) == cause


def test_nothing_keeps_a_copy_that_is_already_being_deleted():
    mounted = copies_of([work(manifest=mounting("data"))])
    going = {"old": msgspec.structs.replace(mounted.by_cluster["old"], deleting=True)}
    needed = {"old": ("shop/Deployment/api",)}
    assert (
        must_stay(suspended(**OLD), "old", msgspec.structs.replace(mounted, by_cluster=going, needed=needed), KEEPS)
        is None
    )


def test_a_needed_resource_may_begin_to_move_unless_its_old_copy_goes_first():
    needed = msgspec.structs.replace(copies_of([work()]), needed={"old": ("shop/Deployment/api",)})
    assert blocked_move(WEB, MOVE, needed, KEEPS) is None
    first = msgspec.structs.replace(MOVE, strategy=MoveStrategy.BREAK_BEFORE_MAKE)
    refusal = blocked_move(WEB, first, needed, KEEPS)
    assert refusal is not None
    assert (refusal.cause, refusal.message) == (Cause.NEEDED, "shop/Deployment/api on old needs it")


def test_a_copy_that_the_member_keeps_must_not_go_first():
    kept = copies_of([work(preserveResourcesOnDeletion=True)])
    assert blocked_move(WEB, MOVE, kept, KEEPS) is None
    first = msgspec.structs.replace(MOVE, strategy=MoveStrategy.BREAK_BEFORE_MAKE)
    refusal = blocked_move(WEB, first, kept, KEEPS)
    assert refusal is not None
    assert refusal.cause is Cause.KEEPS_OLD_COPY


def test_a_failover_keeps_volumes_and_starts_only_where_it_can():
    mounted = copies_of([work(manifest=mounting("data"))])
    assert blocked_failover(WEB, ["old"], {"new": 4}, copies_of([work()]), KEEPS) is None
    assert blocked_failover(WEB, ["old"], {"new": 4}, mounted, KEEPS).cause is Cause.VOLUMES
    assert blocked_failover(WEB, ["old"], {"new": 4}, mounted, LOSES) is None
    assert blocked_failover(suspended(**NAMED), ["old"], {"new": 4}, Copies(), KEEPS).cause is Cause.SUSPENDED
    assert blocked_failover(suspended(**NAMED), ["old"], {"new": 4}, Copies(problem="x"), KEEPS) is not None


def test_the_clusters_without_dispatching():
    assert suspended_clusters(suspended(**NAMED), ["new", "old"]) == {"new"}
    assert suspended_clusters(suspended(dispatching=True), ["new", "old"]) == {"new", "old"}
    assert suspended_clusters(WEB, ["new"]) == frozenset()


@cases(
    ("manifest", "expected"),
    {
        "nothing": ({}, TemplateFacts()),
        "fields of a wrong type": (
            {"kind": "StatefulSet", "metadata": 1, "spec": {"volumeClaimTemplates": [1, {"metadata": 2}]}},
            TemplateFacts(own_claims=("None", "None")),
        ),
        "a definition": (
            {
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {},
                "spec": {"group": "example.org", "names": {"kind": "Basin"}},
            },
            TemplateFacts(defines="Basin.example.org"),
        ),
    },
)  # fmt: skip
def test_what_a_manifest_says(manifest: dict[str, Any], expected: TemplateFacts):
    assert facts_of(manifest) == expected
