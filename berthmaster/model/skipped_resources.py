"""Resources that Karmada never propagates (``pkg/detector``), with the default flags of karmada-controller-manager."""

from typing import Final

from berthmaster.model.kinds import group_of

_SKIPPED_GROUPS: Final = frozenset(
    f"{name}.karmada.io"
    for name in ("cluster", "policy", "work", "config", "networking", "autoscaling", "remedy", "apps")
) | {"events.k8s.io"}
_SKIPPED_KINDS: Final = frozenset({("v1", "Event")})
_SKIPPED_GROUP_VERSIONS: Final = frozenset({"coordination.k8s.io/v1"})
_RESERVED_NAMESPACES: Final = frozenset({"karmada-system", "karmada-cluster"})
_RESERVED_PREFIX: Final = "karmada-es-"
_SKIPPED_PREFIX: Final = "kube-"
"""The flag ``--skipped-propagating-namespaces``, ``kube-.*``, matches whole names (``SkippedNamespacesRegexps``)."""


def reason_not_propagated(api_version: str, kind: str, namespace: str = "") -> str | None:
    """Return why Karmada never propagates a resource; None if a policy may claim it."""
    return why_kind_is_skipped(api_version, kind) or why_namespace_is_skipped(namespace)


def why_kind_is_skipped(api_version: str, kind: str) -> str | None:
    """Return why Karmada propagates no resource of a kind; None if it does."""
    group = group_of(api_version)
    if group in _SKIPPED_GROUPS:
        return f"the API group {group} is not propagated"
    if (api_version, kind) in _SKIPPED_KINDS or api_version in _SKIPPED_GROUP_VERSIONS:
        return f"{kind} of {api_version} is not propagated"
    return None


def why_namespace_is_skipped(namespace: str) -> str | None:
    """Return why Karmada propagates no resource of a namespace; None if it does."""
    if namespace in _RESERVED_NAMESPACES or namespace.startswith(_RESERVED_PREFIX):
        return f"the namespace {namespace} is reserved"
    if namespace.startswith(_SKIPPED_PREFIX):
        return f"the namespace {namespace} is not propagated"
    return None
