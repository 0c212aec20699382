import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tables import cases

from berthmaster.manifests import ManifestLimits
from berthmaster.manifests.yaml_reader import plain_scalar, read_yaml, tagged_scalar
from berthmaster.model.errors import InputError, ManifestError

# The JSON value to which sigs.k8s.io/yaml v1.4.0 converts each scalar.
PLAIN = [
    ("y", True), ("Y", True), ("yes", True), ("Yes", True), ("on", True), ("On", True), ("true", True), ("TRUE", True),
    ("n", False), ("no", False), ("off", False), ("OFF", False), ("False", False),
    ("yEs", "yEs"), ("tRue", "tRue"), ("yy", "yy"), ("nginx", "nginx"), ("oN", "oN"),
    ("", None), ("~", None), ("null", None), ("Null", None), ("NULL", None), ("nUll", "nUll"),
    ("0", 0), ("1", 1), ("+1", 1), ("-1", -1), ("-0", 0), ("00", 0), ("08", 8), ("1_000", 1000), ("1__0", 10),
    ("1_", 1), ("_1", "_1"), ("0777", 511), ("0o17", 15), ("0O17", 15), ("-0o17", -15), ("0_7", 7),
    ("0x1F", 31), ("-0x1F", -31), ("+0x1F", 31), ("0X1f", 31), ("0b101", 5), ("-0b101", -5), ("0B1", 1),
    ("0b12", "0b12"),
    ("9223372036854775807", 2**63 - 1), ("18446744073709551615", 2**64 - 1), ("-9223372036854775808", -(2**63)),
    ("1e3", 1000), ("1E3", 1000), ("1e+3", 1000), ("12e03", 12000), ("+12e3", 12000), ("1e-3", 0.001), ("1e21", 1e21),
    ("1.", 1), (".5", 0.5), ("-.5", -0.5), ("+.5", 0.5), ("1.5e3", 1500), ("1.0", 1), ("0.1", 0.1), ("1_000.5", 1000.5),
    ("1._5", 1.5), ("123456789.5", 123456789.5), ("1e400", "1e400"),
    (".", "."), ("-", "-"), ("+", "+"), ("1.2.3", "1.2.3"), ("1:30", "1:30"), ("190:20:30.15", "190:20:30.15"),
    ("v1", "v1"), ("1Gi", "1Gi"), ("100m", "100m"), ("=", "="), ("...", "..."), ("٣", "٣"),
    ("2026-01-01", "2026-01-01"), ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), PLAIN, ids=[repr(text) for text, _ in PLAIN])
def test_plain_scalars_have_the_value_that_kubectl_reads(text, value):
    read = plain_scalar(text)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize("text", [".inf", "-.inf", "+.Inf", ".INF", ".nan", ".NaN"])
def test_numbers_without_a_json_form_are_rejected(text):
    with pytest.raises(InputError, match="has no JSON form"):
        plain_scalar(text)


@pytest.mark.parametrize("digits", [71, 5000, 100_000], ids=str)
def test_very_long_digits_are_a_float_or_text(digits):
    read = plain_scalar("1" * digits)
    assert isinstance(read, float if digits < 300 else str)


@pytest.mark.parametrize(
    ("tag", "text", "value"),
    [
        ("!!str", "1", "1"), ("!!str", "", ""), ("!!timestamp", "2026-01-01", "2026-01-01"), ("!", "1", "1"),
        ("!!int", "0x1F", 31), ("!!float", "1", 1), ("!!float", "1.5", 1.5), ("!!bool", "yes", True),
        ("!!null", "", None),
    ],
)  # fmt: skip
def test_tags_define_the_type_of_a_scalar(tag, text, value):
    assert tagged_scalar(tag.replace("!!", "tag:yaml.org,2002:"), text) == value


@pytest.mark.parametrize(
    ("tag", "text"),
    [
        ("!!int", "x"), ("!!int", "true"), ("!!int", "1.5"), ("!!bool", "1"), ("!!null", "x"), ("!!float", "yes"),
        ("!!python/name:os.system", ""), ("!!binary", "aGk="), ("!custom", "x"), ("str", "x"),
    ],
)  # fmt: skip
def test_mismatching_and_unknown_tags_are_rejected(tag, text):
    with pytest.raises(InputError, match=r"is not a !!|is not accepted"):
        tagged_scalar(tag.replace("!!", "tag:yaml.org,2002:"), text)


def read(text, **limits):
    return [document for _, document in read_yaml(text.encode(), "f.yaml", ManifestLimits(**limits))]


@cases(
    ("text", "documents"),
    {
        "nothing": ("", []),
        "only a comment": ("# only a comment\n", []),
        "two documents": ("a: 1\n---\nb: 2\n", [{"a": 1}, {"b": 2}]),
        "an empty document": ("---\n---\na: 1\n...\n", [None, {"a": 1}]),
        "flow style": ("a: [1, {b: c}]", [{"a": [1, {"b": "c"}]}]),
        "quoted scalars are text": ("a: '1'\nb: \"yes\"\nc: |\n  2\n", [{"a": "1", "b": "yes", "c": "2\n"}]),
        "an absent value is null, quotes are empty text": ("a:\nb: ''", [{"a": None, "b": ""}]),
        "keys become text": ("1: a\ntrue: b\n1.5: c", [{"1": "a", "true": "b", "1.5": "c"}]),
        "a key that is a boolean in YAML 1.1 becomes text": ("on: push", [{"true": "push"}]),
        "an alias": ("a: &x {b: [1]}\nc: *x", [{"a": {"b": [1]}, "c": {"b": [1]}}]),
        "the last anchor of a name applies": ("a: &x 1\nb: &x 2\nc: *x", [{"a": 1, "b": 2, "c": 2}]),
        "a key with an anchor": ("&k a: 1\nb: *k", [{"a": 1, "b": "a"}]),
        "a merge": ("b: &b {x: 1, z: 1}\nc:\n  <<: *b\n  x: 2", [{"b": {"x": 1, "z": 1}, "c": {"x": 2, "z": 1}}]),
        "the first of several merged mappings wins": ("c: {<<: [{x: 1}, {x: 2, z: 2}]}", [{"c": {"x": 1, "z": 2}}]),
        "a merge overwrites keys above it, as in go-yaml": ("c:\n  x: 2\n  <<: {x: 1}", [{"c": {"x": 1}}]),
        "a quoted merge key is an ordinary key": ('"<<": {x: 1}', [{"<<": {"x": 1}}]),
        "a merge key as a value is text": ("a: <<", [{"a": "<<"}]),
        "a byte order mark": ("\ufeffa: 1", [{"a": 1}]),
        "a tag": ("a: !!str 1", [{"a": "1"}]),
    },
)
def test_reads_yaml_as_kubectl_does(text, documents):
    assert read(text) == documents


@cases(
    ("text", "message"),
    {
        "a duplicate key": ("a: 1\nb: 2\na: 3", "document 1: line 3, column 1: duplicate key 'a'"),
        "a duplicate key in flow style": ("x: {a: 1, 'a': 2}", "document 1: line 1, column 11: duplicate key 'a'"),
        "a number and its text": ("1: a\n'1': b", "document 1: line 2, column 1: duplicate key '1'"),
        "an open list": ("a: 1\n---\nb: [1", "document 2: line 4, column 1: did not find expected"),
        "two colons": ("a: b: c", "document 1: line 1, column 5: mapping values are not allowed"),
        "a tab": ("a: 1\n\tb: 2", "document 1: line 2, column 1: found a tab character that violates"),
        "an unknown alias": ("a: *x", "document 1: line 1, column 4: unknown alias 'x'"),
        "an alias of itself": (
            "a: &x [*x]",
            "document 1: line 1, column 8: alias 'x' refers to a value that contains it",
        ),
        "an alias of another document": ("a: &x 1\n---\nb: *x", "document 2: line 3, column 4: unknown alias 'x'"),
        "a list for a key": ("? [a]\n: b", "document 1: line 1, column 3: a key must be a scalar"),
        "null for a key": ("~: b", "document 1: line 1, column 1: a key must be a string"),
        "an alias of a list for a key": (
            "k: &l [a]\n? *l\n: b",
            "document 1: line 2, column 3: a key must be a string",
        ),
        "a merge of a number": ("<<: 1", "document 1: line 1, column 5: << needs a mapping"),
        "not a number": ("a: .nan", "document 1: line 1, column 4: .nan has no JSON form"),
        "a Python object": ("a: !!python/object/apply:os.system [x]", "document 1: line 1, column 4: tag"),
        "a Python name": ("a: !!python/name:os.system ''", "document 1: line 1, column 4: tag"),
        "a character that YAML does not allow": ("a: \x00", "not valid YAML: "),
    },
)
def test_errors_name_document_line_and_column(text, message):
    with pytest.raises(ManifestError) as caught:
        read(text)
    assert str(caught.value).startswith(f"f.yaml: {message}")
    assert "\n" not in str(caught.value)


def test_bytes_that_are_not_text_are_rejected():
    with pytest.raises(ManifestError, match=r"^f\.yaml: not valid YAML"):
        list(read_yaml(b"a: \xff\xfe\xfd", "f.yaml", ManifestLimits()))


def test_documents_before_an_invalid_one_are_read():
    documents = read_yaml(b"a: 1\n---\n]", "f.yaml", ManifestLimits())
    assert next(documents) == (1, {"a": 1})
    with pytest.raises(ManifestError, match="document 2"):
        next(documents)


@cases(
    "lines",
    {
        "nested": [
            "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]",
            *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)),
        ],
        "merged": [
            f"a0: &a0 {{{', '.join(f'k{n}: 1' for n in range(500))}}}", *(f"b{n}: {{<<: *a0}}" for n in range(300)),
        ],
    },
)  # fmt: skip
def test_aliases_are_bounded(lines):
    with pytest.raises(ManifestError, match="aliases expand to more than 100000 values"):
        read("\n".join(lines))


def test_the_depth_of_nested_aliases_is_bounded():
    lines = ["a0: &a0 " + "[" * 90 + "]" * 90]
    lines += [f"a{n}: &a{n} {'[' * 90}*a{n - 1}{']' * 90}" for n in range(1, 30)]
    with pytest.raises(ManifestError, match="document 1: line 2, column 99: nested more than 100 levels deep"):
        read("\n".join(lines))


def test_an_alias_of_a_merge_key_is_its_text():
    assert read("{&m <<: {a: 1}, c: *m}") == [{"a": 1, "c": "<<"}]


def test_aliases_are_independent_copies():
    (document,) = read("a: &x [1]\nb: *x\nc: *x")
    document["b"].append(2)
    assert document == {"a": [1], "b": [1, 2], "c": [1]}


@cases("text", {"lists": "[" * 6 + "]" * 6, "mappings": "a: {b: {c: {d: {e: {f: 1}}}}}"})
def test_nesting_is_bounded(text):
    with pytest.raises(ManifestError, match="nested more than 5 levels deep"):
        read(text, depth=5)
    assert read(text, depth=6)


def test_extreme_nesting_is_rejected():
    with pytest.raises(ManifestError, match=r"nested more than 100 levels deep|nesting"):
        read("[" * 100_000)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcyn01.~", max_size=4), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_json_read_as_yaml_has_the_same_value(value):
    assert read(json.dumps(value, ensure_ascii=False)) == [value]


@given(JSON)
def test_quoted_yaml_is_read_back_unchanged(value):
    assert read(yaml.safe_dump(value, default_style='"')) == [value]
