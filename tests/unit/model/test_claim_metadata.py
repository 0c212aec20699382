"""The labels and annotations of a claim: exactly those of Karmada's detector."""

import msgspec
import pytest
from builders import policy
from patches import merged

from berthmaster.model.claim_metadata import claimed, holder, permanent_id, set_aside
from berthmaster.model.decode import builtins
from berthmaster.model.meta import ObjectMeta
from berthmaster.model.policy import PolicyReference

P, C = "propagationpolicy.karmada.io/", "clusterpropagationpolicy.karmada.io/"
OWN = {"labels": {"app": "web"}, "annotations": {"note": "kept"}}
BY_P = {"labels": {f"{P}permanent-id": "1"}, "annotations": {f"{P}namespace": "default", f"{P}name": "p"}}
BY_C = {"labels": {f"{C}permanent-id": "2"}, "annotations": {f"{C}name": "c"}}


def meta(*parts):
    labels = {key: value for part in parts for key, value in part["labels"].items()}
    annotations = {key: value for part in parts for key, value in part["annotations"].items()}
    return ObjectMeta(name="web", namespace="default", labels=labels, annotations=annotations)


def with_id(name, identity, *, cluster_scoped):
    made = policy(name, cluster_scoped=cluster_scoped)
    label = f"{C if cluster_scoped else P}permanent-id"
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, labels={label: identity}))


NEW_P = with_id("new", "3", cluster_scoped=False)
NEW_C = with_id("new", "4", cluster_scoped=True)
BY_NEW_P = {"labels": {f"{P}permanent-id": "3"}, "annotations": {f"{P}namespace": "default", f"{P}name": "new"}}
BY_NEW_C = {"labels": {f"{C}permanent-id": "4"}, "annotations": {f"{C}name": "new"}}


@pytest.mark.parametrize(
    ("before", "by", "after"),
    [
        pytest.param(meta(OWN), NEW_P, meta(OWN, BY_NEW_P), id="a PropagationPolicy takes what is nobody's"),
        pytest.param(meta(OWN, BY_P), NEW_P, meta(OWN, BY_NEW_P), id="or another one's"),
        pytest.param(
            meta(OWN, BY_C), NEW_P, meta(OWN, BY_NEW_P), id="or a ClusterPropagationPolicy's, leaving no trace"
        ),
        pytest.param(meta(OWN, BY_C, BY_P), NEW_P, meta(OWN, BY_NEW_P), id="or what carries both claims"),
        pytest.param(meta(OWN), NEW_C, meta(OWN, BY_NEW_C), id="a ClusterPropagationPolicy takes what is nobody's"),
        pytest.param(meta(OWN, BY_C), NEW_C, meta(OWN, BY_NEW_C), id="or another one's"),
        pytest.param(
            meta(OWN, BY_P), NEW_C, meta(OWN, BY_P, BY_NEW_C), id="and leaves a PropagationPolicy's claim alone"
        ),
    ],
)
def test_what_a_claim_writes(before, by, after):
    patched = merged(builtins(before), claimed(before, by))
    assert patched == builtins(after)


def test_nothing_is_taken_away_that_is_not_there():
    """A null for a missing key is harmless, and yet a change that admission would be asked about."""
    assert None not in claimed(meta(OWN), NEW_P)["labels"].values()
    assert None not in claimed(meta(OWN), NEW_P)["annotations"].values()


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        pytest.param(meta(OWN), None, id="nobody"),
        pytest.param(meta(BY_P), PolicyReference("PropagationPolicy", "default", "p"), id="a PropagationPolicy"),
        pytest.param(meta(BY_C), PolicyReference("ClusterPropagationPolicy", "", "c"), id="a cluster-wide one"),
        pytest.param(meta(BY_C, BY_P), PolicyReference("PropagationPolicy", "default", "p"), id="of both, the former"),
        pytest.param(meta({"labels": {}, "annotations": {f"{P}name": "p"}}), None, id="nobody by half a claim"),
        pytest.param(
            meta({"labels": {}, "annotations": {f"{P}namespace": "..", f"{P}name": "p"}}),
            None,
            id="nobody by what cannot be a name",
        ),
        pytest.param(
            meta({"labels": {}, "annotations": {f"{C}name": "../secrets"}}), None, id="nor by what leads elsewhere"
        ),
    ],
)
def test_who_has_a_resource(metadata, expected):
    assert holder(metadata) == expected


def test_the_permanent_id_is_the_one_of_the_policys_kind():
    assert (permanent_id(NEW_P), permanent_id(NEW_C), permanent_id(policy())) == ("3", "4", "")
    both = policy(cluster_scoped=True)
    other = msgspec.structs.replace(both.metadata, labels={f"{P}permanent-id": "9"})
    assert permanent_id(msgspec.structs.replace(both, metadata=other)) == ""


@pytest.mark.parametrize(("value", "aside"), [("FederatedHPA", True), ("", False)])
def test_what_is_claimed_by_something_else_is_set_aside(value, aside):
    label = {"labels": {"resourcetemplate.karmada.io/claimed-by": value}, "annotations": {}}
    assert set_aside(meta(label)) is aside
