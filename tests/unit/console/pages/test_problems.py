"""The problems at the top of the page Fleet: words, links, what changed just before, and what to type."""

from datetime import timedelta
from html import unescape

import pytest
from console_answers import FRESH, NOW, fleet_view, history_page, history_row, listed_workloads
from console_source import refused_question
from tables import cases

from berthmaster.native_api.problems import Damage, FleetProblem, ProblemList, Subject
from console.pages.problems import SHOWN, ChangeKind, changes_before, unjudged, words_of

EARLIER = NOW - timedelta(minutes=4)
WEB = {"namespace": "shop", "workload_kind": "Deployment", "name": "web", "binding": "web-deployment"}
POLICY = "PropagationPolicy shop/web"
NOWHERE = FleetProblem(Damage.NO_COPY, Subject.WORKLOAD, 1, 4, EARLIER, "no room", policy=POLICY, **WEB)
LOST = FleetProblem(Damage.NO_COPY, Subject.CLUSTER, 12, 60, EARLIER, "timed out", cluster="member1")
SILENT = FleetProblem(Damage.CONTROL, Subject.CONTROLLERS, since=EARLIER)


def at(minutes, **changes):
    return history_row(time=(EARLIER + timedelta(minutes=minutes)).isoformat(), **changes)


def note(kind, minutes, **details):
    return at(minutes, kind=kind, trigger="", policy=POLICY, before=None, after=None, details=details)


def problems(*items):
    totals = {each.value: sum(one.damage is each for one in items) for each in Damage}
    return ProblemList(list(items), totals, "v1", [], FRESH)


@cases(
    ("records", "expected"),
    {
        "nothing on record": ([], []),
        "the decision": ([at(0)], [(ChangeKind.DECISION, "")]),
        "the policy edit and the decision": (
            [at(0), note("plan-accepted", -1, username="alice")],
            [(ChangeKind.DECISION, ""), (ChangeKind.POLICY, "alice")],
        ),
        "the last edit of several": (
            [note("exemption", -1, username="bob"), note("plan-accepted", -9, username="alice")],
            [(ChangeKind.POLICY, "bob")],
        ),
        "what happened later": ([at(5), note("plan-accepted", 5, username="alice")], []),
        "what is about another workload": ([at(0, name="other")], []),
        "a takeover": ([at(-1, kind="preemption", trigger="")], [(ChangeKind.TAKEOVER, "")]),
    },
)
def test_what_changed_just_before(records, expected):
    assert [(each.kind, each.user) for each in changes_before(NOWHERE, records)] == expected


@cases(
    ("records", "found"),
    {
        "refused": ([note("refusal", 0, gate="unjudged", username="alice")], [(POLICY, "alice")]),
        "refused for its size": ([note("refusal", 0, gate="refused")], []),
        "a later plan was accepted": (
            [note("plan-accepted", 1, gate="accepted"), note("refusal", 0, gate="unjudged")],
            [],
        ),
    },
)
def test_changes_that_the_gate_could_not_judge(records, found):
    assert [(each.policy, each.user) for each in unjudged(records)] == found


@pytest.mark.parametrize("subject", Subject)
@pytest.mark.parametrize("damage", Damage)
def test_each_problem_has_words(subject, damage):
    title, text = words_of(FleetProblem(damage, subject, 2, 3, EARLIER, "a reason", cluster="a", policy=POLICY, **WEB))
    assert title
    assert text.endswith(".")


def test_the_problems_are_first_on_the_page_with_since_who_and_what_to_type(page):
    answer, _ = page(
        "/fleet", fleet=fleet_view("member1"), workloads=listed_workloads(), problems=problems(LOST, NOWHERE, SILENT),
        history=history_page(at(0), note("plan-accepted", -1, username="alice")),
    )  # fmt: skip
    text = unescape(answer.text)
    order = [
        "No copy runs", "member1", "12 workloads here have no copy that runs", "shop/Deployment/web", "Control plane",
        "No controller has renewed its lease", 'id="map"',
    ]  # fmt: skip
    assert sorted(order, key=text.index) == order
    assert "4 min ago" in text
    assert "PropagationPolicy shop/web changed by alice" in text
    assert "berthmaster explain Deployment/web -n shop" in text
    assert 'href="/workloads?cluster=member1&only=stopped"' in text


def test_the_page_has_a_bound_and_the_rest_is_one_click_away(page):
    many = [NOWHERE] * (SHOWN + 3)
    given = {"fleet": fleet_view("a"), "workloads": listed_workloads(), "problems": problems(*many)}
    text = page("/fleet", **given)[0].text
    assert (text.count('class="problem '), "3 more." in text) == (SHOWN, True)
    assert page("/fleet?problems=all", **given)[0].text.count('class="problem ') == SHOWN + 3


def test_a_fleet_without_problems_says_so(page):
    text = page("/fleet", fleet=fleet_view("a"), workloads=listed_workloads(), problems=problems())[0].text
    assert "Every workload runs in its preferred group" in text


def test_what_is_not_known_is_not_called_good(page):
    refused = refused_question("bindings are not watched", 409)
    text = page("/fleet", fleet=fleet_view("a"), problems=refused, workloads=refused)[0].text
    assert "What is broken is not known: bindings are not watched." in text
    assert "Every workload runs" not in text
