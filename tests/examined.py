"""What the doctor sees of an installation that is well; a test breaks what it is about."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from berthmaster_cli.doctor.facts import (
    Bindings,
    Facts,
    Fleet,
    Hook,
    Kinds,
    LeaseSeen,
    Probe,
    Rights,
    Served,
    Server,
    Setup,
    Stored,
    Trial,
    Workload,
)
from berthmaster_cli.doctor.fields import KINDS
from berthmaster_cli.doctor.finding import Finding
from berthmaster_cli.doctor.judge import GROUPS, findings
from berthmaster_cli.doctor.judge.webhooks import WANTED
from certs.authority import KeyPair, issue, new_authority
from certs.bundle import Bundle

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
HOST = "berthmaster-webhook.karmada-system.svc"
AUTHORITY = new_authority("berthmaster", 3650 * DAY, NOW - DAY)
_PLURALS = {
    "PropagationPolicy": "propagationpolicies.policy.karmada.io",
    "ClusterPropagationPolicy": "clusterpropagationpolicies.policy.karmada.io",
    "WorkloadRebalancer": "workloadrebalancers.apps.karmada.io",
}
SETUP = Setup(target="kubectl --context=karmada", host="kubectl", single=False)


def leaf(host: str = HOST, *, days: float = 90, age_days: float = 1, authority: KeyPair = AUTHORITY) -> KeyPair:
    """A serving certificate."""
    return issue(authority, "webhook", (host,), days * DAY, NOW - age_days * DAY)


def bundle(*authorities: KeyPair) -> Bundle:
    """What trusts them."""
    return Bundle(each.certificate for each in authorities or (AUTHORITY,))


def hooks(configuration: str = "berthmaster", host: str = HOST, **settings: Any) -> tuple[Hook, ...]:
    """All of our webhooks, as the chart registers them."""
    return tuple(
        Hook(
            **{
                "kind": f"{'Mutating' if path.startswith('/mutate') else 'Validating'}WebhookConfiguration",
                "configuration": configuration,
                "name": f"{path.partition('-')[2]}.berthmaster.io",
                "url": f"https://{host}:443{path}",
                "bundle": bundle(),
                "resources": frozenset({_PLURALS[route.kind]}),
                "timeout_s": 3.0,
                **settings,
            }
        )
        for path, route in WANTED.items()
    )


def policy(**spec: Any) -> dict[str, Any]:
    """The policy on trial, as it would have been stored."""
    constraint = {"maxGroups": 2, "spreadByField": "cluster", "minGroups": 1}
    return {
        "metadata": {"labels": {"propagationpolicy.karmada.io/permanent-id": "1"}},
        "spec": {"preemption": "Never", "priority": 0, "placement": {"spreadConstraints": [constraint]}, **spec},
    }


def trial(**more: Any) -> Trial:
    """A good policy that passes, and a bad one that our webhook refuses."""
    refusal = 'admission webhook "clusterpropagationpolicy.berthmaster.io" denied the request: no namespace'
    return Trial(**{"stored": policy(), "took_s": (0.02, 0.03), "bad_problem": refusal, **more})


def refused(problem: str, status: int = 500) -> Trial:
    """A good policy that the API server refuses."""
    return Trial(None, problem, status, (0.1,), bad_tried=False)


def not_called(why: str) -> Trial:
    """The same, because it could not call our webhook."""
    url = f"https://{HOST}:443/mutate-propagationpolicy?timeout=3s"
    words = f'failed calling webhook "propagationpolicy.berthmaster.io": failed to call webhook: Post "{url}": {why}'
    return refused(f"Internal error occurred: {words}")


def lease(namespace: str = "karmada-system", holder: str = "controllers-0", age_s: float = 3) -> LeaseSeen:
    """A lease."""
    return LeaseSeen(namespace, "berthmaster-controllers", holder, NOW - timedelta(seconds=age_s), 15)


def workload(component: str, *arguments: str, name: str = "", wanted: int = 1) -> Workload:
    """A Deployment on the host."""
    return Workload(name or component, component, (component, *arguments), wanted, wanted)


def schema(*paths: str) -> dict[str, Any]:
    """A schema with some fields; every second level is a list, for the search to look into."""
    root: dict[str, Any] = {"type": "object", "properties": {}}
    for path in paths:
        node = root
        for name in path.split("."):
            node = node.get("items", node)
            node = node.setdefault("properties", {}).setdefault(name, {"items": {"properties": {}}})
    return root


def kinds(*without: str) -> dict[str, Kinds]:
    """All kinds with all fields but some, ``KIND.PATH`` each; a kind that is named alone is not served."""
    made: dict[str, tuple[set[str], dict[str, Any]]] = {}
    for kind in KINDS:
        plurals, schemas = made.setdefault(kind.api_version, (set(), {}))
        if kind.kind in without:
            continue
        plurals.add(kind.plural)
        schemas[kind.kind] = schema(*(f.path for f in kind.fields if f"{kind.kind}.{f.path}" not in without))
    return {version: Kinds(frozenset(plurals), schemas) for version, (plurals, schemas) in made.items()}


def server(ahead_s: float = 0, number: tuple[int, int] = (1, 34)) -> Server:
    """An API server."""
    version = f"v{number[0]}.{number[1]}.0"
    return Server(version, number, timedelta(seconds=ahead_s), timedelta(seconds=0.5))


def rights(*denied: Any, user: str = "system:serviceaccount:karmada-system:berthmaster-controllers") -> Rights:
    """What the controllers' user may do."""
    return Rights(user, ("system:authenticated",), denied, 17)


def well(**changes: Any) -> Facts:
    """Everything as it should be, but for some facts."""
    pair = leaf()
    facts = Facts(
        setup=SETUP,
        now=NOW,
        target=server(),
        host=server(),
        kinds=kinds(),
        hooks=hooks(),
        served=(Served(HOST, 443, "served", "", pair.certificate),),
        stored=Stored("berthmaster-webhook-tls", pair.certificate, key_fits=True),
        trial=trial(),
        rights=rights(),
        lease=lease(),
        other_leases=(lease(),),
        karmada_lease=lease(holder="karmada-scheduler-0"),
        fleet=Fleet(3),
        bindings=Bindings({"berthmaster": 4, "default-scheduler": 2}),
        workloads=(
            workload("karmada-controller-manager"),
            workload("karmada-scheduler"),
            workload("controllers", "--scheduler-name=berthmaster", name="berthmaster-controllers"),
            workload("webhook", "--request-timeout-s=2.5", name="berthmaster-webhook"),
        ),
        probes=(Probe("http://127.0.0.1:9080", 200, "ok"),),
    )
    return replace(facts, **changes)


def examined(facts: Facts) -> list[Finding]:
    """All that is to be said."""
    return findings(facts, frozenset(GROUPS))
