"""Access rules as manifests of Roles."""

from typing import Any

from berthmaster.controllers.rbac import AccessRule


def role_rule(rule: AccessRule, lease: str = "") -> dict[str, Any]:
    """The rule as a Role has it; ``lease`` is the name of the lease."""
    made = {"apiGroups": [rule.group], "resources": list(rule.resources), "verbs": list(rule.verbs)}
    return {**made, "resourceNames": [lease]} if rule.named and lease else made
