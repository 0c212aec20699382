"""The pages of policies: what each claims, what the rules find, takeovers and priority drops."""

from functools import partial
from typing import Final

from flask import Blueprint, Response, render_template, request

from berthmaster.model.meta import CLUSTER_SCOPED
from berthmaster.model.policy import POLICY_KINDS
from berthmaster.native_api.why import POLICY_SORTS, PolicyQuery
from console.context import services, visitor
from console.pages import downloads, lists
from console.pages.policies_model import RESTRICTIONS, policies_page, policy_address, policy_page
from console.query import PageQuery
from console.question import WhatIfQuestion, encoded

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
