"""The findings of lint: of one object, and across objects, which the webhook cannot see.

Across objects: clusters that do not exist, resources that two policies name, objects that appear twice, policies that
disagree about a shared dependency.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec

from berthmaster.manifests import Document
from berthmaster.model.control_planes import CLUSTER_KINDS, CONTROL_PLANES
from berthmaster.model.customization import ResourceInterpreterCustomization, dependency_scripts
from berthmaster.model.decode import convert
from berthmaster.model.errors import FieldError, name_list
from berthmaster.model.hints import closest
from berthmaster.model.holding import selecting_nothing
from berthmaster.model.kinds import group_of, is_namespaced
from berthmaster.model.meta import object_name, with_metadata
from berthmaster.model.policy import POLICY_KINDS, Policy, PolicyReference
from berthmaster.model.replicas import Template, template_of
from berthmaster.model.skipped_resources import reason_not_propagated
from berthmaster.model.unknown_types import unknown_type
from berthmaster.views.texts import count_text
from berthmaster_cli.lint.dependency_conflicts import DependencyConflict, dependency_conflicts
from berthmaster_cli.lint.sources import UNREADABLE, LintFinding, Skipped, SourceObject
from webhook.admission.catalog import POLICY_GROUPS
from webhook.admission.field_problem import ABSENT, FieldProblem, bounded

CLUSTER_UNKNOWN: Final = "cluster-unknown"
CLAIMED_TWICE: Final = "claimed-twice"
DEFINED_TWICE: Final = "defined-twice"
SELECTS_NOTHING: Final = "selects-nothing"
DEPENDENCY_CONFLICT: Final = "dependency-conflict"
_KARMADA: Final = "policy.karmada.io"
_CUSTOMIZATION: Final = ("config.karmada.io", "ResourceInterpreterCustomization")
_CLUSTER_NAMES: Final = " or ".join(each.cluster.kind for each in CONTROL_PLANES)
_HINTS: Final = 20
_SELECTORS: Final = "spec.resourceSelectors"
_Resource = tuple[str, str, str, str]
P = TypeVar("P", Policy, ResourceInterpreterCustomization)


ACROSS_RULES: Final = {
    CLUSTER_UNKNOWN: f"A cluster name that no {_CLUSTER_NAMES} of the input has.",
    CLAIMED_TWICE: "Two policies of one kind and priority that name the same resource.",
    DEFINED_TWICE: "A policy that the input defines more than once.",
    SELECTS_NOTHING: "A policy that selects no resource of the input, or a kind that no API server has.",
    DEPENDENCY_CONFLICT: "Policies that propagate the same dependency with different values for it.",
}
"""The rules of lint that need all objects of the input. The webhook does not have them. The default level is warn."""
INVALID: Final = "invalid"


@dataclass(slots=True)
class Across:
    """Collects objects, then checks them together. Linear in the number of objects and names."""

    default_namespace: str
    _clusters: set[str] = field(default_factory=set)
    _policies: list[SourceObject] = field(default_factory=list)
    _templates: list[SourceObject] = field(default_factory=list)
    _customizations: list[SourceObject] = field(default_factory=list)
    _first: dict[tuple[str, str, str, str], SourceObject] = field(default_factory=dict)
    _repeated: list[tuple[SourceObject, SourceObject]] = field(default_factory=list)

    def add(self, found: SourceObject) -> None:
        group, kind = group_of(found.raw["apiVersion"]), found.raw["kind"]
        if (group, kind) in CLUSTER_KINDS:
            self.add_cluster(found)
        if (group, kind) == _CUSTOMIZATION:
            self._customizations.append(found)
        if group not in POLICY_GROUPS:
            if found.name and reason_not_propagated(found.raw["apiVersion"], kind) is None:
                self._templates.append(found)
            return
        if kind not in POLICY_KINDS:
            return
        self._policies.append(found)
        if not found.metadata.get("name"):
            return  # the API server generates a new name each time
        first = self._first.setdefault((group, kind, self._namespace(found), found.name), found)
        if first is not found:
            self._repeated.append((found, first))

    def add_cluster(self, found: SourceObject) -> None:
        """Add an object of the fleet that is not checked itself."""
        if (group_of(found.raw["apiVersion"]), found.raw["kind"]) in CLUSTER_KINDS:
            self._clusters.add(found.name)

    def problems(self) -> Iterator[tuple[SourceObject, FieldProblem]]:
        for found, first in self._repeated:
            place = f"{first.source}:{first.line('metadata.name')}"
            fault = f"{place} defines the same object; the one that is applied last wins"
            yield found, FieldProblem("metadata.name", ABSENT, fault, "remove one of them", DEFINED_TWICE)
        if self._clusters:
            yield from self._unknown_clusters()
        yield from self._claimed_twice()
        policies = self._karmada_policies()
        yield from self._dependency_conflicts(policies)
        yield from self._selecting_nothing(policies)

    def _karmada_policies(self) -> dict[PolicyReference, tuple[SourceObject, Policy]]:
        policies: dict[PolicyReference, tuple[SourceObject, Policy]] = {}
        for found in self._policies:
            policy = _decoded(Policy, found) if group_of(found.raw["apiVersion"]) == _KARMADA else None
            if policy is not None:
                policy = with_metadata(policy, namespace=self._namespace(found))
                policies[policy.reference] = found, policy
        return policies

    def _dependency_conflicts(
        self, policies: Mapping[PolicyReference, tuple[SourceObject, Policy]]
    ) -> Iterator[tuple[SourceObject, FieldProblem]]:
        """Yield the policies whose value does not count for a dependency.

        Lint runs no scripts: kinds whose dependencies a script says are left out.
        """
        customizations = (_decoded(ResourceInterpreterCustomization, each) for each in self._customizations)
        scripted = dependency_scripts(each for each in customizations if each is not None)
        templates = [
            Document(each.source, each.number, each.prefix, each.raw).with_namespace(self.default_namespace)
            for each in self._templates
            if each.metadata.get("name") and (each.raw["apiVersion"], each.raw["kind"]) not in scripted
        ]
        for found in dependency_conflicts([policy for _, policy in policies.values()], templates):
            yield policies[found.policy][0], self._disagreement(found, policies[found.other][0])

    def _disagreement(self, found: DependencyConflict, other: SourceObject) -> FieldProblem:
        place, counting = f"{other.source}:{other.line('metadata.name')}", found.field.counting
        fault = (
            f"{found.other} ({place}) has {counting}; {found.dependency} follows workloads of both, and gets {counting}"
        )
        remedy = "write the same value in both, or give the dependency a policy of its own"
        return FieldProblem(f"spec.{found.field.value}", ABSENT, fault, remedy, DEPENDENCY_CONFLICT)

    def _selecting_nothing(
        self, known: Mapping[PolicyReference, tuple[SourceObject, Policy]]
    ) -> Iterator[tuple[SourceObject, FieldProblem]]:
        policies = dict(known)
        for found, policy in known.values():
            unknown = list(_unknown_selectors(policy))
            yield from ((found, each) for each in bounded(unknown, SELECTS_NOTHING))
            if unknown:
                del policies[policy.reference]
        templates = [template for each in self._templates if (template := self._template(each)) is not None]
        idle = selecting_nothing((each for _, each in policies.values()), templates) if templates else []
        for policy in idle:
            fault = f"selects none of the {count_text(len(templates), 'resource')} of the input"
            remedy = "correct the selectors or the namespace"
            yield policies[policy.reference][0], FieldProblem(_SELECTORS, ABSENT, fault, remedy, SELECTS_NOTHING)

    def _template(self, found: SourceObject) -> Template | None:
        try:
            template = template_of(found.raw)
        except FieldError:
            return None
        return msgspec.structs.replace(template, namespace=self._namespace(found))

    def _unknown_clusters(self) -> Iterator[tuple[SourceObject, FieldProblem]]:
        known = sorted(self._clusters)
        remedies: dict[str, str] = {}

        def problems(policy: SourceObject) -> Iterator[FieldProblem]:
            for path, name in _named_clusters(policy):
                if name in self._clusters:
                    continue
                if name not in remedies:
                    # Similar names take time proportional to the fleet, so only the first names get them.
                    remedies[name] = _remedy(name, known if len(remedies) < _HINTS else ())
                yield FieldProblem(path, name, "the fleet has no cluster of this name", remedies[name])

        for found in self._policies:
            yield from ((found, each) for each in bounded(problems(found), CLUSTER_UNKNOWN))

    def _claimed_twice(self) -> Iterator[tuple[SourceObject, FieldProblem]]:
        claimed: dict[tuple[str, str, int, _Resource], list[tuple[str, SourceObject]]] = defaultdict(list)
        for found in self._policies:
            policy = _decoded(Policy, found) if group_of(found.raw["apiVersion"]) == _KARMADA else None
            if policy is None:
                continue
            scope = self._namespace(found)
            for index, selector in enumerate(policy.spec.resource_selectors):
                if not selector.name:
                    continue
                resource = (selector.api_version, selector.kind, selector.namespace or scope, selector.name)
                key = (policy.kind, scope, policy.explicit_priority, resource)
                claimed[key].append((f"spec.resourceSelectors[{index}]", found))
        for (*_, resource), claims in claimed.items():
            first = min((found for _, found in claims), key=lambda found: found.name)
            for path, found in claims:
                if (self._namespace(found), found.name) != (self._namespace(first), first.name):
                    yield found, _claimed_already(path, found, first, resource)

    def _namespace(self, found: SourceObject) -> str:
        if not is_namespaced(found.raw["apiVersion"], found.raw["kind"]):
            return ""
        return found.namespace or self.default_namespace


def _unknown_selectors(policy: Policy) -> Iterator[FieldProblem]:
    for index, selector in enumerate(policy.spec.resource_selectors):
        unknown = unknown_type(selector.api_version, selector.kind)
        if unknown is not None:
            yield FieldProblem(
                f"{_SELECTORS}[{index}].{unknown.path}", ABSENT, unknown.fault, unknown.remedy, SELECTS_NOTHING
            )


def _claimed_already(path: str, found: SourceObject, first: SourceObject, resource: _Resource) -> FieldProblem:
    _, kind, namespace, name = resource
    place = f"{first.raw['kind']} {first.name!r} ({first.source}:{first.line('metadata.name')})"
    fault = (
        f"{place} names {kind} {'/'.join(filter(None, (namespace, name)))} with the same priority; of the two, Karmada "
        f"prefers {min(found.name, first.name)!r} by its name"
    )
    remedy = "give one of them a higher priority, or remove the selector"
    return FieldProblem(path, ABSENT, fault, remedy, CLAIMED_TWICE)


def _remedy(name: str, known: Sequence[str]) -> str:
    close = closest(name, known)
    if close:
        return f"did you mean {close}?"
    return f"known are {name_list(known)}" if known else "correct it, or add the cluster to the fleet"


def _named_clusters(found: SourceObject) -> Iterator[tuple[str, str]]:
    """Yield every cluster name of a policy with its path. Nothing for a policy that cannot be decoded."""
    return POLICY_GROUPS[group_of(found.raw["apiVersion"])].named_clusters(found.raw)


def _decoded(kind: type[P], found: SourceObject) -> P | None:
    try:
        return convert(kind, found.raw)
    except FieldError:
        return None


class LintReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one run found."""

    findings: list[LintFinding]
    skipped: list[Skipped]
    objects: int
    checked: int

    def count(self, level: str) -> int:
        return sum(each.level == level for each in self.findings)

    @property
    def unreadable(self) -> bool:
        """Whether a file could not be read."""
        return any(each.rule == UNREADABLE for each in self.findings)


class LintSummary(msgspec.Struct, frozen=True):
    """How many objects were read, checked and skipped, and what was found."""

    documents: int
    checked: int
    skipped: int
    errors: int
    warnings: int


class PrintedReport(msgspec.Struct, frozen=True):
    """A report in JSON."""

    findings: list[LintFinding]
    skipped: list[Skipped]
    summary: LintSummary


def finding(found: SourceObject, level: str, problem: FieldProblem) -> LintFinding:
    """Return the finding for a problem of an object."""
    name = object_name(found.namespace, found.name)
    return LintFinding(
        level=level,
        rule=problem.rule or INVALID,
        source=found.source,
        document=found.number,
        line=found.line(problem.path),
        object=f"{found.raw['kind']} {name}" if name else str(found.raw["kind"]),
        path=found.path(problem.path),
        message=problem.detail,
    )
