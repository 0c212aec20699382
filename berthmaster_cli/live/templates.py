"""Which resource templates a simulation needs: those that bindings name and policies select."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from berthmaster.manifests.document import Document
from berthmaster.model.claims import PERMANENT_ID, claims
from berthmaster.model.decode import convert
from berthmaster.model.errors import FieldError
from berthmaster.model.kinds import reason_not_propagated
from berthmaster.model.metadata_kinds import metadata_suffices
from berthmaster.model.policy import Policy, defaulted
from berthmaster.model.replicas import template_of


class TemplateKind(NamedTuple):
    """A kind whose templates are needed.

    Attributes:
        bound: whether a binding names an object of the kind, not only a policy.
    """

    api_version: str
    kind: str
    bound: bool

    @property
    def metadata_suffices(self) -> bool:
        """Whether the answer depends on nothing but the metadata of the objects."""
        return metadata_suffices(self.api_version, self.kind)


class TemplateSelection:
    """The templates that bindings name and policies select.

    Args:
        bindings: the bindings.
        policies: the documents of the policies. Invalid ones are ignored here; the loader reports them.
    """

    def __init__(self, bindings: Iterable[Document], policies: Iterable[Document]) -> None:
        self._policies = list(_decoded(policies))
        self._bound: dict[tuple[str, str], set[tuple[str, str]]] = {}
        for document in bindings:
            resource = _resource(document)
            kind = (str(resource.get("apiVersion")), str(resource.get("kind")))
            key = (str(resource.get("namespace") or ""), str(resource.get("name")))
            self._bound.setdefault(kind, set()).add(key)

    def kinds(self) -> Sequence[TemplateKind]:
        """Return the kinds in a fixed order, without those that Karmada never propagates."""
        selected = {
            (selector.api_version, selector.kind)
            for policy in self._policies
            for selector in policy.spec.resource_selectors
        }
        return [
            TemplateKind(api_version, kind, (api_version, kind) in self._bound)
            for api_version, kind in sorted(selected | self._bound.keys())
            if reason_not_propagated(api_version, kind) is None
        ]

    def needs(self, template: Document) -> bool:
        """Return whether a binding names a template, a policy selects it, or its labels record a claim."""
        if (template.namespace, template.name) in self._bound.get((template.api_version, template.kind), ()):
            return True
        if reason_not_propagated(template.api_version, template.kind, template.namespace) is not None:
            return False
        labels = template.raw["metadata"].get("labels") or {}
        if any(labels.get(key) for key in PERMANENT_ID.values()):
            return True
        try:
            return bool(claims(template_of(template.raw), self._policies))
        except FieldError:
            return True  # the loader reports it


def _decoded(policies: Iterable[Document]) -> Iterable[Policy]:
    for document in policies:
        try:
            yield defaulted(convert(Policy, document.raw))
        except FieldError:
            continue


def _resource(binding: Document) -> dict[str, Any]:
    resource = (binding.raw.get("spec") or {}).get("resource")
    return resource if isinstance(resource, dict) else {}
