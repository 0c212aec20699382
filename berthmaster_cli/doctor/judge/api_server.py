"""Judges API servers: whether they respond, what they serve, and what the controllers' user may do."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

from berthmaster.controllers.rbac import AccessRule
from berthmaster.controllers.target import release_of, unknown_placement_fields
from berthmaster_cli.doctor.facts import (
    KNOWN,
    SINCE,
    Facts,
    Observed,
    RequiredKind,
    ServedKinds,
    ServerFacts,
    Setup,
    Unobserved,
)
from berthmaster_cli.doctor.findings import Finding, failed, ok, skipped, warning

OLDEST: Final = (1, 27)
"""The first version with the match conditions that the chart can set on webhooks. Older versions are not tested."""
NOTICEABLE: Final = timedelta(seconds=5)
HARMFUL: Final = timedelta(minutes=1)
"""Leases need no common clock and certificates begin ten minutes early. A smaller difference only confuses readers."""
_NOT_FOUND: Final = 404
_MASTERS: Final = "system:masters"
_ALL: Final = "*"


def servers(facts: Facts) -> Iterator[Finding]:
    """Judge version and clock of the target and of the host."""
    yield from _server("target", facts.target, f"{facts.setup.target} version")
    if facts.host is not None:
        yield from _server("host", facts.host, f"{facts.setup.host} version")


def _server(name: str, server: Observed[ServerFacts], command: str) -> Iterator[Finding]:
    check, what = f"api-server/{name}", f"the {name} API server"
    if isinstance(server, Unobserved) and server.forbidden:
        remedy = f"Use a kubeconfig file with valid credentials. Check them with: {command}"
        yield failed(check, f"{what} rejects the credentials of this user: {server.problem}", remedy)
    elif isinstance(server, Unobserved):
        remedy = f"Use the kubeconfig file of a server that is reachable from here. Try: {command}"
        yield failed(check, f"{what} does not respond: {server.problem}", remedy)
    else:
        message = f"{what} runs {server.version or 'an unknown version'}"
        if server.number < OLDEST:
            remedy = f"Upgrade it to {'.'.join(map(str, OLDEST))} or newer."
            yield warning(check, f"{message}, which is older than the tested versions", remedy)
        else:
            yield ok(check, message)
        if server.ahead is not None:
            yield _clock(f"{check}-clock", name, server.ahead, server.slack)


def _clock(check: str, name: str, ahead: timedelta, slack: timedelta) -> Finding:
    apart = abs(ahead)
    seconds = apart.total_seconds()
    if apart <= max(slack, timedelta(seconds=1)):
        return ok(check, f"the clock of the {name} API server matches the local clock")
    by = f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
    where = "ahead of" if ahead > timedelta(0) else "behind"
    message = f"the clock of the {name} API server is {by} {where} the local clock"
    if apart - slack < NOTICEABLE:
        return ok(check, message)
    remedy = "Synchronize both machines with NTP. Check on each: timedatectl timesync-status"
    return failed(check, message, remedy) if apart - slack >= HARMFUL else warning(check, message, remedy)


def definitions(facts: Facts) -> Iterator[Finding]:
    """Judge whether each kind is served with the fields that the code uses."""
    if facts.kinds and all(isinstance(each, Unobserved) and each.status == _NOT_FOUND for each in facts.kinds.values()):
        remedy = "Name the kubeconfig of Karmada's API server, which is another one than its host's: --kubeconfig FILE"
        yield failed("definitions/served", "the API server serves no kind of Karmada: it is no control plane", remedy)
        return
    newer = _newer_fields(facts.kinds)
    for kind in KNOWN.kinds:
        served = facts.kinds.get(kind.api_version)
        if served is not None:
            yield _kind(kind, served, newer, facts.setup.target)
            if kind.kind == "ResourceBinding" and not isinstance(served, Unobserved):
                yield from _release(served)


def _newer_fields(kinds: Mapping[str, Observed[ServedKinds]]) -> frozenset[str]:
    """Return the fields that no kind has: the release of Karmada is older, and its definitions are complete."""
    found = set()
    for kind in KNOWN.kinds:
        served = kinds.get(kind.api_version)
        schema = served.schemas.get(kind.kind) if isinstance(served, ServedKinds) else None
        found |= {path for path in SINCE if schema is not None and path in kind.fields and _has(schema, path)}
    return frozenset(SINCE) - found


def _release(served: ServedKinds) -> Iterator[Finding]:
    """Judge the release that the definition of bindings is from, and fields that this version does not know."""
    schema = served.schemas.get("ResourceBinding")
    if schema is None:
        return
    message = f"the definition of bindings is the one of Karmada {release_of(schema)}"
    if unknown := unknown_placement_fields(schema):
        remedy = "Upgrade Berthmaster before policies use these fields: bindings with them are held"
        yield warning("definitions/release", f"{message}; this version does not know {', '.join(unknown)}", remedy)
    else:
        yield ok("definitions/release", message)


def _kind(kind: RequiredKind, served: Observed[ServedKinds], newer: frozenset[str], kubectl: str) -> Finding:
    check, name = f"definitions/{kind.plural}", f"{kind.kind} ({kind.api_version})"
    apply = f"{kubectl} apply --server-side -R -f karmada/charts/karmada/_crds/bases"
    install = f"Install Karmada's definitions: {apply}"
    repair = f"Find out why the API server refuses: {kubectl} get --raw /apis/{kind.api_version}"
    if kind.kind == "Cluster":  # an aggregated API server serves it, which can fail alone
        group, _, version = kind.api_version.partition("/")
        aggregated = f"{kubectl} get apiservice {version}.{group} -o yaml"
        install = repair = f"Find out why karmada-aggregated-apiserver fails: {aggregated}"
    if isinstance(served, Unobserved) and served.status != _NOT_FOUND:
        return failed(check, f"{name} cannot be checked: {served.problem}", repair)
    if isinstance(served, Unobserved) or kind.plural not in served.plurals:
        message = f"the API server does not serve {name}"
        if kind.feature:
            return warning(check, f"{message}; unavailable: {kind.feature}", install)
        return failed(check, message, install)
    schema = served.schemas.get(kind.kind)
    if schema is None:
        return skipped(check, f"{name} is served, but the API server does not publish its fields")
    lacking = {path: feature for path, feature in kind.fields.items() if not _has(schema, path)}
    missing = {path: feature for path, feature in lacking.items() if path not in newer}
    if not missing:
        later = "".join(f"; {feature} need Karmada {SINCE[path]} or newer" for path, feature in lacking.items())
        return ok(check, f"{name} is served with all required fields{later}")
    message, remedy = f"{name} lacks {', '.join(missing)}", f"Apply the definitions of your Karmada release: {apply}"
    if not all(missing.values()):
        return failed(check, message, remedy)
    return warning(check, f"{message}; unavailable: {', '.join(dict.fromkeys(missing.values()))}", remedy)


def _has(schema: Mapping[str, Any], path: str) -> bool:
    """Whether a schema has a field, or accepts any field there."""
    node: Any = schema
    for name in path.split("."):
        while isinstance(node, dict) and "items" in node:
            node = node["items"]
        if not isinstance(node, dict):
            return False
        properties = node.get("properties") or {}
        if name not in properties:
            return bool(node.get("x-kubernetes-preserve-unknown-fields"))
        node = properties[name]
    return True


def access(facts: Facts) -> Iterator[Finding]:
    """Judge permissions: one finding for each rule that is not met, or one if all are."""
    observed, setup = facts.access, facts.setup
    if observed is None:
        return
    if isinstance(observed, Unobserved):
        message = f"permissions cannot be checked: {observed.problem}"
        if observed.forbidden:
            remedy = f"Run as a user who may impersonate other users: {setup.target} auth can-i impersonate users"
            yield skipped("rights/asked", message, remedy)
        else:
            remedy = f"Check whether the API server authorizes requests: {setup.target} auth can-i --list"
            yield failed("rights/asked", message, remedy)
        return
    user = observed.user or "this user"
    denied: dict[AccessRule, list[str]] = defaultdict(list)
    for rule, permission in observed.denied:
        denied[rule].append(permission)
    for rule, missing in denied.items():
        yield _denied(rule, missing, user, setup)
    if not denied:
        message = f"{user} has all {observed.checked} permissions that the controllers need"
        if _MASTERS in observed.groups:
            message += "; administrators may do everything, so check the controllers' own user with --rights-of=USER"
        yield ok("rights/controllers", message)


def _denied(rule: AccessRule, missing: list[str], user: str, setup: Setup) -> Finding:
    if rule.group == _ALL:
        # The chart grants this for the kinds that its values name.
        remedy = "List every kind that policies select in controllers.templates of the chart's values"
        return warning("rights/templates", f"{user} may not access resource templates of every kind", remedy)
    check = f"rights/{'.'.join(filter(None, (rule.resources[0], rule.group)))}"
    message = f"{user} may not {', '.join(missing)} ({rule.why})"
    # The chart creates roles on the host, and renders them for another target.
    roles = f"{setup.in_release} get configmap {setup.release}-target-rbac -o jsonpath='{{.data.*}}'"
    remedy = f"Apply the roles that target.rbac.manifest=true renders: {roles} | {setup.target} apply -f -"
    if setup.single:
        remedy = f"Let the chart create its roles again: {setup.upgrade}"
    if rule.optional:
        return warning(check, f"{message}; the controllers work without", remedy)
    return failed(check, message, remedy)
