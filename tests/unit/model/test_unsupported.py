"""Placements with parts that this version does not know."""

import json

import pytest

from berthmaster.model.binding import Binding
from berthmaster.model.decode import convert, decode_json, encode_json, has_unknown_fields, unknown_fields
from berthmaster.model.errors import FieldError
from berthmaster.model.placement import Placement
from berthmaster.model.unsupported import (
    checked_placement,
    decode_checked_binding,
    decode_checked_policy,
    decode_held_binding,
    placement_text,
    unsupported_message,
    unsupported_parts,
)

RESOURCE = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "ns"}
UNKNOWN_TARGET = {"targetCluster": {"x": 1}, "weight": 1}
GROUP = {"affinityName": "g"}
SPREAD = {"spreadByField": "cluster", "maxGroups": 1}


@pytest.mark.parametrize(
    ("raw", "paths"),
    [
        pytest.param({}, [], id="an empty placement"),
        pytest.param({"clusterAffinity": {"labelSelector": {"matchLabels": {"racks": "a"}}}}, [], id="a label"),
        pytest.param({"racks": None}, [], id="null is absent"),
        pytest.param({"racks": False}, ["racks"], id="a value that Go omits"),
        pytest.param({"racks": {"a": 1}, "floors": []}, ["racks", "floors"], id="two fields"),
        pytest.param(
            {"clusterAffinities": [GROUP, {**GROUP, "racks": 1}]}, ["clusterAffinities[1].racks"], id="in a group"
        ),
        pytest.param(
            {"clusterAffinities": [{**GROUP, "overflowAffinities": [{**GROUP, "racks": 1}]}]},
            ["clusterAffinities[0].overflowAffinities[0].racks"],
            id="in an overflow affinity",
        ),
        pytest.param(
            {"spreadConstraints": [{**SPREAD, "weight": 1}]}, ["spreadConstraints[0].weight"], id="in a constraint"
        ),
        pytest.param(
            {"workloadAffinity": {"affinity": {"groupByLabelKey": "a", "weight": 1}}},
            ["workloadAffinity.affinity.weight"],
            id="in workload affinity",
        ),
        pytest.param(
            {"replicaScheduling": {"weightPreference": {"staticWeightList": [UNKNOWN_TARGET]}}},
            ["replicaScheduling.weightPreference.staticWeightList[0].targetCluster.x"],
            id="in a static weight",
        ),
    ],
)  # fmt: skip
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
    "raw", [{}, {"clusterAffinity": {"racks": 1}}, {"spreadConstraints": [SPREAD, {"racks": 1}]}, {"racks": {}}]
)
def test_the_quick_check_agrees_with_the_report(raw):
    assert has_unknown_fields(Placement, raw) == bool(unknown_fields(Placement, raw))


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        pytest.param({"resource": RESOURCE, "placement": {"a": 1}}, b'{"a": 1}', id="a placement"),
        pytest.param({"resource": RESOURCE, "placement": None}, b"null", id="null"),
        pytest.param({"resource": RESOURCE}, b"null", id="no placement"),
        pytest.param(None, b"null", id="no spec"),
    ],
)
def test_the_text_of_a_placement(spec, text):
    assert placement_text(json.dumps({"metadata": {}, "spec": spec}).encode()) == text


def binding(**placement) -> bytes:
    return json.dumps({"metadata": {"name": "web"}, "spec": {"resource": RESOURCE, "placement": placement}}).encode()


def test_a_binding_with_an_unknown_value_in_its_placement_is_decoded_without_it():
    held = decode_held_binding(binding(replicaScheduling={"replicaDivisionPreference": "BinPack"}))
    assert held.spec.resource.name == "web"
    (part,) = unsupported_parts(held.spec.placement)
    assert part.startswith("spec.placement.replicaScheduling.replicaDivisionPreference: 'BinPack' is not accepted")


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(binding(clusterAffinity={}), id="the placement is valid"),
        pytest.param(binding().replace(b'"web"', b"1"), id="another part is invalid"),
        pytest.param(b"{", id="no JSON"),
        pytest.param(b'{"spec": []}', id="no spec"),
    ],
)
def test_a_binding_that_is_invalid_elsewhere_is_not_held(document):
    assert decode_held_binding(document) is None


def test_a_held_binding_is_never_equal_to_a_supported_one():
    raw = {"racks": 1}
    plain = decode_json(Binding, binding(racks=1)).spec.placement
    assert checked_placement(plain, raw) != plain
    assert b"racks" not in encode_json(plain)


def test_a_message_names_only_the_first_parts():
    assert unsupported_message(tuple(map(str, range(9)))).endswith("0; 1; 2; 3; 4; and 4 more")


@pytest.mark.parametrize(
    ("placement", "held"),
    [
        pytest.param({"clusterAffinity": {}}, False, id="known"),
        pytest.param({"racks": 1}, True, id="an unknown field"),
        pytest.param({"replicaScheduling": {"replicaSchedulingType": "Mirrored"}}, True, id="an unknown value"),
    ],
)
def test_a_checked_binding(placement, held):
    assert bool(unsupported_parts(decode_checked_binding(binding(**placement)).spec.placement)) == held


def test_a_binding_that_is_invalid_elsewhere_is_an_error():
    with pytest.raises(FieldError):
        decode_checked_binding(binding().replace(b'"web"', b"1"))


@pytest.mark.parametrize("placement", [{"clusterAffinity": {}}, {"racks": 1}, None])
def test_a_checked_policy(placement):
    spec = {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}], "placement": placement}
    document = {"kind": "PropagationPolicy", "metadata": {"name": "p"}, "spec": spec}
    parts = unsupported_parts(decode_checked_policy(json.dumps(document).encode()).spec.placement)
    assert bool(parts) == ("racks" in (placement or {}))
