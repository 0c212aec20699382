"""A generated fleet in use, in the shapes that Karmada gives objects: what `make console`, tests and benches show.

``fleet(clusters, workloads, now)`` returns manifests. Clusters stand in regions of several providers; some are tainted,
draining, not ready or being deleted. Most workloads are in the first group of their placement. Fixed shares of them are
in a later group, nowhere, short of replicas, moving, held down, suspended or not scheduled yet. The same arguments give
the same manifests.
"""

import random
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from decisions import DYNAMIC
from karmada_plane import CPP_ID, PP_ID, binding, cluster, deployment, policy, resource, selector
from msgspec.structs import replace

from berthmaster.deciding import lease_record
from berthmaster.manifests import ManifestLimits
from berthmaster.model.decode import encode_json
from berthmaster.model.move import (
    DRAINING,
    FAILBACK,
    MOVE,
    MovePhase,
    MoveReason,
    MoveState,
    annotation_of,
)

JSON = dict[str, Any]
REGIONS: Final = (
    ("aws", "eu-west-1"), ("aws", "us-east-1"), ("gcp", "europe-west4"), ("gcp", "us-central1"),
    ("azure", "westeurope"), ("own", "berlin"), ("own", "oslo"), ("edge", "shops-north"),
)  # fmt: skip
TEAMS: Final = ("shop", "payments", "search", "media", "risk", "logistics", "identity", "insights")
PARTS: Final = ("web", "api", "worker", "cache", "gateway", "importer", "mailer", "index")
PER_NAMESPACE: Final = 100
GROUPS: Final = ("home", "neighbour", "anywhere")
BERTHMASTER: Final = "berthmaster"
_GIB: Final = 2**30
_PER_FILE: Final = 10_000
_STOPPED: Final = 19
"""Each one of so many workloads had its only copies on the lost cluster of its region, if there is one."""


_KINDS: Final = (
    ("nowhere", 97, 5), ("pending", 103, 6), ("moving", 71, 7), ("held-down", 83, 8),
    ("short", 61, 9), ("suspended", 101, 10), ("third", 53, 11), ("second", 17, 12),
)  # fmt: skip
"""Which workloads are unusual: each one whose number has this remainder."""


def kind_of(number: int) -> str:
    """Return what is unusual about the workload of a number: a name of ``_KINDS``, or ``placed``."""
    return next((name for name, every, remainder in _KINDS if number % every == remainder), "placed")


def fleet(clusters: int = 200, workloads: int = 2000, *, now: datetime, seed: int = 19) -> list[JSON]:
    """Return the manifests of a fleet in use: clusters, policies, workloads and their bindings.

    Args:
        clusters: how many clusters; at least 16.
        workloads: how many Deployments. Few objects of other kinds come with them.
        now: the present, in UTC. Times of moves and conditions are near it.
        seed: of the random choices.
    """
    draw = random.Random(f"{seed}-{clusters}-{workloads}")
    members = [_cluster(draw, number, now) for number in range(clusters)]
    by_region: dict[str, list[str]] = {}
    lost: dict[str, str] = {}
    for member in members:
        region, name = member["spec"]["region"], member["metadata"]["name"]
        if member["status"]["conditions"][0]["status"] == "True":
            by_region.setdefault(region, []).append(name)
        else:
            lost[region] = name
    return [*members, _lease(now), *_platform(members), *_workloads(draw, workloads, by_region, lost, now)]


def write(manifests: Sequence[JSON], folder: Path) -> None:
    """Write manifests into a new folder, in files of a size that the extender reads.

    A fleet with more objects than the extender reads has no Deployments: the bindings say enough for every page.
    """
    limits = ManifestLimits()
    if len(manifests) > limits.documents:
        manifests = [each for each in manifests if each["kind"] != "Deployment"]
    folder.mkdir()
    for number, first in enumerate(range(0, len(manifests), _PER_FILE)):
        items = manifests[first : first + _PER_FILE]
        text = encode_json({"apiVersion": "v1", "kind": "List", "items": items})
        (folder / f"{number:03}.json").write_bytes(text)


def _lease(now: datetime) -> JSON:
    """Return the Lease of the controllers, with what it records about moves."""
    budgets = (
        {"name": "everyday", "maxMoves": 40, "maxMovesFromCluster": 5},
        {
            "name": "critical",
            "selector": {"policies": ["critical"]},
            "maxMoves": 10,
            "windows": [{"schedule": "0 22 * * *", "duration": "6h"}],
        },
    )
    sources = lease_record.SourcesRecord("Auto", "Auto", budgets=budgets, scheduler=BERTHMASTER)
    annotations = {
        lease_record.BRAKE: lease_record.text_of(lease_record.BrakeRecord()),
        lease_record.SOURCES: lease_record.text_of(sources),
    }
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "berthmaster-controllers", "namespace": "karmada-system", "annotations": annotations},
        "spec": {"holderIdentity": "controllers-0", "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")},
    }


def _stamp(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _cluster(draw: random.Random, number: int, now: datetime) -> JSON:
    provider, region = REGIONS[number % len(REGIONS)]
    cpu = draw.choice((32, 64, 128, 512, 2000))
    made = cluster(f"{region}-{number // len(REGIONS) + 1:02d}", cpu, provider=provider, environment="production")
    zones = [f"{region}{letter}" for letter in "abc"[: draw.choice((1, 2, 3))]]
    made["spec"].update(provider=provider, region=region, zones=zones)
    share = draw.betavariate(4, 3)
    allocatable = {
        "cpu": str(cpu),
        "memory": f"{cpu * 4}Gi",
        "pods": str(cpu * 8),
        "ephemeral-storage": f"{cpu * 20}Gi",
    }
    allocated = {
        "cpu": f"{int(cpu * 1000 * share)}m",
        "memory": str(int(cpu * 4 * _GIB * min(1.0, share * draw.uniform(0.8, 1.2)))),
        "pods": str(int(cpu * 8 * share * 0.6)),
    }
    if number % 9 == 4:
        allocatable["nvidia.com/gpu"], allocated["nvidia.com/gpu"] = "16", str(draw.randrange(17))
    made["status"]["resourceSummary"] = {"allocatable": allocatable, "allocated": allocated}
    made["status"]["kubernetesVersion"] = draw.choice(("v1.33.4", "v1.34.1", "v1.34.1", "v1.35.0"))
    made["status"]["nodeSummary"] = {"totalNum": cpu // 16, "readyNum": cpu // 16}
    _disturb(made, number, now)
    return made


def _disturb(made: JSON, number: int, now: datetime) -> None:
    """Taint, drain, lose or delete some clusters."""
    taints = made["spec"].setdefault("taints", [])
    if number % 23 == 3:
        taints.append({"key": "maintenance", "value": "kernel", "effect": "NoSchedule"})
    if number % 50 == 13:
        taints.append({"key": DRAINING, "effect": "NoSchedule"})
    if number % 40 == 9:
        made["status"]["conditions"] = [
            {
                "type": "Ready", "status": "False", "reason": "ClusterNotReachable",
                "message": "the API server of the cluster does not answer: connection timed out",
                "lastTransitionTime": _stamp(now - timedelta(minutes=14)),
            }
        ]  # fmt: skip
        taints.append({"key": "cluster.karmada.io/not-ready", "effect": "NoSchedule"})
    if number % 110 == 15:
        made["metadata"].update(deletionTimestamp=_stamp(now - timedelta(minutes=3)), finalizers=["karmada.io/cluster"])


def _platform(members: Sequence[JSON]) -> Iterator[JSON]:
    """Yield what the platform places on every cluster: a ClusterRole and a ConfigMap, each with its binding."""
    names = {each["metadata"]["name"]: 0 for each in members}
    everywhere = policy(
        "platform",
        selector("ClusterRole", "rbac.authorization.k8s.io/v1", name="viewer"),
        selector("ConfigMap", "v1", name="trust"),
        namespace="", placement={"clusterAffinity": {"clusterNames": []}}, priority=5,
    )  # fmt: skip
    yield everywhere
    # It selects what the policies of the teams select as well: they win by being in the namespace.
    yield policy(
        "fallback", selector(labelSelector={"matchLabels": {"tier": "critical"}}), namespace="",
        placement={"clusterAffinity": {"clusterNames": []}},
    )  # fmt: skip
    # It may take a workload from the policies of a team, because it names it.
    yield policy(
        "checkout", selector(name="web-0", namespace=TEAMS[0]), namespace=TEAMS[0], priority=20, preemption="Always",
        placement={"clusterAffinity": {"clusterNames": []}},
    )  # fmt: skip
    for made in (
        resource("viewer", "ClusterRole", "rbac.authorization.k8s.io/v1", namespace="", rules=[]),
        resource("trust", "ConfigMap", namespace=TEAMS[0], data={"ca.crt": "..."}),
    ):
        made["metadata"]["labels"] = {CPP_ID: "id-platform"}
        yield made
        bound = binding(made, everywhere, **names)
        del bound["spec"]["replicaRequirements"]
        bound["status"] |= {"conditions": [_scheduled("True", "Success", "Binding has been scheduled successfully.")]}
        yield bound


def _groups(home: str, neighbour: str) -> list[JSON]:
    def in_region(region: str) -> JSON:
        return {"fieldSelector": {"matchExpressions": [{"key": "region", "operator": "In", "values": [region]}]}}

    return [
        {"affinityName": GROUPS[0], **in_region(home)},
        {"affinityName": GROUPS[1], **in_region(neighbour)},
        {"affinityName": GROUPS[2]},
    ]


def _policies(namespace: str, home: str, neighbour: str) -> tuple[JSON, JSON]:
    """Return the two policies of a team: for all Deployments, and for those that are critical."""
    weighted = DYNAMIC
    placement = {"clusterAffinities": _groups(home, neighbour), "replicaScheduling": weighted}
    spread = [{"spreadByField": "cluster", "minGroups": 2, "maxGroups": 4}]
    usual = policy("everyday", selector(), namespace=namespace, placement=placement, schedulerName=BERTHMASTER)
    critical = policy(
        "critical", selector(labelSelector={"matchLabels": {"tier": "critical"}}), namespace=namespace,
        placement={**placement, "spreadConstraints": spread}, schedulerName=BERTHMASTER, priority=10,
    )  # fmt: skip
    critical["metadata"]["annotations"] = {FAILBACK: "after=10m"}
    for each in (usual, critical):  # Karmada gives each policy an id of its own
        each["metadata"]["labels"][PP_ID] = f"id-{namespace}-{each['metadata']['name']}"
    return usual, critical


def _workloads(
    draw: random.Random, count: int, by_region: dict[str, list[str]], lost: dict[str, str], now: datetime
) -> Iterator[JSON]:
    """Yield policies and workloads. Some workloads of a region with a lost cluster had their only copies there."""
    regions = list(by_region)
    for first in range(0, count, PER_NAMESPACE):
        turn = first // PER_NAMESPACE
        namespace = TEAMS[turn] if turn < len(TEAMS) else f"{TEAMS[turn % len(TEAMS)]}-{turn // len(TEAMS) + 1}"
        home, neighbour = regions[turn % len(regions)], regions[(turn + 2) % len(regions)]
        usual, critical = _policies(namespace, home, neighbour)
        yield from (usual, critical)
        places = (by_region[home], by_region[neighbour], by_region[regions[(turn + 4) % len(regions)]])
        for number in range(first, min(first + PER_NAMESPACE, count)):
            claimant = critical if number % 5 == 0 else usual
            stays = lost.get(home, "") if number % _STOPPED == 0 else ""
            yield from _workload(draw, number, namespace, claimant, places, now, stays)


def _workload(
    draw: random.Random,
    number: int,
    namespace: str,
    claimant: JSON,
    places: Sequence[Sequence[str]],
    now: datetime,
    stays: str = "",
) -> Iterator[JSON]:
    kind, replicas = kind_of(number), draw.choice((1, 2, 2, 3, 4, 6, 12))
    template = deployment(f"{PARTS[number % len(PARTS)]}-{number}", replicas, namespace=namespace, by=claimant)
    template["metadata"].pop("managedFields")
    if claimant["metadata"]["name"] == "critical":
        template["metadata"]["labels"]["tier"] = "critical"
    index = {"second": 1, "third": 2, "held-down": 1, "moving": 1}.get(kind, 0)
    chosen = {} if kind in {"nowhere", "pending"} else _divided(draw, places[index], replicas)
    if kind == "placed" and stays:
        chosen = {stays: replicas}
    if kind == "short" and len(chosen) > 1:
        chosen.pop(next(iter(chosen)))
    bound = binding(template, claimant, **chosen)
    if kind == "nowhere":
        (container,) = template["spec"]["template"]["spec"]["containers"]
        container["resources"]["requests"]["cpu"] = bound["spec"]["replicaRequirements"]["resourceRequest"]["cpu"] = (
            "4000"
        )
    bound["spec"]["schedulerName"] = BERTHMASTER
    bound["metadata"].update(creationTimestamp="2026-01-01T00:00:00Z", generation=2)
    status = bound["status"]
    status["schedulerObservedGeneration"] = 2
    if chosen:
        status["schedulerObservingAffinityName"] = GROUPS[index]
        status["lastScheduledTime"] = _stamp(now - timedelta(minutes=draw.randrange(1, 20_000)))
    _dress(draw, bound, kind, places[0], now)
    yield template
    yield bound


def _divided(draw: random.Random, names: Sequence[str], replicas: int) -> dict[str, int]:
    """Return an assignment of replicas to one, two or three clusters."""
    several = draw.sample(list(names), k=min(len(names), replicas, draw.choice((1, 2, 2, 3))))
    share, rest = divmod(replicas, len(several))
    return {name: share + (place < rest) for place, name in enumerate(several)}


def _scheduled(status: str, reason: str, message: str) -> JSON:
    time = "2026-01-01T00:00:00Z"
    return {"type": "Scheduled", "status": status, "reason": reason, "message": message, "lastTransitionTime": time}


def _dress(draw: random.Random, bound: JSON, kind: str, home: Sequence[str], now: datetime) -> None:
    conditions = bound["status"].setdefault("conditions", [])
    if kind == "nowhere":
        reason = "no cluster has 4000 free cores for a replica"
        since = {"lastTransitionTime": _stamp(now - timedelta(minutes=40))}
        conditions.append({**_scheduled("False", "NoClusterFit", reason), **since})
    elif kind != "pending":
        conditions.append(_scheduled("True", "Success", "Binding has been scheduled successfully."))
    if kind == "suspended":
        bound["spec"]["suspension"] = {"scheduling": True}
    if kind in {"moving", "held-down"}:
        _move(draw, bound, kind, home, now)


def _move(draw: random.Random, bound: JSON, kind: str, home: Sequence[str], now: datetime) -> None:
    """Let a binding move back to its first group, or hold it down after a move that failed."""
    source = {each["name"]: each["replicas"] for each in bound["spec"]["clusters"]}
    target = _divided(draw, home, sum(source.values()))
    begun = now - timedelta(minutes=draw.randrange(1, 30))
    phase = draw.choice((MovePhase.STABILISING, MovePhase.SURGING, MovePhase.SOAKING))
    state = MoveState(
        reason=MoveReason.FAILBACK, phase=phase, source=source, target=target, source_group=GROUPS[1],
        target_group=GROUPS[0], started_at=begun, since=begun, until=now + timedelta(minutes=12),
        message={
            MovePhase.STABILISING: "waits until the place in group home has been there for 10 minutes",
            MovePhase.SURGING: "waits for 1 of 2 new copies to become healthy",
        }.get(phase, "the new copies must stay healthy for 12 minutes"),
    )  # fmt: skip
    if kind == "held-down":
        state = replace(
            state, phase=MovePhase.ROLLED_BACK, until=None, failures=2, held_down_until=now + timedelta(hours=2),
            message="the new copies did not become healthy in 10 minutes",
        )  # fmt: skip
    elif state.under_way:
        union = {name: max(source.get(name, 0), target.get(name, 0)) for name in sorted({*source, *target})}
        bound["spec"]["clusters"] = [{"name": name, "replicas": replicas} for name, replicas in union.items()]
    bound["metadata"]["annotations"][MOVE] = annotation_of(state)


HOSTILE: Final = (
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "a" * 253,
    "bell\x07tab\tnull\x00",
    "\u202eright-to-left",
    "{{ 7 * 7 }}%s{% raw %}",
)
"""Names that no API server accepts, for a page that must show them as data."""


def hostile(now: datetime) -> list[JSON]:
    """Return a cluster, a policy and a workload for each hostile text, which stands wherever a text can stand."""
    made: list[JSON] = []
    for number, text in enumerate(HOSTILE):
        member = cluster(text, 8)
        member["spec"].update(provider=text, region=text, zones=[text])
        member["spec"]["taints"] = [{"key": text, "value": text, "effect": "NoSchedule"}]
        placement = {"clusterAffinities": [{"affinityName": text}]}
        claimant = policy(text, selector(name=text), namespace="hostile", placement=placement)
        template = deployment(text, 1, namespace="hostile", by=claimant)
        bound = binding(template, claimant, **{text: 1})
        bound["metadata"]["name"] = f"hostile-{number}" if "/" in text else f"{text[:240]}-deployment"
        bound["status"] |= {
            "conditions": [_scheduled("False", text, text)],
            "schedulerObservingAffinityName": text,
            "lastScheduledTime": _stamp(now),
        }
        made += [member, claimant, template, bound]
    return made
