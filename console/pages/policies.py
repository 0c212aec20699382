"""The pages of policies: what each claims, what the rules find, takeovers and priority drops."""

from typing import Final

from flask import Blueprint, Response, render_template, request

from berthmaster.model.decode import builtins
from berthmaster.model.meta import CLUSTER_SCOPED, object_name
from berthmaster.model.policy import POLICY_KINDS
from berthmaster.native_api.policies import POLICY_SORTS, PolicyQuery
from berthmaster.views import policy_words
from console.context import services, visitor
from console.pages import downloads, lists
from console.pages.amounts import Load
from console.pages.manifests import yaml_lines
from console.query import PageQuery
from console.question import WhatIfQuestion, encoded

BLUEPRINT: Final = Blueprint("policies", __name__)
RESTRICTIONS: Final = {
    "findings": "with findings",
    "takeovers": "with takeovers",
    "drops": "with priority drops",
}
"""What a list can be restricted to, by the word in the address."""


def policy_address(text: str) -> tuple[str, str]:
    """Return namespace and name of ``KIND NAMESPACE/NAME`` or ``KIND NAME`` as addresses have them."""
    _, _, name = text.partition(" ")
    namespace, slash, rest = name.partition("/")
    return (namespace, rest) if slash else (CLUSTER_SCOPED, name or text)


@BLUEPRINT.get("/policies")
def show() -> Response | str:
    query = PageQuery(request.args)
    text, kind = query.text("q"), query.choice("kind", POLICY_KINDS, "")
    only, sort = query.choices("only", tuple(RESTRICTIONS)), query.sort(POLICY_SORTS)
    size, wanted = services().page_rows, PolicyQuery(text, kind, only=only, sort=sort)
    ask = services().source.policies
    rows = downloads.whole(lambda after, most: ask(wanted._replace(offset=after, limit=most)).items)
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
        view=view,
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
    found = services().source.policy(name, "" if namespace == CLUSTER_SCOPED else namespace)
    row, placement = found.row, found.policy.spec.placement
    tables = {"groups": found.groups, "findings": row.findings or (), "takes": row.takes, "loses": row.loses}
    if file := downloads.asked(tables):
        return file
    deleted = WhatIfQuestion(deleted=(object_name(row.namespace, row.kind, row.name),))
    return render_template(
        "policy.html",
        view=found,
        affinities=[policy_words.affinity_words(each) for _, _, each in policy_words.terms_of(placement)],
        asks={
            "Spread": policy_words.spread_words(placement),
            "Replicas": policy_words.division_words(placement),
            "Tolerates": policy_words.toleration_words(placement.cluster_tolerations) or ["No taint."],
            "Failback": [policy_words.failback_words(found.policy, found.failback)],
        },
        load_of=Load,
        manifest=yaml_lines({"apiVersion": found.policy.api_version, **builtins(found.policy)}),
        question=encoded(deleted),
        restricted=visitor().namespaces is not None,
    )
