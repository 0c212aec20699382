"""The search for expensive inputs finds squares, and accepts n log n."""

import json
from itertools import repeat

import pytest
from cost_growth import EMBEDDED, Case, at, grown, growth, levels, pairs, paths
from tables import cases

LENGTH = 700
WORK = {
    "a loop in a loop": ("microseconds", lambda names: [None for _ in names for _ in names]),
    "a search in a list": ("microseconds", lambda names: [each for each in names if names.count(each) > 1]),
    "a set that is copied for each entry": ("microseconds", lambda names: sum(len({*names}) for _ in names[::2])),
    "all pairs are kept": ("bytes", lambda names: [(each, other) for each in names for other in names[::20]]),
    "a loop": (None, lambda names: [f"{each}-{each}" for _ in range(200) for each in names]),
    "n log n": (None, lambda names: [sorted(names, key=str.swapcase) for _ in range(150)]),
    "constant work": (None, lambda _: sum(repeat(1, 9_000_000))),
}


@cases(("measure", "work"), WORK)
def test_squares_are_found_and_less_is_accepted(measure, work):
    def prepare(names):
        return lambda: work(names)

    found = growth(["name-0"], prepare, Case(((),)), LENGTH)
    assert measure in found if measure else not found


DOCUMENT = {
    "names": ["name-0"], "labels": {"key-0": "value-0"}, "fixed": {"number": 1},
    "groups": [{"name": "group-0", "values": ["value-0", 3]}],
    "annotation": json.dumps([{"group": "group-0"}]),
}  # fmt: skip


def test_every_list_map_and_text_grows():
    found = {tuple(path) for path in paths(DOCUMENT)}
    assert found >= {("names",), ("labels",), ("groups",), ("groups", 0, "values"), ("annotation", EMBEDDED)}
    assert ("fixed",) not in found
    assert ("annotation", EMBEDDED, 0, "group") in found


@cases("distinct", {"distinct copies": True, "equal copies": False})
@pytest.mark.parametrize("path", [path for path in paths(DOCUMENT) if not isinstance(at(DOCUMENT, path), str)], ids=str)
def test_a_grown_part_has_the_length_and_the_rest_stays(path, distinct):
    larger = grown(DOCUMENT, path, 40, distinct=distinct)
    assert len(at(larger, path)) == 40
    others = [each for each in DOCUMENT if each != path[0]]
    assert [larger[each] for each in others] == [DOCUMENT[each] for each in others]


def test_copies_have_the_same_number_in_all_their_names():
    larger = grown(grown(DOCUMENT, ("names",), 3, distinct=True), ("groups",), 3, distinct=True)
    assert larger["names"] == ["name-0", "name-1", "name-2"]
    assert larger["groups"][2] == {"name": "group-2", "values": ["value-2", 3]}


def test_parts_that_grow_together_do_not_contain_each_other():
    together = [case.where for case in (*levels(DOCUMENT), *pairs(DOCUMENT))]
    assert {("names",), ("labels",), ("groups",), ("annotation", EMBEDDED)} in map(set, together)
    assert (("groups",), ("groups", 0, "values")) not in together
