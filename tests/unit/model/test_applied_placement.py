"""The placement of the last scheduling."""

from typing import Any

from builders import binding, placement
from tables import cases

from berthmaster.model.applied_placement import decoded_placement, encoded_placement, without_empty_groups
from berthmaster.model.binding import APPLIED_PLACEMENT
from berthmaster.simulation.plan_rows import changed_parts


@cases(
    ("given", "text"),
    {
        "an empty placement is an empty object": ({}, "{}"),
        "characters that Go escapes": (
            {"clusterAffinity": {"clusterNames": ["a<b>&c\u2028\u2029é"]}},
            '{"clusterAffinity":{"clusterNames":["a\\u003cb\\u003e\\u0026c\\u2028\\u2029é"]}}',
        ),
        "keys in the order of Karmada's type": (
            {"clusterTolerations": [{"operator": "Exists"}], "clusterAffinity": {"clusterNames": ["m1"]}},
            '{"clusterAffinity":{"clusterNames":["m1"]},"clusterTolerations":[{"operator":"Exists"}]}',
        ),
        "a group starts with its name": (
            {
                "clusterAffinities": [
                    {
                        "clusterNames": ["m1"],
                        "affinityName": "a",
                        "overflowAffinities": [{"exclude": ["m2"], "affinityName": "o"}],
                    },
                    {"affinityName": "b", "overflowAffinities": []},
                ],
                "spreadConstraints": [{"maxGroups": 2, "minGroups": 1, "spreadByField": "cluster"}],
            },
            (
                '{"clusterAffinities":[{"affinityName":"a","clusterNames":["m1"],"overflowAffinities":'
                '[{"affinityName":"o","exclude":["m2"]}]},{"affinityName":"b"}],'
                '"spreadConstraints":[{"spreadByField":"cluster","maxGroups":2,"minGroups":1}]}'
            ),
        ),
        "an empty list of groups is omitted": ({"clusterAffinities": []}, "{}"),
    },
)
def test_the_applied_placement_equals_karmadas(given: dict[str, Any], text: str):
    written = placement(**given)
    assert encoded_placement(written) == text
    assert decoded_placement(text) == without_empty_groups(written)


def test_an_invalid_applied_placement_is_none():
    assert decoded_placement('{"clusterAffinity":[]}') is None


def test_an_empty_list_of_overflow_is_no_change_of_the_applied_placement():
    asked = placement(clusterAffinities=[{"affinityName": "a", "overflowAffinities": []}])
    placed = binding(placement=asked, annotations={APPLIED_PLACEMENT: encoded_placement(asked)})
    assert changed_parts(placed, placed) == []
