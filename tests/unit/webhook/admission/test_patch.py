import json

import jsonpatch
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.admission.patch import Draft, pointer

KEYS = st.sampled_from(["a", "b", "a/b", "~", "~1", "", "-"])
SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3))
DOCUMENTS = st.dictionaries(KEYS, VALUES, max_size=4)
PATHS = st.lists(KEYS, min_size=1, max_size=4)


def encoded(operations):
    return msgspec.json.encode(operations).decode()


def reachable(draft, path):
    """Return whether every parent on the path is an object or missing."""
    return all(isinstance(draft.get(*path[:depth]), dict | None) for depth in range(1, len(path)))


@given(DOCUMENTS, st.lists(st.tuples(st.sampled_from(["set", "append", "remove"]), PATHS, VALUES), max_size=6))
def test_the_patch_of_the_original_gives_the_draft_and_the_original_is_unchanged(original, changes):
    before = json.dumps(original)
    draft = Draft(original)
    for change, path, value in changes:
        if not reachable(draft, path):
            continue
        if change == "set":
            draft.set(value, *path)
        elif change == "append" and isinstance(draft.get(*path), list | None):
            draft.append(value, *path)
        elif change == "remove" and draft.get(*path[:-1]) is not None and path[-1] in draft.get(*path[:-1]):
            draft.remove(*path)
    assert json.dumps(original) == before
    assert jsonpatch.apply_patch(original, encoded(draft.operations)) == draft.document


def test_an_unchanged_draft_has_no_patch():
    assert Draft({"a": 1}).operations == ()


def test_one_operation_adds_all_missing_parents():
    draft = Draft({"metadata": {}})
    draft.set("v", "metadata", "labels", "example.org/x")
    assert encoded(draft.operations) == ('[{"op":"add","path":"/metadata/labels","value":{"example.org/x":"v"}}]')


def test_an_element_of_a_list_is_changed_in_place():
    draft = Draft({"list": [{"a": 1}, {"a": 2, "unknown": [None]}]})
    draft.set(3, "list", 1, "a")
    assert draft.document == {"list": [{"a": 1}, {"a": 3, "unknown": [None]}]}
    assert encoded(draft.operations) == '[{"op":"replace","path":"/list/1/a","value":3}]'


@pytest.mark.parametrize(
    ("tokens", "expected"), [(("a/b", "~"), "/a~1b/~0"), (("list", 0), "/list/0"), ((), ""), (("",), "/")]
)
def test_pointers_are_escaped(tokens, expected):
    assert pointer(tokens) == expected
