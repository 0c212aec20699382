import json
import tracemalloc

import jsonpatch
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import cases

from webhook.admission import json_patch
from webhook.admission.json_patch import Draft, pointer

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


ENTRIES = st.fixed_dictionaries({}, optional={"x": SCALARS, "y": SCALARS, "unknown": VALUES})


DEFAULTS = {"x": 1}


def missing_x(entry):
    return DEFAULTS if entry.get("x") is None else {}


@given(st.lists(ENTRIES, max_size=4), st.integers(0, 20), st.booleans())
def test_completed_lists_are_patched_exactly_and_once(entries, repeated, nested):
    original = {"spec": {"list": entries * repeated}} if nested else {"list": entries * repeated}
    path = ("spec", "list") if nested else ("list",)
    before = json.dumps(original)
    draft = Draft(original)
    draft.complete(missing_x, *path)
    assert json.dumps(original) == before
    assert jsonpatch.apply_patch(original, encoded(draft.operations)) == draft.document
    assert all(each["x"] is not None for each in draft.get(*path))
    again = Draft(draft.document)
    again.complete(missing_x, *path)
    assert again.operations == ()


def test_a_list_is_replaced_by_one_operation_if_that_is_smaller():
    draft = Draft({"list": [{} for _ in range(1000)]})
    draft.complete(missing_x, "list")
    assert [(each.op, each.path) for each in draft.operations] == [("replace", "/list")]
    long = Draft({"list": [{"y": "z" * 1000} for _ in range(16)]})
    long.complete(missing_x, "list")
    assert [each.path for each in long.operations] == [f"/list/{index}/x" for index in range(16)]


@cases(
    "entries",
    {"many entries that need a default": [{}] * 10_000, "long entries and many operations": [{"y": "z" * 100}] * 2500},
)
def test_the_patch_of_a_list_is_bounded(monkeypatch, entries):
    monkeypatch.setattr(json_patch, "MAX_PATCH_BYTES", 2**16)
    draft = Draft({"list": entries})
    tracemalloc.start()
    with pytest.raises(json_patch.PatchTooLargeError) as caught:
        draft.complete(missing_x, "list")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (caught.value.path, caught.value.objects) == ("list", len(entries))
    assert peak < 16 * json_patch.MAX_PATCH_BYTES


def test_memory_grows_in_proportion_to_the_list():
    def peak(count):
        document = {"list": [{} for _ in range(count)]}
        tracemalloc.start()
        Draft(document).complete(missing_x, "list")
        _, found = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return found

    assert peak(8000) < 2.5 * peak(4000)


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
