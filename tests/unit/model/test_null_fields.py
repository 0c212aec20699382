import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berthmaster.model.decode import MAX_NULL_FIELDS, without_null_fields

SCALARS = st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('a",:{}\\[] \n'), max_size=4)
DOCUMENTS = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from('ab"\\,:'), inner, max_size=4)
)


def pruned(raw):
    if isinstance(raw, dict):
        return {key: pruned(value) for key, value in raw.items() if value is not None}
    return [pruned(value) for value in raw] if isinstance(raw, list) else raw


@given(DOCUMENTS, st.sampled_from([None, 0, 2]))
def test_only_null_fields_of_objects_are_removed(raw, indent):
    document = json.dumps(raw, indent=indent).encode()
    assert msgspec.json.decode(without_null_fields(document)) == pruned(raw)


@pytest.mark.parametrize("strings", [999, 1000, 1001, 5000])
def test_null_fields_after_many_strings_are_removed(strings):
    raw = {**dict.fromkeys(map(str, range(strings)), 1), "a": None, "b": 1, "c": None}
    assert msgspec.json.decode(without_null_fields(json.dumps(raw).encode())) == pruned(raw)


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(b'{"a": null', id="an object that does not end"),
        pytest.param(b'"a": null', id="no object"),
        pytest.param(b'{"a: null}', id="a string that does not end"),
        pytest.param(b"\xff\xfe{", id="no text"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_text_that_is_not_json_stays_invalid(document):
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
        msgspec.json.decode(without_null_fields(document))


def test_the_number_of_removed_fields_is_bounded():
    field = b'"a":null,'
    assert without_null_fields(b"{" + field * MAX_NULL_FIELDS + b'"b":1}') == b'{"b":1}'
    assert without_null_fields(b"{" + field * (MAX_NULL_FIELDS + 1) + b'"b":1}') is None
