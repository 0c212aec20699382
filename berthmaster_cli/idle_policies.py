"""Notes about policies of files that select nothing."""

from collections.abc import Iterable
from typing import Final

from berthmaster.manifests import Document, Manifests
from berthmaster.model.binding import Binding
from berthmaster.model.errors import name_list
from berthmaster.model.holding import selecting_nothing
from berthmaster.model.policy import Policy
from berthmaster.model.replicas import Template, template_of
from berthmaster.model.unknown_types import unknown_type
from berthmaster.simulation.change_set import key_of
from berthmaster.views.texts import count_text
from berthmaster_cli.output import complain

_NAMED: Final = 5


def report_idle_policies(
    policies: Iterable[Policy], templates: Iterable[Document], bindings: Iterable[Binding] = ()
) -> None:
    """Report the policies of files that select none of the resources that are known, if there are any.

    The labels of a resource are not known if only its binding is: a policy that selects by labels is then not reported.
    """
    known = {each.identity: template_of(each.raw) for each in templates}
    bound = [each.spec.resource for each in bindings]
    only_bound = [each for each in bound if key_of(each) not in known]
    unlabelled = {(each.api_version, each.kind) for each in only_bound}
    bare = [Template(each.api_version, each.kind, each.name, each.namespace) for each in only_bound]
    resources = [*known.values(), *bare]

    def may_select_labels(policy: Policy) -> bool:
        selectors = policy.spec.resource_selectors
        return any(each.label_selector and (each.api_version, each.kind) in unlabelled for each in selectors)

    idle = [each for each in selecting_nothing(policies, resources) if not may_select_labels(each)]
    if resources and idle:
        names = name_list([str(each.reference) for each in idle], _NAMED)
        of = f"none of the {count_text(len(resources), 'resource')}"
        complain(f"{names} {'selects' if len(idle) == 1 else 'select'} {of} of the input{_unknown_kinds(idle)}")


def written_policies(manifests: Manifests, namespace: str = "") -> list[Policy]:
    """Return the policies of files; of one namespace only, if its resources are all that is known."""
    pairs = zip(manifests.policy_documents, manifests.policies, strict=True)
    written = [policy for document, policy in pairs if not (document.stored or document.is_live)]
    return [each for each in written if not namespace or each.reference.namespace == namespace]


def _unknown_kinds(policies: Iterable[Policy]) -> str:
    """Return why the kinds that policies select do not exist; empty if all can."""
    selectors = dict.fromkeys((s.api_version, s.kind) for each in policies for s in each.spec.resource_selectors)
    problems = [unknown for each in selectors if (unknown := unknown_type(*each)) is not None]
    return f": {'; '.join(each.problem for each in problems[:_NAMED])}" if problems else ""
