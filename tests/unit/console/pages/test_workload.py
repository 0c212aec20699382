"""The page Workload: the first lines, groups, clusters by stage, timeline, recorded decisions, why-not."""

from datetime import timedelta

import pytest
from console_answers import (
    FULL,
    NOW,
    binding_explanation,
    binding_outlook,
    binding_view,
    group_diagnosis,
    group_outlook,
    history_page,
    history_row,
    move_state,
    past_explanation,
    why_not_view,
    workload_answers,
)
from console_source import refused_question
from tables import cases, data

from berthmaster.ledger.records import ChangeRecord
from berthmaster.model.division_strategy import Strategy
from berthmaster.model.move import MovePhase
from berthmaster.model.quantity import Quantity
from berthmaster.native_api.why import BindingEvent, BindingEvents, BindingOverview, FreeAmount, Room
from berthmaster.native_api.wire import EvictionTaskView, HistoryQuery, RequiringBinding
from berthmaster.scheduling.decision import Failure, FailureKind
from berthmaster.scheduling.diagnosis import ClusterDiagnosis, Diagnosis, GroupDiagnosis, Outcome, Rejection
from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.simulation.workload import NotScheduled
from console.pages.record_words import Departure, change_words, departure_of, record_badge
from console.pages.workload_answers import answers, past_answers
from console.pages.workload_model import ROWS, ShownWorkload, counted, group_rows, stages_of
from console.pages.workload_words import listed, sentence
from console.source import SourceError

WORDS = data("console_words")
ADDRESS = "/workloads/shop/web-deployment"
PAST = past_explanation(
    ChangeRecord("p1", "taints", "", "maintenance:NoExecute", decisive=True),
    reproduced=False, notes=["scheduler estimators limited 3 clusters"],
)  # fmt: skip


def overview(binding, explained=None, outlook=None, **parts):
    return BindingOverview(binding, explained, outlook, None, {}, "v1", **parts)


def lines(binding=None, explained=None, outlook=None):
    found = answers(
        overview(binding or binding_view(), explained or binding_explanation(), outlook or binding_outlook()),
        NOW,
    )
    return {line.question: (line.kind, " ".join(line.texts)) for line in found}


@cases(("fields", "kind", "text"), WORDS["where a workload is"])
def test_where_it_is(fields, kind, text):
    found_kind, found = lines(binding_view(**fields))["Where"]
    assert found_kind == kind
    assert text in found


def test_an_eviction_is_said():
    tasks = [
        EvictionTaskView("b2", "x", "Drained", "", "", None, None, None),
        EvictionTaskView("b3", "x", "Lost", "", "Directly", None, None, None),
        EvictionTaskView("b4", "x", "Lost", "", "Directly", None, None, None),
    ]
    kind, text = lines(binding_view(eviction_tasks=tasks, waits_for_deletion=["b3"]))["Where"]
    assert kind == "warn"
    assert "It is being evicted from b2. Copies there stay until new ones are ready." in text
    assert "evicted from b3. New copies start only when those there are deleted (purge mode Directly)." in text
    assert "b4" not in text, "its copy is gone"


def test_an_eviction_whose_copy_is_gone_is_no_warning():
    tasks = [EvictionTaskView("b3", "x", "Drained", "", "Directly", None, None, None)]
    assert lines(binding_view(eviction_tasks=tasks))["Where"][0] == "good"


@cases(("fields", "kind", "text"), WORDS["its group"])
def test_the_group_it_is_in(fields, kind, text):
    found_kind, found = lines(binding_view(**fields))["Group"]
    assert found_kind == kind
    assert text in found


def test_a_placement_without_groups_has_no_line_about_groups():
    assert lines(binding_view(groups=None, observed_group=None)).keys() == {"Where", "Next"}


def test_why_not_its_preferred_group():
    kind, text = lines()["Why not primary"]
    assert kind == "bad"
    assert text == (
        "2 of its 4 clusters pass the filters: Clusters available replicas 3 are not enough to schedule. "
        "Rejected: 2 cluster(s) had untolerated taint."
    )


def test_a_preferred_group_that_fits_again_is_said_with_what_moves_it_back():
    again = binding_outlook(group_outlook("primary"), group_outlook("backup"))
    kind, text = lines(outlook=again)["Why not primary"]
    assert (kind, text.startswith("This group could hold 8 replicas now.")) == ("warn", True)
    assert "Karmada does not move a workload back" in text
    waiting = binding_outlook(group_outlook("primary"), move=move_state())
    assert "Karmada does not" not in lines(outlook=waiting)["Why not primary"][1]


def test_every_earlier_group_is_named():
    found = lines(binding_view(observed_group="edge"))["Why not primary"][1]
    assert "primary: 2 of its 4 clusters pass the filters" in found
    assert "backup: This group could hold 8 replicas now." in found


def test_a_workload_without_a_place_says_what_a_replica_requests_and_what_is_free():
    big = binding_view(clusters={}, requests={"cpu": Quantity.parse("4000"), "memory": Quantity.parse("2Gi")})
    room = Room(passing=False, free={"cpu": FreeAmount("large", 13_000), "memory": FreeAmount("small", 32 * 2**30)})
    found = answers(overview(big, room=room), NOW)[0]
    assert found.texts[-2:] == (
        "One replica requests CPU 4,000, Memory 2Gi.",
        "The most that one cluster has free: CPU 13 (large), Memory 32Gi (small).",
    )
    full = Room(passing=True, free={"cpu": FreeAmount("small", -1)})
    assert answers(overview(big, room=full), NOW)[0].texts[-1] == (
        "The most that one cluster that passes the filters has free: CPU 0 (small), Memory on no ready cluster."
    )


def test_what_is_not_known_is_said():
    found = answers(overview(binding_view()), NOW)
    texts = {line.question: line.texts[-1] for line in found}
    assert texts["Why not primary"] == "It is not known what the earlier groups could hold."
    assert texts["Next"] == "It is not known what a decision would do now."


@cases(
    ("explained", "kind", "text"),
    {
        "nothing": ({}, "off", "Nothing asks for a new decision. It stays where it is."),
        "no change": (
            {"trigger": Trigger.SCALE},
            "good",
            "the requested replicas differ from the assigned ones. A decision now changes nothing.",
        ),
        "a change": (
            {"trigger": Trigger.FAILOVER, "clusters": {"e1": 8}, "group": "edge"},
            "busy",
            "A decision now gives e1 (8) in the group edge.",
        ),
        "a failure": (
            {
                "trigger": Trigger.FIRST,
                "clusters": {},
                "error": FailureKind.NO_FIT,
                "message": "NoFit: none of 3 clusters fits",
            },
            "bad",
            "A decision now finds no place: NoFit: none of 3 clusters fits.",
        ),
        "another scheduler": (
            {"not_scheduled": NotScheduled.OTHER_SCHEDULER, "message": "its scheduler is other"},
            "off",
            "No decision is made: its scheduler is other.",
        ),
    },
)
def test_what_happens_next(explained, kind, text):
    found_kind, found = lines(explained=binding_explanation(**explained))["Next"]
    assert found_kind == kind
    assert text in found


@pytest.mark.parametrize("phase", MovePhase)
def test_each_phase_of_a_move_is_said(phase):
    move = move_state(
        phase,
        until=NOW + timedelta(minutes=5),
        held_down_until=NOW + timedelta(minutes=9),
        message="the budget is used up",
    )
    kind, text = lines(outlook=binding_outlook(move=move))["Next"]
    assert kind in {"warn", "busy", "good"}
    assert text.startswith("It ")
    under_way = phase not in {MovePhase.RELEASED, MovePhase.ROLLED_BACK, MovePhase.HELD_DOWN}
    assert ("Nothing asks for a new decision" in text) != under_way


@pytest.mark.parametrize("phase", [MovePhase.ADMITTED, MovePhase.SURGING])
def test_an_overdue_move_does_not_promise_a_return(phase):
    move = move_state(phase, until=NOW - timedelta(minutes=5), overdue=True, message="m1 is not ready")
    _, text = lines(outlook=binding_outlook(move=move))["Next"]
    assert "Its deadline has passed, and it cannot return now. m1 is not ready." in text


@cases(
    ("records", "left"),
    {
        "it left the first group": ([history_row(2), history_row(1, group="primary")], "primary"),
        "after a failure": (
            [history_row(3), history_row(2, group=""), history_row(1, group="primary")],
            "primary",
        ),
        "it came from a later group": ([history_row(2), history_row(1, group="edge")], None),
        "the departure is not on record": ([history_row(2), history_row(1)], None),
        "the records are older than it": ([history_row(2, group="primary"), history_row(1)], None),
    },
)
def test_the_departure_from_an_earlier_group(records, left):
    found = departure_of(records, ["primary", "backup", "edge"], "backup")
    assert (found.left if found else None) == left


def test_the_first_lines_say_why_it_left_its_group():
    record = history_row(evicted_from=["p1"])
    change = ChangeRecord("p1", "taints", "none", "lost:NoExecute", decisive=True)
    past = past_explanation(change, record=record)
    departure = Departure(record, "primary")
    found = answers(overview(binding_view(), outlook=binding_outlook()), NOW, departure, past)
    (line,) = [each for each in found if each.question == "Why it left primary"]
    text = " ".join(line.texts)
    assert "because a cluster of its assignment is lost, or evicts it." in text
    assert "It was evicted from p1." in text
    assert "This made the difference: p1, taints: none → lost:NoExecute." in text
    assert line.record == record.id


@cases(
    ("phase", "old"),
    {
        "new copies first": (MovePhase.SURGING, "Old copies. They go after the new copies are healthy."),
        "old copies first": (MovePhase.ADMITTED, "Old copies. They go before the new copies start."),
        "the move has not begun": (MovePhase.STABILISING, None),
    },
)
def test_the_copies_during_a_move(phase, old):
    move = move_state(phase, source={"b1": 5, "b2": 3}, target={"b2": 3, "p1": 5})
    binding = binding_view(clusters={"b1": 5, "b2": 3, "p1": 5})
    found = ShownWorkload(overview(binding, outlook=binding_outlook(move=move))).copies
    assert [tuple(each) for each in found] == ([] if old is None else [
        ("b1", 5, 5, None, old), ("b2", 3, 3, 3, "They stay."), ("p1", None, 5, 5, "New copies."),
    ])  # fmt: skip


def test_a_deleted_cluster_outside_of_a_group_does_not_count_in_it():
    outside = [Rejection("ClusterDeleting", "is being deleted"), Rejection("ClusterAffinity", "not named")]
    gone = ClusterDiagnosis("gone", Outcome.REJECTED, rejections=outside)
    group = GroupDiagnosis("backup", None, [*group_diagnosis().clusters, gone])
    with_it, without = Diagnosis(Strategy.AGGREGATED, [], [group, group_diagnosis()], []).groups
    rows = list(group_rows(None, Diagnosis(Strategy.AGGREGATED, [], [with_it, without], []), None, 8))
    assert rows[0].clusters == rows[1].clusters
    assert not any(each.plugin == "ClusterDeleting" for each in counted(group)[1].rejected)


def test_a_suspended_or_deleted_binding_says_so_first():
    assert "no decision is made until that ends" in lines(binding_view(suspended=True))["Next"][1]
    assert lines(binding_view(deleting=True))["Next"][1] == "Its binding is being deleted."


def test_groups_of_the_present_have_what_each_could_hold():
    rows = group_rows(binding_outlook(), None, "backup", 8)
    assert [(row.position, row.name, row.here, row.verdict, row.capacity) for row in rows] == [
        (1, "primary", False, "cannot hold it", "3"),
        (2, "backup", True, "can hold it", "34"),
        (3, "edge", False, "can hold it", "34"),
    ]


def test_groups_of_a_decision_have_what_it_tried():
    failed = GroupDiagnosis(
        "backup", Failure(FailureKind.NO_FIT, "none of 12 clusters fits"), group_diagnosis().clusters
    )
    diagnosis = Diagnosis(Strategy.AGGREGATED, ["primary"], [failed], ["edge"])
    rows = list(group_rows(None, diagnosis, None, 8))
    assert [(row.name, row.verdict) for row in rows] == [
        ("primary", "not tried"),
        ("backup", "failed"),
        ("edge", "not tried"),
    ]
    assert rows[1].text == "It failed: none of 12 clusters fits. Rejected: 1 cluster(s) had untolerated taint."
    assert (rows[1].clusters, rows[1].fitting) == (4, 3)


def test_clusters_by_stage():
    stages, (_, totals) = list(stages_of(group_diagnosis(), ROWS)), counted(group_diagnosis())
    assert [(stage.title, stage.total) for stage in stages] == [
        ("Selected", 2),
        ("Scored, not selected", 1),
        ("Filtered out", 9),
    ]
    selected, scored, _filtered = stages
    assert [(row.cluster, row.replicas) for row in selected.rows] == [("b1", 5), ("b2", 3)]
    assert [row.cluster for row in scored.rows] == ["b3"]
    assert [(each.plugin, each.count, each.clusters) for each in totals.rejected] == [("TaintToleration", 1, ["b4"])]
    assert totals.outside == 8
    assert totals.unassigned[:2] == ["b3", "b4"]


def test_a_cluster_says_what_fits_its_score_and_why(workload):
    text = workload()[0].text
    for cells in (
        '>5</td><td class="number" data-label="Now">5</td>', ">9 (cpu)</td>", ">4 (memory)</td>",
        'data-label="Score">100</td>', "its share is less than one replica. <a",
    ):  # fmt: skip
        assert cells in text


def test_scores_of_several_plugins_are_columns_and_no_tooltip(workload):
    text = workload()[0].text
    assert [f'class="number">{name}</th>' in text for name in ("ClusterLocality", "ClusterAffinity")] == [True, True]
    assert 'data-label="ClusterLocality">100</td>' in text
    assert 'title="ClusterLocality' not in text


def test_long_stages_are_cut_unless_all_clusters_are_asked_for():
    clusters = [
        ClusterDiagnosis(f"c{number:03}", Outcome.NOT_SELECTED, "other clusters are better")
        for number in range(ROWS + 3)
    ]
    group = GroupDiagnosis(None, None, clusters)
    for most, shown in ((ROWS, ROWS), (None, ROWS + 3)):
        (stage,) = stages_of(group, most)
        assert (len(stage.rows), stage.total) == (shown, ROWS + 3)


def test_the_failure_of_a_whole_group_is_said_once(workload):
    message = "the constraints cannot be met"
    group = GroupDiagnosis(
        "backup",
        Failure(FailureKind.SELECT_FAILED, message),
        [ClusterDiagnosis("b1", Outcome.NOT_SELECTED, message)],
    )
    diagnosis = Diagnosis(Strategy.AGGREGATED, [], [group], [])
    text = workload(decision=binding_explanation(diagnosis=diagnosis))[0].text.partition('id="clusters"')[2]
    assert text.count(f"{message}.") == 1


@cases(("before", "after", "text"), WORDS["a change"])
def test_a_change_in_words(before, after, text):
    assert change_words(before, after) == text


@cases(("record", "kind", "title"), WORDS["what a record is"])
def test_what_a_record_is(record, kind, title):
    assert record_badge(history_row(**record)) == (kind, title)


def test_the_timeline_has_decisions_to_open_and_other_records(workload):
    records = [
        history_row(3),
        history_row(2, kind="placementHeld", before=None, after=None, message="held", details={"plan": "9f3a"}),
    ]
    given = {"history": history_page(*records), "recorded_decision": PAST}
    text = workload("?record=1.3", **given)[0].text.partition('id="timeline"')[2]
    assert 'id="record-1.3" class="here"' in text
    assert "Open 1.3" in text
    assert "Open 1.2" not in text
    assert "Plan <code>9f3a</code>" in text


@cases(("fields", "kind", "text"), WORDS["where it went"])
def test_the_first_lines_about_a_recorded_decision(fields, kind, text):
    found = past_answers(past_explanation(record=history_row(**fields)))
    assert [(line.kind, " ".join(line.texts)) for line in found if line.question == "Where"] == [(kind, text)]


def test_names_stay_as_they_are_in_sentences():
    assert sentence("the placement changed") == "the placement changed."
    assert sentence("checkout is held") == "checkout is held."
    assert listed([str(number) for number in range(10)], "cluster") == "0, 1, 2, 3, 4, 5, 6, 7 and 2 more clusters"


@pytest.fixture(name="workload")
def workload_page(page):
    """Return a function: the page with a query, and the source that it asked. Some answers can be replaced."""
    return lambda query="", **given: page(f"{ADDRESS}{query}", **workload_answers(**given))


def test_the_page_answers_in_its_first_lines(workload):
    answer, source = workload()
    text = answer.text
    first = (
        text.index("It is assigned to 2 clusters"),
        text.index("the second of 3"),
        text.index("2 of its 4 clusters pass the filters"),
    )
    assert list(first) == sorted(first)
    assert max(first) < text.index("Groups in order") < text.index("Clusters by stage") < text.index("Timeline")
    assert ("history", (HistoryQuery("shop", "Deployment", "web", limit=20),), {}) in source.asked
    for part in ("PropagationPolicy shop/web", "a PropagationPolicy goes before it", f"{ADDRESS}?record=1.1"):
        assert part in text


def test_the_last_accepted_plan_of_its_policy_is_shown(workload):
    def history(query, **_more):
        if query.kind == "Deployment":
            return history_page()
        return history_page(
            history_row(9, kind="refusal", before=None, after=None, details={"plan": "refused-plan"}),
            history_row(8, kind="plan-accepted", before=None, after=None, message="by ann", details={"plan": "9f3a"}),
            history_row(7, kind="plan-accepted", before=None, after=None, details={"plan": "older-plan"}),
        )

    answer, source = workload(history=history)
    assert "plan <code>9f3a</code>" in answer.text
    assert "by ann" in answer.text
    assert "refused-plan" not in answer.text
    assert "older-plan" not in answer.text
    asked = HistoryQuery("shop", "PropagationPolicy", "web", limit=20)
    assert ("history", (asked,), {}) in source.asked


def test_a_recorded_decision_is_shown_as_it_was(workload):
    answer, source = workload("?record=1.1", recorded_decision=PAST)
    text = answer.text
    for part in (
        "This is the decision 1.1",
        "decides differently",
        "limited 3 clusters",
        "made the difference",
        "Show the present",
    ):
        assert part in text
    asked = {name for name, *_ in source.asked}
    assert asked == {"binding", "recorded_decision", "history"}, "the present is not asked"


def test_why_not_a_cluster(workload):
    answer, source = workload("?why-not=b4")
    assert "remove the taint maintenance:NoSchedule" in answer.text
    assert ("why_not", ("b4", "web-deployment", "shop"), {"record": ""}) in source.asked
    taken, _ = workload("?why-not=b1", why_not=why_not_view(cluster="b1", taken=True))
    assert "gives the workload to b1 without any change" in taken.text


def test_the_clusters_of_another_group_can_be_listed(workload):
    answer, source = workload("?group=primary", outlook=binding_outlook(FULL, diagnosis=group_diagnosis()))
    assert "a decision from scratch in this group alone" in answer.text
    assert ("overview", ("web-deployment", "shop", "primary"), {"clusters": ROWS, "namespaces": None}) in source.asked


@pytest.mark.parametrize("query", ["?clusters=all", "?as=csv"])
def test_all_clusters_are_asked_for_only_if_they_are_shown(workload, query):
    _, source = workload(query)
    assert source.asked[0] == ("overview", ("web-deployment", "shop", None), {"clusters": None, "namespaces": None})


def test_a_cluster_scoped_workload_is_asked_without_a_namespace(page):
    answer, source = page("/workloads/-/web-clusterrole", **workload_answers())
    assert answer.status_code == 200
    assert source.asked[0] == ("overview", ("web-clusterrole", "", None), {"clusters": ROWS, "namespaces": None})


def test_related_workloads_and_notes_are_named(workload):
    binding = binding_view(
        required_by=[RequiringBinding("shop", "app-deployment", {})], notes=["a claim has no effect"]
    )
    text = workload(binding=binding)[0].text
    assert "It follows the bindings shop/app-deployment." in text
    assert "a claim has no effect." in text


@pytest.mark.parametrize(
    ("part", "query", "status"),
    [
        ("history", "", 409),
        ("history", "", 503),
        ("decision", "", 400),
        ("claims", "", 409),
        ("why_not", "?why-not=x", 404),
        ("why_not", "?why-not=x", 429),
    ],
)
def test_a_part_that_the_extender_does_not_have_is_left_out_with_its_reason(workload, part, query, status):
    refused = refused_question("the reason is this", status)
    text = workload(query, **{part: refused})[0].text
    assert "It is assigned to 2 clusters" in text
    assert "reason is this." in text
    assert "0af1" not in text


def test_old_and_new_copies_of_a_move_are_no_surplus():
    moving = binding_outlook(move=move_state(MovePhase.SOAKING))
    text = lines(binding_view(replicas=4), outlook=moving)["Where"][1]
    assert "old and new copies: 8 during the move, of 4 replicas. The old copies are on b1 (5) and b2 (3) until" in text


def test_what_the_first_lines_say_about_a_move_is_no_note(workload):
    note = "it should move since yesterday (Failback)"
    outlook = binding_outlook(move=move_state(), move_note=note)
    text = workload(outlook=outlook, decision=binding_explanation(notes=[note, "dispatching is suspended"]))[0].text
    assert "since yesterday" not in text
    assert "dispatching is suspended." in text


def test_events_are_read_only_when_they_are_asked_for(workload):
    answer, source = workload()
    assert "show=events" in answer.text
    assert "events" not in [name for name, *_ in source.asked]


def test_events_are_listed_the_latest_first_with_what_is_left_out(workload):
    events = [
        BindingEvent("2026-02-03T04:05:06Z", "Warning", "ScheduleFailed", "0/3 fit", 12, "karmada-scheduler"),
        *(BindingEvent("2026-02-03T04:00:00Z", "Normal", "Moved", f"step {each}", 1, "b") for each in range(60)),
    ]
    answer, _ = workload("?show=events", events=BindingEvents(events, more=True))
    shown = answer.text
    assert shown.index("0/3 fit") < shown.index("step 0")
    assert "And 11 earlier ones." in shown
    assert "later ones may be missing" in shown


@cases(
    ("error", "text"),
    {
        "no control plane": (
            refused_question("the service watches no control plane, which has the events", 409),
            "he service watches no control plane",
        ),
        "no right of the visitor": (SourceError("You may not list the events of the namespace shop.", 403), "You may"),
        "no answer": (refused_question("the API server does not list the events: timed out", 503), "timed out"),
    },
)
def test_without_events_the_page_says_why(workload, error, text):
    answer, _ = workload("?show=events", events=error)
    assert "They are not known" in answer.text
    assert text in answer.text
