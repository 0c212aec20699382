"""Which placement is a pod's: the one that it carries, or the one of the policy that claims it or its controller."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from berthmaster.model.claims import claims
from berthmaster.model.cluster import Toleration
from berthmaster.model.decode import convert, decode_json, unknown_fields
from berthmaster.model.errors import FieldError
from berthmaster.model.kinds import reason_not_propagated
from berthmaster.model.placement import Placement
from berthmaster.model.policy import Policy, defaulted_placement
from berthmaster.model.replicas import Template
from berthmaster.model.validation import placement_errors
from extender.protocols.kube_scheduler.pods import POD, templates_of
from extender.protocols.kube_scheduler.wire import Pod

ANNOTATION: Final = "policy.berthmaster.io/placement"
_PATH: Final = f"metadata.annotations[{ANNOTATION}]"
_MAX_LENGTH: Final = 256 * 1024  # what Kubernetes lets all annotations of an object have together
_MAX_PROBLEMS: Final = 5
_KEPT: Final = 4096
_OBJECT: Final[Any] = dict[str, Any]


class Placing(NamedTuple):
    """A pod's placement and where it stands, as reasons call it.

    Attributes:
        placement: None for a pod that nobody places.
        source: ``annotation``, or the policy.
    """

    placement: Placement | None
    source: str


class Placings:
    """Finds placements, and remembers what annotations and policies say. Not safe for several threads."""

    def __init__(self) -> None:
        self._annotated: dict[str, Placement] = {}
        self._effective: dict[tuple[int, tuple[Toleration, ...]], tuple[Placement, Placement]] = {}
        self._policies: Sequence[Policy] | None = None
        self._by_kind: Mapping[tuple[str, str, str], Sequence[Policy]] = {}

    def of(self, pod: Pod, policies: Sequence[Policy]) -> Placing:
        """The placement of a pod: that of its annotation before that of the nearest resource a policy claims.

        Its tolerations are those of the placement and those of the pod together: a taint that the pod tolerates is
        no reason against a node. ``policies`` is an immutable sequence, or at least another one once it changes.

        Raises:
            FieldError: the annotation is no placement.
        """
        text = pod.metadata.annotations.get(ANNOTATION, "").strip()
        if text:
            return Placing(self._tolerating(self._from_annotation(text), pod), "annotation")
        policy = self._claiming(pod, policies)
        if policy is None:
            return Placing(None, "")
        return Placing(self._tolerating(policy.spec.placement, pod), str(policy))

    def _from_annotation(self, text: str) -> Placement:
        placement = self._annotated.get(text)
        if placement is None:
            if len(self._annotated) >= _KEPT:
                self._annotated.clear()
            placement = self._annotated[text] = parse_placement(text)
        return placement

    def _claiming(self, pod: Pod, policies: Sequence[Policy]) -> Policy | None:
        if reason_not_propagated(*POD, pod.metadata.namespace) is not None:
            return None
        if policies is not self._policies:
            self._policies, self._by_kind = policies, _by_kind_and_namespace(policies)
        for template in templates_of(pod):
            found = claims(template, self._candidates(template))
            if found:
                return found[0].policy
        return None

    def _candidates(self, template: Template) -> list[Policy]:
        """The policies that may claim a resource by its kind and namespace."""
        kind = (template.api_version, template.kind)
        return [
            *self._by_kind.get((*kind, template.namespace), ()),
            *(self._by_kind.get((*kind, ""), ()) if template.namespace else ()),
        ]

    def _tolerating(self, placement: Placement, pod: Pod) -> Placement:
        """What a placement asks of a pod's node.

        The same object for equal input, so that it is taken apart once. An empty list of groups asks for nothing:
        it is as good as none.
        """
        key = (id(placement), pod.spec.tolerations)
        known = self._effective.get(key)
        if known is not None and known[0] is placement:
            return known[1]
        if len(self._effective) >= _KEPT:
            self._effective.clear()
        effective = msgspec.structs.replace(
            placement,
            cluster_affinities=placement.cluster_affinities or None,
            cluster_tolerations=(*placement.cluster_tolerations, *pod.spec.tolerations),
        )
        self._effective[key] = (placement, effective)
        return effective


def parse_placement(text: str) -> Placement:
    """A placement that somebody wrote into an annotation, with Karmada's defaults.

    Raises:
        FieldError: it is no JSON, or not a placement; unknown fields count, for a misspelt one would place the pod
            anywhere.
    """
    if len(text) > _MAX_LENGTH:
        raise FieldError(_PATH, f"has {len(text)} characters; accepted are {_MAX_LENGTH}")
    try:
        raw = decode_json(_OBJECT, text)
        placement = convert(Placement, raw)
    except FieldError as error:
        raise error.below(_PATH) from None
    problems = [*unknown_fields(Placement, raw), *placement_errors(placement)]
    if problems:
        told = "; ".join(str(problem) for problem in problems[:_MAX_PROBLEMS])
        raise FieldError(_PATH, told)
    return defaulted_placement(placement)


def _by_kind_and_namespace(policies: Iterable[Policy]) -> dict[tuple[str, str, str], list[Policy]]:
    """The policies by apiVersion and kind of what they claim and where; nothing for policies that claim everywhere."""
    found: dict[tuple[str, str, str], list[Policy]] = {}
    for policy in policies:
        namespace = "" if policy.cluster_scoped else policy.metadata.namespace
        for kind in {(selector.api_version, selector.kind) for selector in policy.spec.resource_selectors}:
            found.setdefault((*kind, namespace), []).append(policy)
    return found
