"""What validation finds: errors, gaps, and what Berthmaster does not support."""

import json
import re

import msgspec
import pytest
from builders import binding, cluster, placement, policy, selector
from hypothesis import given
from hypothesis import strategies as st
from tables import cases, data

from berthmaster.model.binding import Binding, Component
from berthmaster.model.cluster import ResourceModel, ResourceModelRange
from berthmaster.model.decode import convert, decode_json, encode_json
from berthmaster.model.errors import (
    MAX_MESSAGE_LENGTH,
    ApiError,
    BerthmasterError,
    FieldError,
    InputError,
    ManifestError,
    printable,
    shown,
)
from berthmaster.model.gaps import Gap, GapKind, texts
from berthmaster.model.placement import Placement
from berthmaster.model.quantity import Quantity
from berthmaster.model.readers import ANY_READER, NO_NAMES, Reader, reader_about
from berthmaster.model.replicas import ReplicaRequirements
from berthmaster.model.shared_parts import SharingReader
from berthmaster.model.unknown_fields import has_unknown_fields, unknown_fields
from berthmaster.model.unsupported_placement import (
    checked_placement,
    decode_checked_policy,
    decode_held_binding,
    placement_text,
    unsupported_message,
    unsupported_parts,
)
from berthmaster.model.validation import binding_errors, cluster_errors, policy_errors

ROWS = data("model/validation")
WRONG = ROWS["wrong"]
SAID = "matchExpressions[1].operator: unknown operator 'Equals'; accepted are In, NotIn, Exists, DoesNotExist"


@cases(("written", "path"), ROWS["invalid selectors of placements"])
def test_invalid_selectors_of_placements(written, path):
    (error,) = policy_errors(policy(placement=placement(**written)))
    assert str(error) == f"spec.placement.{path}.labelSelector.{SAID}"


def test_invalid_resource_selectors():
    (error,) = policy_errors(policy(selectors=[selector(), selector(labelSelector=WRONG)]))
    assert str(error) == f"spec.resourceSelectors[1].labelSelector.{SAID}"


def test_a_policy_must_have_a_selector():
    (error,) = policy_errors(policy(selectors=[]))
    assert str(error) == "spec.resourceSelectors: is empty; accepted are one or more selectors"


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"a b": "c"}, "matchLabels[a b]: 'a b' is not a label key"),
        ({"ok": "c", "env": "not valid"}, "matchLabels[env]: 'not valid' is not a label value"),
    ],
)
def test_invalid_labels(labels, message):
    (error,) = policy_errors(policy(selectors=[selector(labelSelector={"matchLabels": labels})]))
    assert str(error) == f"spec.resourceSelectors[0].labelSelector.{message}"


@cases(
    ("expression", "problem"),
    {
        "a region": ({"key": "region", "operator": "In", "values": ["a"]}, None),
        "a zone of any text": ({"key": "zone", "operator": "In", "values": ["a zone"]}, None),
        "a bad operator": ({"key": "region", "operator": "Is"}, "operator: unknown operator 'Is'"),
        "an order of zones": ({"key": "zone", "operator": "Gt", "values": ["1"]}, "operator: unknown"),
        "no values": ({"key": "region", "operator": "In"}, "values: operator In needs"),
    },
)
def test_field_selectors(expression, problem):
    affinity = {"fieldSelector": {"matchExpressions": [expression]}}
    errors = [
        str(error) for error in policy_errors(policy(placement=convert(Placement, {"clusterAffinity": affinity})))
    ]
    if problem is None:
        assert errors == []
    else:
        (message,) = errors
        assert message.startswith(f"spec.placement.clusterAffinity.fieldSelector.matchExpressions[0].{problem}")


def test_negative_amounts_of_a_cluster():
    negative = cluster(cpu="-1", allocated={"memory": "-1Mi", "cpu": 0})
    assert [str(error) for error in cluster_errors(negative)] == [
        "status.resourceSummary.allocatable[cpu]: '-1' is negative; accepted are quantities of 0 and more",
        "status.resourceSummary.allocated[memory]: '-1Mi' is negative; accepted are quantities of 0 and more",
    ]


def test_negative_ranges_of_resource_models():
    below, above = Quantity.parse("-1"), Quantity.parse("1")
    model = ResourceModel(
        grade=0, ranges=(ResourceModelRange("cpu", above, above), ResourceModelRange("cpu", below, below))
    )
    raw = cluster()
    spec = msgspec.structs.replace(raw.spec, resource_models=(model,))
    paths = [error.path for error in cluster_errors(msgspec.structs.replace(raw, spec=spec))]
    assert paths == ["spec.resourceModels[0].ranges[1].min", "spec.resourceModels[0].ranges[1].max"]


def test_negative_requests_of_a_binding():
    component = Component(
        name="worker", replicas=1, replica_requirements=ReplicaRequirements({"cpu": Quantity.parse("-2")})
    )
    negative = binding(requests={"cpu": "-1"}, components=(component,))
    assert [error.path for error in binding_errors(negative)] == [
        "spec.replicaRequirements.resourceRequest[cpu]",
        "spec.components[0].replicaRequirements.resourceRequest[cpu]",
    ]


TEXTS = st.text(st.characters(), max_size=12)  # with control characters and lone surrogates


@given(TEXTS, TEXTS)
def test_messages_are_one_printable_line_of_any_text(one, other):
    for error in (
        InputError(one),
        FieldError(one, other).below(other),
        ManifestError(one, 1, other, other),
        ApiError(500, "", one),
    ):
        assert str(error).isprintable()
        str(error).encode()
    assert printable(printable(one)) == printable(one)
    assert shown(one).isprintable()


@cases(
    ("text", "shown_text"),
    {
        "plain text": ("plain", "plain"),
        "printable letters of any script": ("größe: 5 µs … ok", "größe: 5 µs … ok"),
        "line ends and tabs": ("a\nb\tc\r", "a\\nb\\tc\\r"),
        "escape sequences in both forms": ("\x1b[31mred\x9b1m", "\\x1b[31mred\\x9b1m"),
        "characters that reorder or hide text": ("a\u202eb\u200b", "a\\u202eb\\u200b"),
        "lone surrogates": ("\udc80\ud800", "\ufffd\ufffd"),
    },
)
def test_printable_text(text, shown_text):
    assert printable(text) == str(BerthmasterError(text)) == shown_text


def test_long_messages_are_cut():
    assert len(str(FieldError("p" * 10_000, "x" * 10_000))) == MAX_MESSAGE_LENGTH
    assert len(FieldError("p" * 10_000, "x").path) == 512
    assert shown("x" * 10_000).endswith("…")
    assert len(shown("x" * 10_000)) == 80


MINE, THEIRS, WIDE = "shop/Deployment/web", "vault/Deployment/secret", "ClusterRole/secret"
SHOP = Reader(frozenset({"shop"}))
FACTS = dict.fromkeys(
    [
        "text", "verb", "type", "kind", "api_version", "error", "number", "limit", "problem", "policy", "objects",
        "pause", "name", "object",
    ],
    "x",
)  # fmt: skip


@cases(("gap", "everyone", "of_shop"), ROWS["sentences of gaps"])
def test_what_a_gap_says(gap, everyone, of_shop):
    gap = convert(Gap, gap)
    assert (gap.text(ANY_READER), gap.text(SHOP)) == (everyone, of_shop)


def test_equal_sentences_are_said_once():
    hidden = [Gap(GapKind.DEPENDENCIES, (f"vault/Deployment/{each}",)) for each in range(3)]
    assert len(texts(hidden, SHOP)) == 1


@pytest.mark.parametrize("kind", GapKind)
def test_each_kind_has_a_sentence(kind):
    found = Gap(kind, (MINE,), FACTS).text(ANY_READER)
    assert found
    assert not re.search(r"[{}]", found)


@given(
    st.sampled_from([GapKind.INVALID_OBJECT, GapKind.DEPENDENCIES]),
    st.lists(st.sampled_from([MINE, THEIRS, WIDE]), max_size=12),
)
def test_no_gap_names_what_its_reader_may_not_see(kind, names):
    for about in (tuple(names), None):
        assert "secret" not in Gap(kind, about, {"error": ", ".join(names)}).text(SHOP)


@cases(
    ("reader", "seen"),
    {
        "of all namespaces": (ANY_READER, [MINE, THEIRS, WIDE]),
        "of one namespace": (SHOP, [MINE]),
        "of one namespace and of cluster-scoped objects": (Reader(frozenset({"shop", "-"})), [MINE, WIDE]),
        "of an answer about one object": (reader_about("vault"), [THEIRS]),
        "of an answer about one cluster-scoped object": (reader_about(""), [WIDE]),
        "of no namespace": (NO_NAMES, []),
    },
)
def test_resources_that_a_reader_may_see(reader, seen):
    assert reader.seen([MINE, THEIRS, WIDE]) == seen


@pytest.mark.parametrize(
    ("reference", "sees"),
    [
        ("PropagationPolicy shop/web", True), ("shop/web", True), ("PropagationPolicy vault/web", False),
        ("ClusterPropagationPolicy shop", False), ("web", False),
    ],
)  # fmt: skip
def test_policies_that_a_reader_may_see(reference, sees):
    assert SHOP.sees_policy(reference) is sees
    assert ANY_READER.sees_policy(reference)


RESOURCE = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "ns"}


@cases(("raw", "paths"), ROWS["unknown fields of a placement"])
def test_unknown_fields_of_a_placement(raw, paths):
    checked = checked_placement(convert(Placement, raw), raw)
    assert [part.partition(": ")[0] for part in unsupported_parts(checked)] == [
        f"spec.placement.{each}" for each in paths
    ]


def test_the_known_parts_of_an_unsupported_placement_stay():
    raw = {"clusterAffinity": {"clusterNames": ["a"]}, "racks": 1}
    checked = checked_placement(convert(Placement, raw), raw)
    assert checked.cluster_affinity == convert(Placement, raw).cluster_affinity


@pytest.mark.parametrize(
    "raw", [{}, {"clusterAffinity": {"racks": 1}}, {"spreadConstraints": [{}, {"racks": 1}]}, {"racks": {}}]
)
def test_the_quick_check_agrees_with_the_report(raw):
    assert has_unknown_fields(Placement, raw) == bool(unknown_fields(Placement, raw))


@cases(
    ("spec", "text"),
    {
        "a placement": ({"resource": RESOURCE, "placement": {"a": 1}}, b'{"a": 1}'),
        "null": ({"resource": RESOURCE, "placement": None}, b"null"),
        "no placement": ({"resource": RESOURCE}, b"null"),
        "no spec": (None, b"null"),
    },
)
def test_the_text_of_a_placement(spec, text):
    assert placement_text(json.dumps({"metadata": {}, "spec": spec}).encode()) == text


def binding_of_unsupported(**placement) -> bytes:
    return json.dumps({"metadata": {"name": "web"}, "spec": {"resource": RESOURCE, "placement": placement}}).encode()


def test_a_binding_with_an_unknown_value_in_its_placement_is_decoded_without_it():
    held = decode_held_binding(binding_of_unsupported(replicaScheduling={"replicaDivisionPreference": "BinPack"}))
    assert held.spec.resource.name == "web"
    (part,) = unsupported_parts(held.spec.placement)
    assert part.startswith("spec.placement.replicaScheduling.replicaDivisionPreference: 'BinPack' is not accepted")


@cases(
    "document",
    {
        "the placement is valid": binding_of_unsupported(clusterAffinity={}),
        "another part is invalid": binding_of_unsupported().replace(b'"web"', b"1"),
        "no JSON": b"{",
        "no spec": b'{"spec": []}',
    },
)
def test_a_binding_that_is_invalid_elsewhere_is_not_held(document):
    assert decode_held_binding(document) is None


def test_a_held_binding_is_never_equal_to_a_supported_one():
    raw = {"racks": 1}
    plain = decode_json(Binding, binding_of_unsupported(racks=1)).spec.placement
    assert checked_placement(plain, raw) != plain
    assert b"racks" not in encode_json(plain)


def test_a_message_names_only_the_first_parts():
    assert unsupported_message(tuple(map(str, range(9)))).endswith("0; 1; 2; 3; 4; and 4 more")


@cases(
    ("placement", "held"),
    {
        "known": ({"clusterAffinity": {}}, False),
        "an unknown field": ({"racks": 1}, True),
        "an unknown value": ({"replicaScheduling": {"replicaSchedulingType": "Mirrored"}}, True),
    },
)
def test_a_checked_binding(placement, held):
    assert bool(unsupported_parts(SharingReader().binding(binding_of_unsupported(**placement)).spec.placement)) == held


def test_a_binding_that_is_invalid_elsewhere_is_an_error():
    with pytest.raises(FieldError):
        SharingReader().binding(binding_of_unsupported().replace(b'"web"', b"1"))


@pytest.mark.parametrize("placement", [{"clusterAffinity": {}}, {"racks": 1}, None])
def test_a_checked_policy(placement):
    spec = {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}], "placement": placement}
    document = {"kind": "PropagationPolicy", "metadata": {"name": "p"}, "spec": spec}
    parts = unsupported_parts(decode_checked_policy(json.dumps(document).encode()).spec.placement)
    assert bool(parts) == ("racks" in (placement or {}))
