"""Types that no API server of Karmada serves, and what the author probably meant."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from berthmaster.model.control_planes import DOMAINS
from berthmaster.model.errors import FieldError, shown
from berthmaster.model.hints import closest, similar
from berthmaster.model.kinds import KNOWN_KINDS, SCOPES, group_of

_PEER_SUFFIXES: Final = tuple(f".{each}" for each in DOMAINS)
_VERSIONS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("autoscaling", "HorizontalPodAutoscaler"): ("v2", "v1"),
    ("work.karmada.io", "ClusterResourceBinding"): ("v1alpha2", "v1alpha1"),
    ("work.karmada.io", "ResourceBinding"): ("v1alpha2", "v1alpha1"),
}
_ONLY_VERSION: Final = ("v1alpha1",)
"""All other kinds of control planes have this version."""
_SIMILAR: Final = 0.8
_MISSED_LETTERS: Final = 2
_GROUPS_OF_KUBERNETES: Final = frozenset(each.group for each in KNOWN_KINDS if not each.group.endswith(_PEER_SUFFIXES))
_STABLE: Final = frozenset((each.group, each.kind) for each in KNOWN_KINDS if each.names)
"""The kinds of Kubernetes that have had one version only since Kubernetes 1.27, unless ``_VERSIONS`` has more."""


def unknown_type(api_version: str, kind: str) -> FieldError | None:
    """Return why no API server of Karmada serves a type; None if one does, or if another API may define the type.

    The groups of Karmada, KubeAdmiral and Kubernetes have only the kinds of the table. Other APIs can have any kind in
    a group of their own. Such a group is unknown only if it resembles one of the table that has the kind.
    A group without a dot belongs to Kubernetes, because a CustomResourceDefinition cannot have one.

    Source: the CustomResourceDefinitions of Karmada 1.19 and of KubeAdmiral, Karmada's aggregated APIs, and the APIs of
    Kubernetes 1.27 and newer.
    """
    group, version = group_of(api_version), api_version.rpartition("/")[2]
    if api_version.count("/") > 1:
        return FieldError("apiVersion", f"{shown(api_version)} is not accepted", "accepted is GROUP/VERSION")
    if group.endswith(_PEER_SUFFIXES) or f".{group}" in _PEER_SUFFIXES:
        return _unknown_to_peers(group, version, kind)
    homes = _homes(kind)
    if "/" not in api_version and api_version != "v1":
        close = _similar(api_version, {each for each, _ in SCOPES if each}, kind)
        if not close and not homes:
            return None
        accepted = _accepted(close or homes)
        return FieldError("apiVersion", f"{shown(api_version)} is not accepted", f"accepted is {accepted}")
    if group not in _GROUPS_OF_KUBERNETES:
        close = _similar(group, {each for each, _ in homes}, kind)
        if not close and ("." in group or not homes):
            return None
        hint = f"did you mean {_accepted(close[:1])}?" if close else f"accepted is {_accepted(homes)}"
        return FieldError("apiVersion", f"unknown API group {shown(group)}", hint)
    if (group, kind) not in SCOPES:
        return _unknown_to_kubernetes(group, kind, homes)
    versions = _versions(group, kind)
    if versions and version not in versions:
        accepted = ", ".join(f"{group}/{each}" if group else each for each in versions)
        return FieldError("apiVersion", f"{kind} has no version {shown(version)}", f"accepted is {accepted}")
    return None


def _unknown_to_peers(group: str, version: str, kind: str) -> FieldError | None:
    kinds = {each for known, each in SCOPES if known == group}
    if not kinds:
        groups = sorted({known for known, _ in SCOPES if known.endswith(_PEER_SUFFIXES)})
        with_kind = [known for known, _ in _homes(kind) if known.endswith(_PEER_SUFFIXES)]
        hint = _hint(group, with_kind if closest(group, with_kind) else groups)
        return FieldError("apiVersion", f"unknown API group {shown(group)}", hint)
    if kind not in kinds:
        return FieldError("kind", f"{group} has no kind {shown(kind)}", _hint(kind, sorted(kinds)))
    versions = _VERSIONS.get((group, kind), _ONLY_VERSION)
    if version not in versions:
        accepted = ", ".join(f"{group}/{each}" for each in versions)
        return FieldError("apiVersion", f"{kind} has no version {shown(version)}", f"accepted is {accepted}")
    return None


def _unknown_to_kubernetes(group: str, kind: str, homes: Sequence[tuple[str, str]]) -> FieldError | None:
    """Return why a group of Kubernetes has no kind. A newer Kubernetes can have kinds that the table does not have."""
    own = f"{group} has" if group else "the core group has"
    if homes:
        return FieldError("apiVersion", f"{own} no kind {shown(kind)}", f"accepted is {_accepted(homes)}")
    close = _misspelled_kind(group, kind)
    return FieldError("kind", f"{own} no kind {shown(kind)}", f"did you mean {close}?") if close else None


def _misspelled_kind(group: str, kind: str) -> str:
    """Return the kind of a group that a text probably means; empty without one."""
    kinds = [each for known, each in SCOPES if known == group]
    wrong_case = next((each for each in kinds if each.lower() == kind.lower()), "")
    close = closest(kind, kinds, _SIMILAR)
    return wrong_case or (close if close is not None and abs(len(close) - len(kind)) <= _MISSED_LETTERS else "")


def _homes(kind: str) -> list[tuple[str, str]]:
    """Return the group and the first version of each known type of a kind."""
    return [(group, (_versions(group, kind) or ("v1",))[0]) for group, each in SCOPES if each == kind]


def _versions(group: str, kind: str) -> tuple[str, ...]:
    """Return all versions of a known kind; none if they differ from one Kubernetes to another."""
    if group.endswith(_PEER_SUFFIXES):
        return _VERSIONS.get((group, kind), _ONLY_VERSION)
    return _VERSIONS.get((group, kind), ("v1",) if (group, kind) in _STABLE else ())


def _similar(text: str, groups: Iterable[str], kind: str) -> list[tuple[str, str]]:
    """Return the known types of a kind in the groups that resemble a text."""
    close = similar(text, sorted(each for each in groups if each), 3, _SIMILAR)
    return [home for each in close for home in _homes(kind) if home[0] == each]


def _accepted(homes: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{group}/{version}" if group else version for group, version in homes)


def _hint(name: str, known: Sequence[str]) -> str:
    close = closest(name, known)
    return f"did you mean {close}?" if close else f"accepted are {', '.join(known)}"
