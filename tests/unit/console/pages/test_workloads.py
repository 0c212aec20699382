"""The page Workloads: rows, filters, order and pages."""

import re

import pytest
from console_answers import listed_workloads, workload_row
from tables import cases, data

from berthmaster.native_api.fleet import Restriction, SortKey, WorkloadQuery, WorkloadState
from console.pages.workloads import RESTRICTIONS, group_text, replicas_text, state_badge, suggestions

WORDS = data("console_words")


@pytest.mark.parametrize("state", WorkloadState)
def test_each_state_has_a_badge(state):
    kind, text = state_badge(workload_row(state=state))
    assert kind
    assert text


@cases(("fields", "text"), WORDS["replicas"])
def test_replicas_in_words(fields, text):
    assert replicas_text(workload_row(**fields)) == text


@cases(("fields", "text"), WORDS["group"])
def test_the_group_in_words(fields, text):
    assert group_text(workload_row(**fields)) == text


def test_many_clusters_are_cut(page):
    row = workload_row(clusters={f"c{number}": number for number in range(1, 8)})
    text = page("/workloads", workloads=listed_workloads(row))[0].text
    assert re.findall(r'href="/fleet/(c\d)">', text) == ["c7", "c6", "c5", "c4"]
    assert "and 3 more" in text


def test_a_cluster_scoped_workload_has_an_address(page):
    text = page("/workloads", workloads=listed_workloads(workload_row(namespace="")))[0].text
    assert 'href="/workloads/-/web-deployment"' in text
    assert "cluster-scoped" in text


@cases(
    ("fields", "marks"),
    {
        "not as wanted": (
            {"moving": True, "held_down": True, "preferred": False},
            ["moving", "held down", "not in its preferred group"],
        ),
        "not known": ({"preferred": None}, []),
    },
)
def test_marks_name_what_is_not_as_wanted(page, fields, marks):
    text = page("/workloads", workloads=listed_workloads(workload_row(**fields)))[0].text
    assert (
        re.findall(r"</span> ([^<]+)</span>", text.partition('data-label="State"')[2].partition("</td>")[0])[1:]
        == marks
    )


def test_all_restrictions_can_be_chosen():
    assert set(RESTRICTIONS) == set(Restriction)


def test_the_address_is_the_question(page):
    query = "q=web&namespace=shop&policy=p&cluster=b1&group=backup&only=moving&only=short,nowhere&sort=-replicas&page=3"
    query += "&parts=1"
    answer, source = page(f"/workloads?{query}", workloads=listed_workloads(workload_row()))
    assert answer.status_code == 200
    asked = source.asked[0][1][0]
    assert asked == WorkloadQuery(
        q="web", namespace="shop", policy="p", cluster="b1", group="backup", parts=True,
        only=frozenset({Restriction.MOVING, Restriction.SHORT, Restriction.NOWHERE}), sort=SortKey.REPLICAS,
        descending=True, offset=2 * asked.limit, limit=asked.limit,
    )  # fmt: skip


def test_pages_and_sort_links_keep_the_filters(page):
    found = listed_workloads(workload_row(), matched=120, total=500)
    text = page("/workloads?q=web&page=2", workloads=found)[0].text
    assert "/workloads?q=web&amp;page=3" in text
    assert "/workloads?q=web&amp;sort=replicas" in text
    assert "51–100 of 120" in text


@pytest.mark.parametrize(
    ("query", "found", "text"),
    [
        ("", {}, "There is no workload."),
        ("?q=x", {"total": 12}, "Clear the filters to see all 12."),
        ("?page=9", {"matched": 60, "total": 60}, "51–60 of 60"),
    ],
)
def test_an_empty_list_says_why(page, query, found, text):
    assert text in page(f"/workloads{query}", workloads=listed_workloads(**found))[0].text


def test_a_chosen_value_stays_in_the_suggestions():
    facets = listed_workloads(workload_row()).facets
    assert list(suggestions(facets.clusters, "rare")) == ["rare", "b1"]


def test_the_time_of_scheduling_is_an_age(page):
    found = listed_workloads(workload_row(), workload_row("new", last_scheduled_time=None))
    text = page("/workloads", workloads=found)[0].text
    assert "3 h ago" in text
    assert "not known" in text
    assert "never" not in text


def test_a_workload_without_clusters_and_time_was_never_scheduled(page):
    found = listed_workloads(workload_row("new", clusters={}, last_scheduled_time=None))
    assert "never" in page("/workloads", workloads=found)[0].text
