"""The pages of policies: what each claims, what the rules find, takeovers and priority drops."""

from typing import Final

from flask import Blueprint, abort, render_template, request

from berthmaster.model.meta import CLUSTER_SCOPED
from berthmaster.model.policy import POLICY_KINDS
from berthmaster.native_api.why import PolicyQuery
from console.context import services, visitor
from console.pages import lists
from console.pages.policies_model import RESTRICTIONS, policies_page, policy_address, policy_page
from console.query import PageQuery
from console.question import WhatIfQuestion, encoded

BLUEPRINT: Final = Blueprint("policies", __name__)
_MOST: Final = 1000


@BLUEPRINT.get("/policies")
def show() -> str:
    """Show the list."""
    query = PageQuery(request.args)
    text, kind = query.text("q"), query.choice("kind", POLICY_KINDS, "")
    only = query.choices("only", tuple(RESTRICTIONS))
    size = services().page_rows
    view, paging = lists.asked(
        query.page(),
        size,
        lambda offset: services().source.policies(PolicyQuery(text, kind, only=only, offset=offset, limit=size)),
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
    )


@BLUEPRINT.get("/policies/<namespace>/<name>")
def one(namespace: str, name: str) -> str:
    """Show one policy. The namespace ``-`` means a ClusterPropagationPolicy."""
    cluster_scoped = namespace == CLUSTER_SCOPED
    kind = POLICY_KINDS[cluster_scoped]
    view = services().source.policies(PolicyQuery(kind=kind, name=name, limit=_MOST))
    model = policy_page(view, "" if cluster_scoped else namespace, name)
    if model is None:
        where = "" if cluster_scoped else f" in the namespace {namespace}"
        abort(404, f"There is no {kind} {name}{where}, or you may not see it.")
    question = encoded(WhatIfQuestion(deleted=(model.delete_word,)))
    restricted = visitor().namespaces is not None
    return render_template(
        "policy.html", model=model, question=question, address_of=policy_address, restricted=restricted
    )
