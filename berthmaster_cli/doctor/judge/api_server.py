"""API servers: whether they answer, how old they are, what time it is there."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

from berthmaster.controllers.rbac import Rule
from berthmaster_cli.doctor.facts import Facts, Kinds, Rights, Seen, Server, Setup, Unknown
from berthmaster_cli.doctor.fields import KINDS, Field, Kind
from berthmaster_cli.doctor.finding import Finding, failed, ok, skipped, warning

OLDEST: Final = (1, 27)
"""With it came the conditions of webhooks that the chart can set; nothing older is tested."""
NOTICEABLE: Final = timedelta(seconds=5)
HARMFUL: Final = timedelta(minutes=1)
"""Leases are judged without clocks, certificates begin ten minutes early: below that only what people read suffers."""
_NOT_FOUND = 404
_MASTERS: Final = "system:masters"
_ALL: Final = "*"


def server(facts: Facts) -> Iterator[Finding]:
    """Both of them."""
    yield from _server("target", facts.target, f"{facts.setup.target} version")
    if facts.host is not None:
        yield from _server("host", facts.host, f"{facts.setup.host} version")


def _server(name: str, seen: Seen[Server], command: str) -> Iterator[Finding]:
    check = f"api-server/{name}"
    if isinstance(seen, Unknown):
        yield _silent(check, name, seen, command)
        return
    told = f"the {name} API server is {seen.version or 'of an unknown version'}"
    if seen.number < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        yield warning(check, f"{told}, older than what Berthmaster is tested with", f"Upgrade it to {oldest} or newer.")
    else:
        yield ok(check, told)
    if seen.ahead is not None:
        yield _clock(f"api-server/{name}-clock", name, seen.ahead, seen.slack)


def _silent(check: str, name: str, unknown: Unknown, command: str) -> Finding:
    if unknown.forbidden:
        told = f"the {name} API server does not let this user in: {unknown.problem}"
        return failed(check, told, f"Name a kubeconfig file whose credentials are valid; see: {command}")
    told = f"the {name} API server does not answer: {unknown.problem}"
    return failed(check, told, f"Name a kubeconfig file of a server that answers from here; see: {command}")


def _clock(check: str, name: str, ahead: timedelta, slack: timedelta) -> Finding:
    apart = abs(ahead)
    if apart <= max(slack, timedelta(seconds=1)):
        return ok(check, f"the clock of the {name} agrees with this one")
    told = f"the clock of the {name} is {_seconds(apart)} {'ahead of' if ahead > timedelta(0) else 'behind'} this one"
    if apart - slack < NOTICEABLE:
        return ok(check, told)
    remedy = "Synchronize both machines with NTP; see on each: timedatectl timesync-status"
    return failed(check, told, remedy) if apart - slack >= HARMFUL else warning(check, told, remedy)


def _seconds(span: timedelta) -> str:
    seconds = span.total_seconds()
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def definitions(facts: Facts) -> Iterator[Finding]:
    """One finding for each kind."""
    for kind in KINDS:
        served = facts.kinds.get(kind.api_version)
        if served is not None:
            yield _kind(kind, served, facts.setup.target)


def _kind(kind: Kind, served: Kinds | Unknown, kubectl: str) -> Finding:
    check = f"definitions/{kind.plural}"
    name = f"{kind.kind} ({kind.api_version})"
    if isinstance(served, Unknown) and served.status != _NOT_FOUND:
        return failed(check, f"{name} cannot be looked at: {served.problem}", _aggregation(kind, kubectl))
    if isinstance(served, Unknown) or kind.plural not in served.plurals:
        told = f"the API server serves no {name}"
        if kind.without:
            return warning(check, f"{told}: without it there is no {kind.without}", _install(kind, kubectl))
        return failed(check, told, _install(kind, kubectl))
    schema = served.schemas.get(kind.kind)
    if schema is None:
        return skipped(check, f"{name} is served, and its fields are not published")
    missing = [field for field in kind.fields if not _has(schema, field.path)]
    return _fields(check, name, missing, kubectl)


def _fields(check: str, name: str, missing: list[Field], kubectl: str) -> Finding:
    if not missing:
        return ok(check, f"{name} is served with all fields that are needed")
    told = f"{name} has no {', '.join(field.path for field in missing)}"
    remedy = f"Apply the definitions of the Karmada release that runs: {_apply(kubectl)}"
    if any(not field.without for field in missing):
        return failed(check, told, remedy)
    lost = ", ".join(dict.fromkeys(field.without for field in missing))
    return warning(check, f"{told}: without it there is no {lost}", remedy)


def _install(kind: Kind, kubectl: str) -> str:
    if kind.kind == "Cluster":
        return _aggregation(kind, kubectl)
    return f"Install Karmada's definitions, or name its API server with --target-kubeconfig: {_apply(kubectl)}"


def _aggregation(kind: Kind, kubectl: str) -> str:
    """Clusters are served by another server than the rest, which can be away while that answers."""
    if kind.kind != "Cluster":
        return f"See why the API server refuses: {kubectl} get --raw /apis/{kind.api_version}"
    group, _, version = kind.api_version.partition("/")
    return f"See why karmada-aggregated-apiserver is away: {kubectl} get apiservice {version}.{group} -o yaml"


def _apply(kubectl: str) -> str:
    return f"{kubectl} apply --server-side -R -f karmada/charts/karmada/_crds/bases"


def _has(schema: Mapping[str, Any], path: str) -> bool:
    """Whether a schema has a field, or does not say what it has."""
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


def rights(facts: Facts) -> Iterator[Finding]:
    """One finding for each rule that is not met; one in all if all are."""
    seen, setup = facts.rights, facts.setup
    if seen is None:
        return
    if isinstance(seen, Unknown):
        if seen.forbidden:
            remedy = f"Run this as a user who may impersonate: {setup.target} auth can-i impersonate users"
            yield skipped("rights/asked", f"rights cannot be asked about: {seen.problem}", remedy)
        else:
            remedy = f"See whether the API server authorizes: {setup.target} auth can-i --list"
            yield failed("rights/asked", f"rights cannot be asked about: {seen.problem}", remedy)
        return
    who = seen.user or "this user"
    denied: dict[Rule, list[str]] = defaultdict(list)
    for rule, told in seen.denied:
        denied[rule].append(told)
    for rule, missing in denied.items():
        yield _denied(rule, missing, who, setup)
    if not denied:
        yield _allowed(seen, who)


def _denied(rule: Rule, missing: list[str], who: str, setup: Setup) -> Finding:
    check = f"rights/{'.'.join(filter(None, (rule.resources[0], rule.group)))}"
    told = f"{who} may not {', '.join(missing)} ({rule.why})"
    if rule.group == _ALL:
        # The chart grants it for the kinds that its values name.
        remedy = "See that controllers.templates in the chart's values names every kind that policies select"
        return warning("rights/templates", f"{who} may not touch templates of every kind", remedy)
    return failed(check, told, _grant(setup))


def _grant(setup: Setup) -> str:
    """The chart makes roles where it is installed; for another API server it only writes them down."""
    if setup.single:
        return f"Let the chart make its roles again: {setup.upgrade}"
    roles = f"{setup.in_release} get configmap {setup.release}-target-rbac -o jsonpath='{{.data.*}}'"
    return f"Apply the roles that target.rbac.manifest=true renders: {roles} | {setup.target} apply -f -"


def _allowed(seen: Rights, who: str) -> Finding:
    told = f"{who} may do all {seen.checked} things that controllers do"
    if _MASTERS in seen.groups:
        told += "; as an administrator, whom nothing is forbidden: --as=USER asks about the controllers' own user"
    return ok("rights/controllers", told)
