"""The facts about a healthy installation. A test replaces the facts that it is about."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from berthmaster_cli.doctor.facts import (
    KNOWN,
    AccessFacts,
    BindingFacts,
    DeploymentFacts,
    DryRunFacts,
    EndpointFacts,
    Facts,
    FleetFacts,
    LeaseFacts,
    ProbeFacts,
    SecretFacts,
    ServedKinds,
    ServerFacts,
    Setup,
    WebhookFacts,
)
from berthmaster_cli.doctor.findings import Finding
from berthmaster_cli.doctor.judge import GROUPS, findings
from berthmaster_cli.doctor.judge.registration import WANTED
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
    return issue(authority, "webhook", (host,), days * DAY, NOW - age_days * DAY)


def bundle(*authorities: KeyPair) -> Bundle:
    return Bundle(each.certificate for each in authorities or (AUTHORITY,))


def webhooks(configuration: str = "berthmaster", host: str = HOST, **settings: Any) -> tuple[WebhookFacts, ...]:
    """Make all webhooks of Berthmaster, as the chart registers them."""
    return tuple(
        WebhookFacts(
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
    """Make the dry-run policy as the API server would have stored it."""
    constraint = {"maxGroups": 2, "spreadByField": "cluster", "minGroups": 1}
    return {
        "metadata": {"labels": {"propagationpolicy.karmada.io/permanent-id": "1"}},
        "spec": {"preemption": "Never", "priority": 0, "placement": {"spreadConstraints": [constraint]}, **spec},
    }


def dry_run(**more: Any) -> DryRunFacts:
    """Make a dry run: the good policy passes, and our webhook denies the bad one."""
    denial = 'admission webhook "clusterpropagationpolicy.berthmaster.io" denied the request: no namespace'
    return DryRunFacts(**{"policy": policy(), "took_s": (0.02, 0.03), "bad_problem": denial, **more})


def refused(problem: str, status: int = 500) -> DryRunFacts:
    """Make a dry run whose good policy the API server refuses."""
    return DryRunFacts(None, problem, status, (0.1,), bad_tried=False)


def not_called(why: str) -> DryRunFacts:
    """Make a dry run in which the API server could not call our webhook."""
    url = f"https://{HOST}:443/mutate-propagationpolicy?timeout=3s"
    words = f'failed calling webhook "propagationpolicy.berthmaster.io": failed to call webhook: Post "{url}": {why}'
    return refused(f"Internal error occurred: {words}")


def lease(namespace: str = "karmada-system", holder: str = "controllers-0", age_s: float = 3) -> LeaseFacts:
    return LeaseFacts(namespace, "berthmaster-controllers", holder, NOW - timedelta(seconds=age_s), 15)


def deployment(component: str, *arguments: str, name: str = "", wanted: int = 1) -> DeploymentFacts:
    return DeploymentFacts(name or component, component, (component, *arguments), wanted, wanted)


def schema(*paths: str) -> dict[str, Any]:
    """Make a schema with some fields. Every second level is a list."""
    root: dict[str, Any] = {"type": "object", "properties": {}}
    for path in paths:
        node = root
        for name in path.split("."):
            node = node.get("items", node)
            node = node.setdefault("properties", {}).setdefault(name, {"items": {"properties": {}}})
    return root


ANY_FIELD = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def kinds(*without: str) -> dict[str, ServedKinds]:
    """Make all kinds with all fields, except some: ``KIND`` or ``KIND.PATH``. Other kinds accept any field."""
    made: dict[str, tuple[set[str], dict[str, Any]]] = {}
    for kind in KNOWN.kinds:
        plurals, schemas = made.setdefault(kind.api_version, (set(), {"Other": ANY_FIELD}))
        if kind.kind in without:
            continue
        plurals.add(kind.plural)
        schemas[kind.kind] = schema(*(path for path in kind.fields if f"{kind.kind}.{path}" not in without))
    return {version: ServedKinds(frozenset(plurals), schemas) for version, (plurals, schemas) in made.items()}


def server(ahead_s: float = 0, number: tuple[int, int] = (1, 34)) -> ServerFacts:
    version = f"v{number[0]}.{number[1]}.0"
    return ServerFacts(version, number, timedelta(seconds=ahead_s), timedelta(seconds=0.5))


def access(*denied: Any, user: str = "system:serviceaccount:karmada-system:berthmaster-controllers") -> AccessFacts:
    return AccessFacts(user, ("system:authenticated",), denied, 17)


def healthy(**changes: Any) -> Facts:
    """Make the facts about a healthy installation, with some changes."""
    pair = leaf()
    facts = Facts(
        setup=SETUP,
        now=NOW,
        target=server(),
        host=server(),
        kinds=kinds(),
        webhooks=webhooks(),
        endpoints=(EndpointFacts(HOST, 443, "served", "", pair.certificate),),
        secret=SecretFacts("berthmaster-webhook-tls", pair.certificate, key_fits=True),
        dry_run=dry_run(),
        access=access(),
        lease=lease(),
        other_leases=(lease(),),
        karmada_lease=lease(holder="karmada-scheduler-0"),
        fleet=FleetFacts(3),
        bindings=BindingFacts({"berthmaster": 4, "default-scheduler": 2}),
        deployments=(
            deployment("karmada-controller-manager"),
            deployment("karmada-scheduler"),
            deployment("controllers", "--scheduler-name=berthmaster", name="berthmaster-controllers"),
            deployment("webhook", "--request-timeout-s=2.5", name="berthmaster-webhook"),
        ),
        kube_scheduler=None,
        probes=(ProbeFacts("http://127.0.0.1:9080", 200, "ok"),),
    )
    return replace(facts, **changes)


def diagnose(facts: Facts) -> list[Finding]:
    return findings(facts, frozenset(GROUPS))
