"""What an answer does not consider, why that is so, and how many workloads it concerns."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, assert_never

from berthmaster.manifests import Document, Ignored, Manifests
from berthmaster.model.errors import name_list
from berthmaster.model.overrides import OVERRIDE_KINDS, OverrideEffect, OverridePolicy, override_policy
from berthmaster.model.replicas import Template, template_of
from berthmaster.model.taint_policy import TAINT_POLICY
from berthmaster.simulation.workload import NotScheduled, SimulatedWorkload
from berthmaster.simulation.world import World
from berthmaster.views.texts import count_text
from berthmaster_cli.output import complain

_OVERRIDES: Final = frozenset(OVERRIDE_KINDS)
_QUOTA: Final = "FederatedResourceQuota"
REPORTED_APART: Final = frozenset({*_OVERRIDES, _QUOTA})
"""The kinds about which each answer says what follows, instead of that it ignores an object."""
_READ: Final = frozenset({"Lease", TAINT_POLICY})
"""Kinds that are read for the switches of the controllers, and for losses."""
_NAMED: Final = 5


def report_unused(manifests: Manifests) -> None:
    """Report on standard error what was not used, and what is suspicious."""
    for ignored in manifests.ignored:
        if ignored.document.kind not in {*_READ, *REPORTED_APART}:
            complain(f"{ignored.document.place}: ignored: {ignored.reason}")
    report_not_considered(manifests.ignored, manifests.templates)
    for sentence in manifests.warnings:
        complain(sentence)


def report_not_considered(ignored: Iterable[Ignored], templates: Iterable[Document]) -> None:
    """Report the overrides and quotas that concern resources, and what they would change."""
    documents = [each.document for each in ignored]
    known = [template_of(each.raw) for each in templates]
    for sentence in (*_about_overrides(documents, known), *_about_quotas(documents, known)):
        complain(sentence)


def notes_about_overrides(ignored: Iterable[Ignored], workload: SimulatedWorkload) -> list[str]:
    """Return what overrides change of one workload, a sentence for each of them."""
    template = template_of(workload.manifest)
    found = (override_policy(each.document.raw) for each in ignored if each.document.kind in _OVERRIDES)
    return [_sentence(each, "it") for each in found if each.selects(template)]


def report_unknown_replicas(world: World) -> None:
    """Report how many workloads an answer leaves out because it is not known how many replicas they have."""
    resources = [each.resource for each in world.workloads if _is_uncounted(each)]
    if not resources:
        return
    kinds = Counter(f"{each.kind} of {each.api_version}" for each in resources)
    named = name_list([f"{kind} ({count:,})" for kind, count in kinds.most_common()], _NAMED)
    verb = "has" if len(resources) == 1 else "have"
    complain(
        f"{count_text(len(resources), 'workload')} {verb} unknown replicas and no place in this answer: {named}. "
        "--replica-path names their fields; --replica-path '*=-' takes all such kinds as kinds without replicas"
    )


def _is_uncounted(workload: SimulatedWorkload) -> bool:
    unscheduled = workload.unscheduled
    return unscheduled is not None and unscheduled.reason is NotScheduled.UNKNOWN_REPLICAS


def _about_overrides(documents: Sequence[Document], templates: Sequence[Template]) -> Iterator[str]:
    policies = [override_policy(each.raw) for each in documents if each.kind in _OVERRIDES]
    selected = {each.name: sum(map(each.selects, templates)) for each in policies}
    setting = [each for each in policies if each.effect is OverrideEffect.REPLICAS and selected[each.name]]
    for each in setting[:_NAMED]:
        yield _sentence(each, count_text(selected[each.name], "resource"))
    if len(setting) > _NAMED:
        yield f"and {count_text(len(setting) - _NAMED, 'override')} more that set replicas"
    others = [each for each in policies if each.effect is not OverrideEffect.REPLICAS and selected[each.name]]
    if others:
        changed = sum(any(each.selects(template) for each in others) for template in templates)
        fields = "images" if all(each.effect is OverrideEffect.IMAGES for each in others) else "fields"
        yield (
            f"{name_list([each.name for each in others], _NAMED)} {_verb(others, 'change')} {fields} of "
            f"{count_text(changed, 'resource')}: overrides change what clusters run, and never where"
        )


def _verb(policies: Sequence[OverridePolicy], verb: str) -> str:
    return f"{verb}s" if len(policies) == 1 else verb


def _sentence(policy: OverridePolicy, what: str) -> str:
    """Return what an override changes of some resources."""
    match policy.effect:
        case OverrideEffect.REPLICAS:
            parts = [
                f"{'another number' if each.value is None else each.value} on "
                f"{name_list(each.clusters, _NAMED) or 'the clusters that it selects'}"
                for each in policy.replicas
            ]
            return f"{policy.name} sets the replicas of {what} to {'; to '.join(parts)}: {_counted(policy)}"
        case OverrideEffect.IMAGES:
            return f"{policy.name} changes images of {what}, and not where clusters run it"
        case OverrideEffect.OTHERS:
            return f"{policy.name} changes fields of {what}, and not where clusters run it"
        case _:
            assert_never(policy.effect)


def _counted(policy: OverridePolicy) -> str:
    if any(each.value is None for each in policy.replicas):
        return "it is not known how many run, and this answer counts the replicas that Karmada assigns"
    return "tables show the replicas that Karmada assigns, and losses count those that run"


def _about_quotas(documents: Sequence[Document], templates: Sequence[Template]) -> Iterator[str]:
    for each in documents:
        if each.kind != _QUOTA:
            continue
        concerned = sum(template.namespace == each.namespace for template in templates)
        yield (
            f"{_QUOTA} {each.namespace}/{each.name} is not considered: Karmada may refuse what exceeds it "
            f"({count_text(concerned, 'resource')} in namespace {each.namespace})"
        )
