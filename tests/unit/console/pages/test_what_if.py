"""The page What if: the form, the answer, and what is wrong with a question."""

import random
import re
import time

import pytest
from console_answers import HOSTILE, fleet_cluster, fleet_view, lost_workload, plan_answer, planned_move
from console_source import GivenSource, console_client, refused_question
from msgspec.structs import replace
from tables import DATA, cases

from berthmaster.native_api.what_if import PlanCounts
from berthmaster.simulation.changes import Down
from berthmaster.simulation.plan_answer import Switch
from berthmaster.views.texts import Word
from console.pages.form_boxes import MAX_BOXES, form_boxes
from console.pages.plan_model import MAX_ROWS, PlanView
from console.question import WhatIfQuestion, decoded, encoded
from console.source import SourceError

BOMB = tuple(f"member-x{number}" for number in range(3000))
"""Each word would be compared with each cluster."""
BOMB_S = 2.0
"""Of processor time. It would be a minute."""
POLICY = (DATA / "edited_policy.yaml").read_text()


def test_a_plan_has_a_headline_a_drawing_and_tables():
    view = PlanView(plan_answer(planned_move(), unplaced=[lost_workload()]))
    assert view.headline == "1 of 40 workloads moves, 2 replicas; 1 left without a place."
    assert view.bad
    assert 'role="img"' in view.drawing
    assert "style" not in view.drawing
    assert view.flows == [("a", "b", 2)]
    assert [each.title for each in view.tables] == ["Left without a place", "Moves"]
    assert view.tables[1].rows[0][0].workload == "shop/Deployment/web"
    assert view.tables[1].rows[0][1].words == (Word("a=2", cluster="a"),)


def test_what_happens_in_other_namespaces_is_counted_and_never_called_quiet():
    counts = PlanCounts(40, 9, 4, 8, lost=2, short=1, deleted_copies=0, staying=0, overcommitted=0)
    view = PlanView(plan_answer(planned_move(), counts=counts), restricted=True)
    assert view.hidden == (
        "In namespaces that you may not see: 3 workloads move; 2 workloads are left without a place; "
        "1 workload is left with too few replicas."
    )
    view = PlanView(plan_answer(counts=counts), restricted=True)
    assert view.bad
    assert not view.quiet
    assert PlanView(plan_answer(planned_move()), restricted=True).hidden == ""
    assert "not listed" in PlanView(plan_answer(counts=counts, truncated=True), restricted=True).hidden
    assert PlanView(plan_answer(counts=counts)).hidden == ""


def test_nothing_is_quiet_only_if_everything_is_known():
    assert PlanView(plan_answer()).quiet
    view = PlanView(plan_answer(gaps=["Rollouts are not watched"]))
    assert not view.quiet
    assert view.headline == "Nothing is known to move."
    assert not view.answer.plan.complete


def test_the_headline_of_a_plan_with_rows_left_out_counts_all_of_them():
    counts = PlanCounts(40_000, 9, 4000, 8000, lost=2000, short=1, deleted_copies=3, staying=0, overcommitted=1)
    answer = plan_answer(planned_move(), unplaced=[lost_workload()], counts=counts, truncated=True)
    summary = replace(answer.plan.summary, workloads=40_000, moved=4000, replicas=8000)
    answer = replace(answer, plan=replace(answer.plan, summary=summary))
    assert PlanView(answer).headline == (
        "4,000 of 40,000 workloads move, 8,000 replicas; the change leaves 2,000 workloads without a place; the change "
        "leaves 1 workload with too few replicas; copies that are deleted: 3; clusters that are overcommitted: 1."
    )


def test_the_headline_for_a_visitor_of_few_namespaces_counts_all_of_them():
    counts = PlanCounts(40, 9, 1, 2, lost=3, short=0, deleted_copies=0, staying=0, overcommitted=0)
    answer = plan_answer(planned_move(), unplaced=[lost_workload()], counts=counts)
    assert PlanView(answer, restricted=True).headline == (
        "1 of 40 workloads moves, 2 replicas; the change leaves 3 workloads without a place."
    )
    unknown = plan_answer(gaps=["Rollouts are not watched"], truncated=True)
    assert PlanView(unknown, restricted=True).headline == "Nothing is known to move."


def test_an_empty_cell_is_empty_so_that_a_phone_leaves_it_out():
    view = PlanView(
        plan_answer(planned_move(group=None, group_before=None), planned_move("shop/Deployment/b", group="g"))
    )
    moves = view.tables[0]
    groups = [row[[each.name for each in moves.columns].index("GROUP")].words for row in moves.rows]
    assert groups == [(), (Word("g"),)]


def test_a_name_with_a_space_stays_whole_and_words_beside_names_are_no_names():
    move = planned_move("shop/Deployment/a b", {"c d": 1}, {"f": 1}, deleted=["c d"], evicting=["e"])
    (row,) = PlanView(plan_answer(move)).tables[0].rows
    _, before, after, *_, leaving, _ = row
    assert before.words == (Word("c d=1", cluster="c d"),)
    assert after.words == (Word("f=1", cluster="f"),)
    assert leaving.words == (Word("c d", cluster="c d"), Word("later:", is_name=False), Word("e", cluster="e"))


def test_a_long_table_says_how_much_is_missing():
    moves = [planned_move(f"shop/Deployment/web-{number}") for number in range(MAX_ROWS + 2)]
    assert len(list(PlanView(plan_answer(*moves)).files()["table-1"])) == MAX_ROWS + 2
    client, _ = client_of(plan=plan_answer(*moves))
    page = client.get("/what-if?lose=a", follow_redirects=True).text
    assert page.count('href="/workloads/shop/web-') == MAX_ROWS
    assert "2 more rows are in the file." in page


def test_the_form_lists_clusters_by_region_and_keeps_what_was_written():
    clusters = [
        fleet_cluster("a", "north"),
        fleet_cluster("b", "south", ready=False),
        fleet_cluster("c", ""),
        fleet_cluster("d", "north", draining=True),
    ]
    question = WhatIfQuestion(lose=("a", "gone"), taints=("x", "y"), labels=("z",))
    form = form_boxes(question, clusters)
    assert list(form.regions.items()) == [
        ("north", [("a", ""), ("d", "draining")]), ("south", [("b", "not ready")]), ("", [("c", "")]),
    ]  # fmt: skip
    assert form.more == "gone"
    client, _ = client_of(fleet=fleet_view(*clusters))
    text = client.get(f"/what-if?question={encoded(question)}").text
    assert "x\ny</textarea>" in text
    assert re.search(r"<details open>\s*<summary>More changes", text)


def test_a_large_fleet_is_named_and_not_listed():
    names = range(MAX_BOXES + 1)
    clusters = [fleet_cluster(f"c{name}", "north", provider="", zones=(f"z{name}",)) for name in names]
    form = form_boxes(WhatIfQuestion(lose=("c1", "zone=z1", "region=north")), clusters)
    assert form.regions == {}
    assert form.more == "c1 zone=z1"
    assert {kind: len(found) for kind, found in form.domains.items()} == {"region": 1, "zone": 0, "provider": 0}


def client_of(**answers):
    source = GivenSource(**{"fleet": fleet_view("a", "b"), "plan": plan_answer(planned_move()), **answers})
    return console_client(source), source


def posted(client, **values):
    page = client.get("/what-if").get_data(as_text=True)
    token = re.search(r'name="form_token" value="([^"]+)"', page)
    return client.post("/what-if", data={"form_token": token[1], **values})


def test_a_form_becomes_an_address_that_has_the_answer():
    client, source = client_of()
    answer = posted(client, lose=["a"], taints="b=k:NoSchedule", policies="")
    assert answer.status_code == 303
    address = answer.headers["Location"]
    assert decoded(address.partition("question=")[2]) == WhatIfQuestion(lose=("a",), taints=("b=k:NoSchedule",))
    page = client.get(address).get_data(as_text=True)
    assert "1 of 40 workloads moves" in page
    assert "1 taint changes: b=k:NoSchedule; 1 cluster fails: a:" in page
    assert '<svg class="flows"' in page
    assert re.search(r'value="a" checked', page)
    (_, (request,), _) = source.asked[-1]
    assert request.changes[-1] == Down("a")


@pytest.mark.parametrize("field", ["failover", "preemption"])
@pytest.mark.parametrize(("given", "asked"), [("on", Switch.ON), ("off", Switch.OFF), ("other", Switch.AUTO)])
def test_the_selects_say_what_the_answer_assumes(field, given, asked):
    client, source = client_of()
    answer = posted(client, **{"lose": ["a"], field: given})
    page = client.get(answer.headers["Location"]).get_data(as_text=True)
    (_, (request,), _) = source.asked[-1]
    assert getattr(request, field) is asked
    (select,) = re.findall(rf'<select id="field-{field}".*?</select>', page)
    assert re.findall(r'value="(\w+)" selected', select) == [asked]


def test_a_wrong_form_comes_back_with_everything_that_was_written():
    client, source = client_of()
    answer = posted(client, lose=["a", "zz"], scales="web=3", policies="kind: [\n<b>")
    page = answer.get_data(as_text=True)
    assert answer.status_code == 400
    assert "there is no cluster &#39;zz&#39;" in page
    assert 'aria-invalid="true"' in page
    assert "kind: [\n&lt;b&gt;</textarea>" in page
    assert re.search(r'value="a" checked', page)
    assert 'name="lose" value="zz"' in page
    assert not any(name == "plan" for name, *_ in source.asked)


def test_moves_that_are_due_anyway_are_a_table_of_their_own_and_clusters_are_links():
    client, _ = client_of(plan=plan_answer(planned_move(), planned_move("shop/Deployment/late", due=True)))
    page = client.get("/what-if?lose=a", follow_redirects=True).text
    moves, due = page.partition("<h2>Moves</h2>")[2].split("<h2>Due without the change, too</h2>")
    assert "shop/Deployment/late" in due
    assert "shop/Deployment/late" not in moves
    assert 'href="/fleet/a"' in moves


def test_a_question_that_is_too_long_for_an_address_is_answered_at_once():
    client, _ = client_of()
    answer = posted(client, policies=f"{POLICY}# {random.Random(1).randbytes(4000).hex()}")
    assert answer.status_code == 200
    assert "1 of 40 workloads moves" in answer.text
    assert "too long for an address" in answer.text


@cases(
    ("answers", "token", "status", "problem"),
    {
        "a session that is gone": ({}, "", 403, "the form is out of date"),
        "no fleet": ({"fleet": SourceError("The extender is lost")}, None, 503, "is lost"),
        "no answer": ({"plan": SourceError("It took too long", 503)}, None, 503, "took too long"),
    },
)
def test_the_form_survives_what_prevents_an_answer(answers, token, status, problem):
    client, source = client_of()
    values = {} if token is None else {"form_token": token}
    client.get("/what-if")
    source.answers.update(answers)
    written = f"{POLICY}# {random.Random(1).randbytes(4000).hex()}"
    if token is None:
        with client.session_transaction() as session:
            values = {"form_token": session["form_token"]}
    answer = client.post("/what-if", data={**values, "lose": "a", "policies": written})
    assert answer.status_code == status
    assert problem in answer.text
    assert written in answer.text
    assert 'value="a"' in answer.text


def test_a_form_without_its_token_asks_nothing():
    """A page of another site can post a form, and does not know its token."""
    client, source = client_of()
    answer = client.post("/what-if", data={"lose": "a b c", "policies": POLICY})
    assert (answer.status_code, source.asked) == (403, [])


@cases(
    "sent",
    {
        "an address": lambda client: client.get(f"/what-if?question={encoded(WhatIfQuestion(lose=BOMB[:3] * 1500))}"),
        "a form": lambda client: posted(client, lose=" ".join(BOMB)),
        "a form without its token": lambda client: client.post("/what-if", data={"lose": " ".join(BOMB)}),
    },
)
def test_a_question_of_many_words_is_refused_before_any_work(sent):
    client, source = client_of(fleet=fleet_view(*(f"member-{number}" for number in range(2000))))
    client.get("/what-if")
    source.asked, begun_s = [], time.process_time()
    answer = sent(client)
    assert answer.status_code in {400, 403}
    assert "plan" not in {name for name, *_ in source.asked}
    assert time.process_time() - begun_s < BOMB_S


def test_what_the_extender_refuses_keeps_the_form():
    refused = refused_question("the cluster a is not known", 400, "changes[0].cluster")
    client, _ = client_of(plan=refused)
    answer = client.get(f"/what-if?question={encoded(WhatIfQuestion(lose=('a',)))}")
    page = answer.get_data(as_text=True)
    assert answer.status_code == 400
    assert "&#39;a&#39;: the cluster a is not known" in page
    assert re.search(r'value="a" checked', page)


@cases("status", {"no answer": 0, "busy": 429, "stale": 503})
def test_an_extender_that_cannot_answer_now_is_an_error_page(status):
    client, _ = client_of(plan=SourceError("try later", status))
    answer = client.get(f"/what-if?question={encoded(WhatIfQuestion(lose=('a',)))}")
    assert answer.status_code >= 500
    assert "try later" in answer.get_data(as_text=True)


def test_a_link_can_name_clusters():
    client, _ = client_of()
    answer = client.get("/what-if?lose=a,b")
    assert decoded(answer.headers["Location"].partition("question=")[2]) == WhatIfQuestion(lose=("a", "b"))


def test_a_hostile_name_is_text():
    move = planned_move(f"shop/Deployment/{HOSTILE}", {HOSTILE: 1}, {"b": 1}, reason=HOSTILE)
    client, _ = client_of(plan=plan_answer(move, gaps=[HOSTILE]), fleet=fleet_view(HOSTILE, "b"))
    page = client.get(f"/what-if?question={encoded(WhatIfQuestion(lose=('b',)))}").get_data(as_text=True)
    assert "<script>alert" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "&lt;script&gt;alert" in page


def test_the_answer_about_a_large_fleet_stays_small():
    every = {f"eu-west-1-{number:04}": 1 for number in range(1000)}
    wide = [planned_move(f"shop/ConfigMap/trust-{number}", before=every, after={"a": 1}) for number in range(9)]
    usual = [planned_move(f"shop/Deployment/checkout-{number}") for number in range(900)]
    client, _ = client_of(plan=plan_answer(*wide, *usual))
    page = client.get(f"/what-if?question={encoded(WhatIfQuestion(lose=('a',)))}")
    assert (page.status_code, len(page.data) < 100_000) == (200, True)
