"""The search for expensive inputs finds squares, and accepts n log n."""

import json

import numpy as np
import pytest
from cost_growth import EMBEDDED, Cost, at, grown, levels, pairs, paths, too_fast
from counted_work import Counter, counted

SQUARES = {
    "a loop in a loop": "for a in x:\n  for b in x:\n   pass",
    "a search in a list": "for a in x:\n  a in x",
    "a count in a list": "for a in x:\n  x.count(a)",
    "an insertion at the start": "y = []\n for a in x:\n  y.insert(0, a)",
    "a set that is copied for each entry": "y = frozenset()\n for a in x:\n  y |= {a}",
    "a list that is copied for each entry": "y = []\n for a in x:\n  y = [*y, a]",
    "a map that is copied for each entry": "y = {}\n for a in x:\n  y = {**y, a: a}",
    "an array for each entry": "for a in x:\n  np.zeros(512 * len(x))",
    "a comprehension in a comprehension": "[[b for b in x] for a in x]",
    "a minimum for each entry": "for a in x:\n  min(x)",
    "a function with a loop for each entry": "f = lambda: [b for b in x]\n for a in x:\n  f()",
}
ACCEPTED = {
    "a loop": "for a in x:\n  pass",
    "a search in a set": "y = set(x)\n for a in x:\n  a in y",
    "n log n": "y = list(x)\n while y:\n  [b for b in x]\n  y = y[:len(y) // 2]",
    "constant work for each entry": "for a in x:\n  [b for b in range(100)]",
}


def findings(body):
    counter = Counter()
    names = {f"__{name}__": getattr(counter, name) for name in ("step", "sized", "copied", "searched")}
    exec(compile(counted(f"def work(x):\n {body}\n"), "work", "exec"), names := {**names, "np": np})  # noqa: S102
    costs = []
    for length in (32, 64, 128):
        before = counter.steps
        names["work"](list(range(length)))
        costs.append(Cost(counter.steps - before, 0))
    return list(too_fast("x", (), tuple(costs)))


@pytest.mark.parametrize("body", SQUARES.values(), ids=SQUARES)
def test_squares_are_found(body):
    assert [each.measure for each in findings(body)] == ["steps"]


@pytest.mark.parametrize("body", ACCEPTED.values(), ids=ACCEPTED)
def test_less_than_squares_is_accepted(body):
    assert findings(body) == []


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


@pytest.mark.parametrize("distinct", [True, False], ids=["distinct copies", "equal copies"])
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
