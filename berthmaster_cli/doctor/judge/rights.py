"""Rights: what the controllers' code needs, and whoever was asked about may not."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from berthmaster.controllers.rbac import Rule
from berthmaster_cli.doctor.facts import Facts, Rights, Setup, Unknown
from berthmaster_cli.doctor.finding import Finding, failed, ok, skipped, warning

_MASTERS: Final = "system:masters"
_ALL: Final = "*"


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
