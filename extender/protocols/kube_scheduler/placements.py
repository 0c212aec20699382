"""The placement of a pod: from its annotation, or from the policy that claims the pod or its controller."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Final, NamedTuple

import msgspec

from berthmaster.model.claims import claims
from berthmaster.model.decode import convert, decode_json, encode_json
from berthmaster.model.errors import FieldError
from berthmaster.model.placement import Placement
from berthmaster.model.placement_limits import DEFAULT_LIMITS, PlacementLimits, placement_excess
from berthmaster.model.policy import Policy
from berthmaster.model.policy_defaults import defaulted_placement
from berthmaster.model.replicas import Template, pod_requests
from berthmaster.model.skipped_resources import reason_not_propagated
from berthmaster.model.taint import Toleration
from berthmaster.model.unknown_fields import unknown_fields
from berthmaster.model.validation import placement_errors
from berthmaster.scheduling.bounded_cache import BYTES_OF_JSON, BoundedCache
from berthmaster.scheduling.request import Request
from berthmaster.scheduling.resources import requests_of
from extender.protocols.kube_scheduler.wire import Pod

ANNOTATION: Final = "policy.berthmaster.io/placement"
POD: Final = ("v1", "Pod")
_REPLICA_SET: Final = ("apps/v1", "ReplicaSet")
_DEPLOYMENT: Final = ("apps/v1", "Deployment")
_JOB: Final = ("batch/v1", "Job")
_CRON_JOB: Final = ("batch/v1", "CronJob")
_TEMPLATE_HASH: Final = "pod-template-hash"
_RUN_OF_CRON_JOB: Final = re.compile(r"-[0-9]{8,10}\Z")
"""The end of the name of a CronJob's Job: the time of the run, in minutes since 1970."""
_KUBERNETES_GROUP: Final = re.compile(r"[a-z]*|.*\.k8s\.io")
_PATH: Final = f"metadata.annotations[{ANNOTATION}]"
_MAX_LENGTH: Final = 256 * 1024  # Kubernetes' limit for all annotations of an object together
_MAX_PROBLEMS: Final = 5
_CACHE_BYTES: Final = 32 * 2**20
_OBJECT: Final[Any] = dict[str, Any]


class PodPlacement(NamedTuple):
    """The placement of a pod. ``source`` is its origin in reasons: ``annotation``, or the name of the policy."""

    placement: Placement | None
    source: str


class PlacementFinder:
    """Finds placements, with a cache of parsed annotations and of policies. Not safe for several threads."""

    def __init__(self, limits: PlacementLimits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._annotated: BoundedCache[str, Placement] = BoundedCache(_CACHE_BYTES)
        self._effective: BoundedCache[tuple[int, tuple[Toleration, ...]], tuple[Placement, Placement]] = BoundedCache(
            _CACHE_BYTES
        )
        self._policies: Sequence[Policy] | None = None
        self._by_kind: Mapping[tuple[str, str, str], Sequence[Policy]] = {}
        self._doubtful: frozenset[str] = frozenset()
        self._new_doubtful: list[str] = []

    def find(self, pod: Pod, policies: Sequence[Policy]) -> PodPlacement:
        """Return the placement of a pod's annotation, or else of the policy that claims the pod or its controller.

        The placement tolerates the taints that the pod tolerates.

        Args:
            policies: an immutable sequence; a change needs another sequence.

        Raises:
            FieldError: the annotation is not a placement, or it exceeds a limit.
        """
        text = pod.metadata.annotations.get(ANNOTATION, "").strip()
        if text:
            return PodPlacement(self._with_tolerations(self._from_annotation(text), pod), "annotation")
        policy = self._claiming_policy(pod, policies)
        if policy is None:
            return PodPlacement(None, "")
        return PodPlacement(self._with_tolerations(policy.spec.placement, pod), str(policy))

    def take_doubtful(self) -> Sequence[str]:
        """Return, once each, the policies that may not find the pods that they are about, and why."""
        found, self._new_doubtful = self._new_doubtful, []
        return found

    def _from_annotation(self, text: str) -> Placement:
        placement = self._annotated.get(text)
        if placement is None:
            placement = parse_placement(text, self._limits)
            self._annotated.add(text, placement, BYTES_OF_JSON * len(text))
        return placement

    def _claiming_policy(self, pod: Pod, policies: Sequence[Policy]) -> Policy | None:
        if reason_not_propagated(*POD, pod.metadata.namespace) is not None:
            return None
        if policies is not self._policies:
            self._policies, self._by_kind = policies, _by_kind_and_namespace(policies)
            known, self._doubtful = self._doubtful, frozenset(doubtful_selectors(policies))
            self._new_doubtful += sorted(self._doubtful - known)
        for template in templates_of(pod):
            found = claims(template, self._candidates(template))
            if found:
                return found[0].policy
        return None

    def _candidates(self, template: Template) -> list[Policy]:
        kind = (template.api_version, template.kind)
        return [
            *self._by_kind.get((*kind, template.namespace), ()),
            *(self._by_kind.get((*kind, ""), ()) if template.namespace else ()),
        ]

    def _with_tolerations(self, placement: Placement, pod: Pod) -> Placement:
        """Return a placement with the pod's tolerations added.

        Equal input gives the same object, so that the scheduler compiles it once. An empty list of groups selects
        nothing, and is replaced by no list.
        """
        key = (id(placement), pod.spec.tolerations)
        known = self._effective.get(key)
        if known is not None and known[0] is placement:
            return known[1]
        effective = msgspec.structs.replace(
            placement,
            cluster_affinities=placement.cluster_affinities or None,
            cluster_tolerations=(*placement.cluster_tolerations, *pod.spec.tolerations),
        )
        self._effective.add(key, (placement, effective), BYTES_OF_JSON * len(encode_json(effective)))
        return effective


def parse_placement(text: str, limits: PlacementLimits = DEFAULT_LIMITS) -> Placement:
    """Parse the placement in an annotation, and apply Karmada's defaults.

    Raises:
        FieldError: it is not JSON, not a placement, or larger than the limits. Unknown fields are errors: a placement
            with a misspelled field could match any node.
    """
    if len(text) > _MAX_LENGTH:
        raise FieldError(_PATH, f"has {len(text)} characters; accepted are at most {_MAX_LENGTH}")
    if text == "null":
        raise FieldError(_PATH, "null is not accepted; accepted is an object")
    try:
        raw = decode_json(_OBJECT, text)
        placement = convert(Placement, raw)
    except FieldError as error:
        raise error.below(_PATH) from None
    for excess in placement_excess(placement, limits):
        raise excess.below(_PATH)
    problems = list(islice(chain(unknown_fields(Placement, raw), placement_errors(placement)), _MAX_PROBLEMS))
    if problems:
        raise FieldError(_PATH, "; ".join(map(str, problems)))
    return defaulted_placement(placement)


def request_of(pod: Pod, placement: Placement) -> Request:
    """Return the scheduling request of a pod: one replica without a current assignment."""
    metadata = pod.metadata
    return Request(
        name=metadata.name,
        namespace=metadata.namespace,
        api_version=POD[0],
        kind=POD[1],
        uid=metadata.uid,
        placement=placement,
        replicas=1,
        requests=requests_of(pod_requests(pod.spec)),
        current={},
        is_workload=True,
    )


def templates_of(pod: Pod) -> Iterator[Template]:
    """Yield the resources whose policy applies to the pod: the pod, its controller, and the controller of that one.

    The controllers are not read from an API server. The name of a Deployment is the name of its ReplicaSet without the
    hash of the pod template, which is a label of the pod. The name of a CronJob is the name of its Job without the time
    of the run. All of them are assumed to have the pod's labels.
    """
    metadata = pod.metadata
    labels = metadata.labels
    yield Template(*POD, metadata.name, metadata.namespace, labels)
    owner = next((each for each in metadata.owner_references if each.controller), None)
    if owner is None:
        return
    template_hash = labels.get(_TEMPLATE_HASH, "")
    labels = {key: value for key, value in labels.items() if key != _TEMPLATE_HASH}
    yield Template(owner.api_version, owner.kind, owner.name, metadata.namespace, labels)
    suffix = f"-{template_hash}"
    if (owner.api_version, owner.kind) == _REPLICA_SET and template_hash and owner.name.endswith(suffix):
        yield Template(*_DEPLOYMENT, owner.name.removesuffix(suffix), metadata.namespace, labels)
    run = _RUN_OF_CRON_JOB.search(owner.name)
    if (owner.api_version, owner.kind) == _JOB and run is not None:
        yield Template(*_CRON_JOB, owner.name[: run.start()], metadata.namespace, labels)


def doubtful_selectors(policies: Iterable[Policy]) -> Iterator[str]:
    """Yield the selectors of custom resources. They apply to pods that such a resource controls itself, and no others.

    A controller of a controller is found for kinds of Kubernetes only.
    """
    for policy in policies:
        for kind in sorted({(each.api_version, each.kind) for each in policy.spec.resource_selectors}):
            if not _KUBERNETES_GROUP.fullmatch(kind[0].rpartition("/")[0]):
                yield f"{policy} selects {kind[1]} of {kind[0]}"


def _by_kind_and_namespace(policies: Iterable[Policy]) -> dict[tuple[str, str, str], list[Policy]]:
    """Index policies by apiVersion and kind of their selectors and by namespace; empty for cluster-scoped policies."""
    found: dict[tuple[str, str, str], list[Policy]] = {}
    for policy in policies:
        namespace = policy.reference.namespace
        for kind in {(selector.api_version, selector.kind) for selector in policy.spec.resource_selectors}:
            found.setdefault((*kind, namespace), []).append(policy)
    return found
