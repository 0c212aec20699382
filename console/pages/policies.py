"""The pages of policies: what each claims, what the rules find, takeovers and priority drops."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import yaml
from flask import Blueprint, Response, render_template, request

from berthmaster.model.decode import builtins
from berthmaster.model.meta import CLUSTER_SCOPED
from berthmaster.model.policy import POLICY_KINDS, Policy
from berthmaster.native_api.why import POLICY_SORTS, AllowedGroup, PolicyList, PolicyQuery, PolicyView
from berthmaster.views.policy_rows import (
    PolicyRow,
    TakeoverRow,
    affinity_words,
    division_words,
    failback_words,
    spread_words,
    terms_of,
    toleration_words,
)
from console.context import services, visitor
from console.pages import downloads, lists
from console.pages.amounts import Load, load_of
from console.pages.plan_model import binding_place
from console.query import PageQuery
from console.question import WhatIfQuestion, encoded

RESTRICTIONS: Final = {
    "findings": "with findings",
    "takeovers": "with takeovers",
    "drops": "with priority drops",
}
"""What a list can be restricted to, by the word in the address."""
_SHOWN_SELECTORS: Final = 3
_WRITTEN_BY_PROGRAMS: Final = ("uid", "resourceVersion", "generation", "creationTimestamp")
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


class PolicyLine(NamedTuple):
    """One row of the list. ``errors`` and ``warnings`` are the number of findings; None if the rules did not run."""

    row: PolicyRow
    place: str
    errors: int | None
    warnings: int | None
    takeovers: int
    selectors: Sequence[str]
    more: int


@dataclass(frozen=True, slots=True)
class PoliciesPage:
    """The list."""

    lines: Sequence[PolicyLine]
    unchecked: bool
    gaps: Sequence[str]


class ClaimLink(NamedTuple):
    """A workload that a policy holds."""

    name: str
    place: tuple[str, str] | None


class AllowedView(NamedTuple):
    """The clusters that a group allows."""

    group: AllowedGroup
    affinity: str
    loads: Sequence[Load]


@dataclass(frozen=True, slots=True)
class PolicyPage:
    """One policy. ``asks`` is what its placement asks for besides clusters: a title, and sentences."""

    line: PolicyLine
    groups: Sequence[AllowedView]
    asks: Sequence[tuple[str, Sequence[str]]]
    manifest: Sequence[str]
    claimed: Sequence[ClaimLink]
    more: int
    takes: Sequence[tuple[TakeoverRow, tuple[str, str] | None]]
    loses: Sequence[tuple[TakeoverRow, tuple[str, str] | None]]
    text: str
    delete_word: str
    gaps: Sequence[str]


def policies_page(view: PolicyList) -> PoliciesPage:
    """Return the list of the extender's answer."""
    lines = [_line(each) for each in view.items]
    return PoliciesPage(
        lines=lines,
        unchecked=bool(lines) and all(each.errors is None for each in lines),
        gaps=view.gaps,
    )


def policy_page(view: PolicyView) -> PolicyPage:
    """Return the page of one policy."""
    row, placement = view.row, view.policy.spec.placement
    words = [affinity_words(each) for _, _, each in terms_of(placement)]
    return PolicyPage(
        line=_line(row),
        groups=[
            AllowedView(group, text, [load_of(*each) for each in group.resources.items()])
            for group, text in zip(view.groups, words, strict=True)
        ],
        asks=[
            ("Spread", spread_words(placement)),
            ("Replicas", division_words(placement)),
            ("Tolerates", toleration_words(placement.cluster_tolerations) or ["No taint."]),
            ("Failback", [failback_words(view.policy, view.failback)]),
        ],
        manifest=_manifest(view.policy),
        claimed=[ClaimLink(each, binding_place(each)) for each in row.claimed],
        more=max(0, (row.claims or 0) - len(row.claimed)),
        takes=_takeovers(row.takes),
        loses=_takeovers(row.loses),
        text=f"{row.kind} {'/'.join(filter(None, (row.namespace, row.name)))}",
        delete_word="/".join(filter(None, (row.namespace, row.kind, row.name))),
        gaps=view.gaps,
    )


def _manifest(policy: Policy) -> Sequence[str]:
    """Return a policy in YAML, without what programs wrote into its metadata."""
    document = builtins(policy)
    for name in _WRITTEN_BY_PROGRAMS:
        document["metadata"].pop(name, None)
    document["metadata"].get("annotations", {}).pop(_LAST_APPLIED, None)
    text: str = yaml.safe_dump({"apiVersion": policy.api_version, **document}, sort_keys=False, allow_unicode=True)
    return text.splitlines()


def policy_address(text: str) -> tuple[str, str]:
    """Return namespace and name of ``KIND NAMESPACE/NAME`` or ``KIND NAME`` as addresses have them."""
    _, _, name = text.partition(" ")
    namespace, slash, rest = name.partition("/")
    return (namespace, rest) if slash else (CLUSTER_SCOPED, name or text)


def _takeovers(rows: Sequence[TakeoverRow]) -> list[tuple[TakeoverRow, tuple[str, str] | None]]:
    return [(each, binding_place(each.resource)) for each in rows]


def _line(row: PolicyRow) -> PolicyLine:
    findings = row.findings
    errors = None if findings is None else sum(each.severity == "error" for each in findings)
    return PolicyLine(
        row=row,
        place=row.namespace or CLUSTER_SCOPED,
        errors=errors,
        warnings=None if findings is None or errors is None else len(findings) - errors,
        takeovers=len(row.takes) + len(row.loses),
        selectors=row.selectors[:_SHOWN_SELECTORS],
        more=max(0, len(row.selectors) - _SHOWN_SELECTORS),
    )


BLUEPRINT: Final = Blueprint("policies", __name__)


@BLUEPRINT.get("/policies")
def show() -> Response | str:
    """Show the list, or all of it as a file."""
    query = PageQuery(request.args)
    text, kind = query.text("q"), query.choice("kind", POLICY_KINDS, "")
    only, sort = query.choices("only", tuple(RESTRICTIONS)), query.sort(POLICY_SORTS)
    size, wanted = services().page_rows, PolicyQuery(text, kind, only=only, sort=sort)
    ask = services().source.policies
    rows = partial(downloads.whole, lambda after, most: ask(wanted._replace(offset=after, limit=most)).items)
    if file := downloads.asked({"policies": rows}):
        return file
    view, paging = lists.asked(
        query.page(),
        size,
        lambda offset: ask(wanted._replace(offset=offset, limit=size)),
        lambda found: (found.matched, found.total),
    )
    return render_template(
        "policies.html",
        model=policies_page(view),
        text=text,
        kind=kind,
        kinds=POLICY_KINDS,
        only=only,
        restrictions=RESTRICTIONS,
        paging=paging,
        sort=sort,
    )


@BLUEPRINT.get("/policies/<namespace>/<name>")
def one(namespace: str, name: str) -> Response | str:
    """Show one policy. The namespace ``-`` means a ClusterPropagationPolicy."""
    found = services().source.policy(name, "" if namespace == CLUSTER_SCOPED else namespace)
    model, row = policy_page(found), found.row
    tables = {"groups": found.groups, "findings": row.findings or (), "takes": row.takes, "loses": row.loses}
    if file := downloads.asked({name: partial(iter, rows) for name, rows in tables.items()}):
        return file
    question = encoded(WhatIfQuestion(deleted=(model.delete_word,)))
    restricted = visitor().namespaces is not None
    return render_template(
        "policy.html", model=model, question=question, address_of=policy_address, restricted=restricted
    )
