"""Decoding of manifests."""

import json
import string
import subprocess
import sys
import tracemalloc
from textwrap import dedent
from typing import Literal

import msgspec
import pytest
from builders import binding, cluster, policy
from hypothesis import given
from hypothesis import strategies as st
from tables import cases, data

from berthmaster.model.binding import Binding
from berthmaster.model.cluster import Cluster
from berthmaster.model.decode import REDECODED_BYTES, builtins, convert, decode_json, encode_json
from berthmaster.model.errors import FieldError
from berthmaster.model.json_text import CUT, MAX_NULL_FIELDS, without_deep_parts, without_null_fields
from berthmaster.model.placement import Placement
from berthmaster.model.policy import Policy
from berthmaster.model.unknown_fields import MAX_UNKNOWN_FIELDS, unknown_fields

ROWS = data("model/decode")
SELECTORS = [{"apiVersion": "apps/v1", "kind": "Deployment"}]


def cluster_with(**fields):
    return {"metadata": {"name": "member1"}, **fields}


def policy_with(metadata=None, **spec):
    return {
        "kind": "PropagationPolicy",
        "metadata": metadata or {"name": "p"},
        "spec": {"resourceSelectors": SELECTORS, **spec},
    }


@cases(("kind", "raw", "path", "problem"), ROWS["invalid values"])
def test_errors_name_the_path_the_value_and_the_accepted_values(kind, raw, path, problem):
    kind = {"Cluster": Cluster, "Policy": Policy}[kind]
    with pytest.raises(FieldError) as caught:
        convert(kind, raw)
    assert caught.value.path == path
    assert problem in caught.value.problem
    with pytest.raises(FieldError) as from_json:
        decode_json(kind, msgspec.json.encode(raw))
    assert str(from_json.value) == str(caught.value)


@pytest.mark.parametrize("document", [b"", b"{", b"{}x", b"\xff", b'{"kind": "\xff"}', b'{"a": NaN}'], ids=repr)
def test_invalid_json_is_an_error(document):
    with pytest.raises(FieldError, match="not valid JSON"):
        decode_json(Cluster, document)


@cases(
    "document",
    {
        "too deep to decode": b'{"x":' * 100_000,
        "too deep to convert": b'{"metadata": 1, "x": %b%b}' % (b"[" * 3000, b"]" * 3000),
    },
)
def test_extreme_nesting_is_rejected(document):
    with pytest.raises(FieldError, match="nested too deeply"):
        decode_json(Cluster, document)


def test_null_means_absent_everywhere():
    raw = policy_with(
        priority=None,
        placement={"clusterAffinity": None, "clusterAffinities": None, "spreadConstraints": None},
    )
    assert convert(Policy, raw) == convert(Policy, policy_with())
    assert decode_json(Policy, msgspec.json.encode(raw)) == convert(Policy, policy_with())


@pytest.mark.parametrize("mode", ["Immediately", "Graciously", "Directly", "Gracefully", "Never"])
def test_purge_modes_of_earlier_karmada_versions_are_accepted(mode):
    """Stored objects keep them: they were the default, and an upgrade does not rewrite objects."""
    failover = {"application": {"decisionConditions": {}, "purgeMode": mode}, "cluster": {"purgeMode": mode}}
    assert convert(Policy, policy_with(failover=failover)).spec.failover.application.purge_mode == mode
    tasks = [{"fromCluster": "member1", "producer": "x", "reason": "Y", "purgeMode": mode}]
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"resource": resource, "failover": failover, "gracefulEvictionTasks": tasks}
    bound = convert(Binding, {"metadata": {"name": "web-deployment"}, "spec": spec})
    assert bound.spec.failover.cluster.purge_mode == bound.spec.graceful_eviction_tasks[0].purge_mode == mode


def test_an_empty_list_of_groups_differs_from_an_absent_one():
    assert convert(Placement, {"clusterAffinities": []}).cluster_affinities == ()
    assert convert(Placement, {}).cluster_affinities is None


@cases(("raw", "errors"), ROWS["unknown fields"])
def test_unknown_fields(raw, errors):
    assert [str(error) for error in unknown_fields(Policy, raw)] == errors


NAMES = st.text(string.ascii_lowercase, min_size=1, max_size=5)
PLACEMENTS = st.builds(
    lambda **fields: convert(Placement, fields),
    clusterAffinity=st.none() | st.builds(lambda names: {"clusterNames": names}, st.lists(NAMES)),
    clusterAffinities=st.none() | st.lists(st.builds(lambda name: {"affinityName": name}, NAMES), max_size=3),
    spreadConstraints=st.lists(st.builds(lambda n: {"spreadByField": "region", "minGroups": n}, st.integers(1, 5))),
)
VALUES = st.one_of(
    st.builds(lambda name, region: cluster(name, region=region, cpu="500m", taints=["a=b:NoSchedule"]), NAMES, NAMES),
    st.builds(lambda name, placement: policy(name, placement=placement), NAMES, PLACEMENTS),
    st.builds(
        lambda name, clusters, placement: binding(name, clusters=clusters, requests={"cpu": 1}, placement=placement),
        NAMES,
        st.dictionaries(NAMES, st.integers(0, 9)),
        PLACEMENTS,
    ),
)


@given(VALUES)
def test_encoding_and_decoding_keeps_the_value(value):
    kind = type(value)
    assert decode_json(kind, encode_json(value)) == value
    assert convert(kind, builtins(value)) == value
    assert unknown_fields(kind, builtins(value)) == []


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4)
ANYTHING = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(st.text(max_size=3), SCALARS, max_size=2)


def somewhere(raw, data):
    """A container in a document and a key of it, drawn at random."""
    while True:
        key = data.draw(st.sampled_from(sorted(raw) if isinstance(raw, dict) else range(len(raw))))
        if not isinstance(raw[key], dict | list) or not raw[key] or data.draw(st.booleans()):
            return raw, key
        raw = raw[key]


def attempt(kind, raw):
    try:
        return convert(kind, raw)
    except FieldError as error:
        return error


@given(VALUES, st.data())
def test_any_document_is_a_value_or_an_error_with_its_path(value, data):
    raw = builtins(value)
    container, key = somewhere(raw, data)
    container[key] = data.draw(ANYTHING)
    outcome = attempt(type(value), raw)
    assert isinstance(outcome, type(value)) or (outcome.problem and "\n" not in str(outcome))


LOCATION = "x - at `$.spec.clusters[7]`"


@cases("size", {"small": 0, "large": REDECODED_BYTES})
@cases(
    ("kind", "raw", "path"),
    {
        "a value that is not accepted": (Policy, policy_with(preemption=LOCATION), "spec.preemption"),
        "the document itself": (Literal["a"], LOCATION, ""),
        "a value of a custom type": (
            Cluster,
            cluster_with(spec={"resourceModels": [{"grade": 1, "ranges": [{"name": "cpu", "min": LOCATION}]}]}),
            "spec.resourceModels[0].ranges[0].min",
        ),
    },
)
def test_a_value_that_reads_like_a_location_is_no_location(kind, raw, path, size):
    document = msgspec.json.encode(raw) + b" " * size
    with pytest.raises(FieldError) as caught:
        decode_json(kind, document)
    assert caught.value.path == path


BIG = {"x": ["y" * 1024] * 1024}


@cases(("raw", "message"), ROWS["invalid values of large documents"])
def test_errors_of_large_documents_have_a_path(raw, message):
    with pytest.raises(FieldError) as caught:
        decode_json(Cluster, msgspec.json.encode({**raw, **BIG}))
    assert str(caught.value).startswith(message)


def test_null_means_absent_in_large_documents():
    raw = {**policy_with(priority=None, placement={"clusterAffinity": None, "clusterAffinities": None}), **BIG}
    assert decode_json(Policy, msgspec.json.encode(raw)) == convert(Policy, policy_with())
    with pytest.raises(FieldError, match=r"spec\.resourceSelectors: is missing or null"):
        decode_json(Policy, msgspec.json.encode({**raw, "spec": {"resourceSelectors": None}}))
    many = b'{"kind":null,%b"spec":{}}' % (b'"a":null,' * 200_000)
    with pytest.raises(FieldError, match="null fields; remove them"):
        decode_json(Policy, many)


@cases(
    ("spec", "message"),
    {
        "misspelled": (
            {"resourceSelector": []}, "is missing or null; did you mean resourceSelectors instead of resourceSelector?",
        ),
        "not there": ({"placement": {}}, "is missing or null"),
        "null": ({"resourceSelectors": None}, "is missing or null"),
    },
)  # fmt: skip
def test_the_error_of_a_missing_field_names_its_misspelled_neighbour(spec, message):
    raw = {**policy_with(), "spec": spec}
    with pytest.raises(FieldError) as caught:
        decode_json(Policy, msgspec.json.encode(raw))
    assert str(caught.value) == f"spec.resourceSelectors: {message}"


@pytest.mark.parametrize("start", ['{"x":[', '{"kind":7,"x":[', '{"kind":null,"x":['], ids=repr)
def test_an_invalid_document_costs_at_most_a_small_multiple_of_its_size(start):
    document = start.encode() + b"{}," * 10**6 + b"{}]}"
    tracemalloc.start()
    with pytest.raises(FieldError):
        decode_json(Policy, document)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * len(document)


def test_the_list_of_unknown_fields_is_bounded():
    errors = unknown_fields(Policy, policy_with(**{f"field{index}": 1 for index in range(1000)}))
    assert len(errors) == MAX_UNKNOWN_FIELDS + 1
    assert errors[0].path == "spec.field0"
    assert str(errors[-1]) == "and 950 more unknown fields"


def test_placements_are_hashable():
    selector = {"matchLabels": {"a": "1", "b": "2"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]}
    turned = {**selector, "matchLabels": {"b": "2", "a": "1"}}
    one, same, other = (
        convert(Placement, {"clusterAffinity": {"labelSelector": each}}) for each in (selector, turned, {})
    )
    assert {one: "one", other: "other"}[same] == "one"


@cases(
    "use",
    {
        "a document": """decode_json(Outer, b'{"inner": {"value": 1}}')""",
        "decoded JSON": """convert(Outer, {"inner": {"value": 1}})""",
    },
)
def test_two_threads_decode_a_new_type_at_once(use):
    # In a child process: an incomplete type causes SIGSEGV, not an exception.
    program = f"""
        import threading
        from msgspec import Struct
        from berthmaster.model.decode import convert, decode_json

        reading, other_is_done = threading.Event(), threading.Event()

        def annotation():
            reading.set()
            other_is_done.wait(0.3)
            return int

        class Inner(Struct):
            value: "annotation()"

        class Outer(Struct):
            inner: Inner

        values = []
        first = threading.Thread(target=lambda: values.append({use}))
        first.start()
        assert reading.wait(30)
        values.append({use})
        other_is_done.set()
        first.join()
        assert values == [Outer(Inner(1))] * 2
    """
    command = [sys.executable, "-c", dedent(program)]
    child = subprocess.run(command, capture_output=True, timeout=60, check=False)  # noqa: S603 - ours
    assert (child.returncode, child.stderr) == (0, b"")


NULL_FIELDS_SCALARS = st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('a",:{}\\[] \n'), max_size=4)
DOCUMENTS = st.recursive(
    NULL_FIELDS_SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from('ab"\\,:'), inner, max_size=4),
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


@cases(
    "document",
    {
        "an object that does not end": b'{"a": null',
        "no object": b'"a": null',
        "a string that does not end": b'{"a: null}',
        "no text": b"\xff\xfe{",
        "nothing": b"",
    },
)
def test_text_that_is_not_json_stays_invalid(document):
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
        msgspec.json.decode(without_null_fields(document))


def test_the_number_of_removed_fields_is_bounded():
    field = b'"a":null,'
    assert without_null_fields(b"{" + field * MAX_NULL_FIELDS + b'"b":1}') == b'{"b":1}'
    assert without_null_fields(b"{" + field * (MAX_NULL_FIELDS + 1) + b'"b":1}') is None


TREES = st.recursive(
    st.none() | st.integers() | st.text('ab"\\[]{},: \t'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('a"\\[{', max_size=3), inner, max_size=3),
)


def shallow(value, depth):
    if isinstance(value, list):
        return [shallow(each, depth - 1) for each in value] if depth else None
    if isinstance(value, dict):
        return {key: shallow(each, depth - 1) for key, each in value.items()} if depth else None
    return value


@given(TREES, st.integers(1, 4))
def test_deep_parts_become_null_and_nothing_else_changes(value, depth):
    text = json.dumps(value).encode()
    cut = without_deep_parts(text, depth)
    assert json.loads(cut) == shallow(value, depth)
    assert (CUT in cut) == (cut != text)


def is_json(text):
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@given(st.binary(max_size=60) | st.text('ab"\\[]{},:').map(str.encode))
def test_text_that_is_no_json_stays_so(text):
    assert is_json(without_deep_parts(text, 100)) == is_json(text)
