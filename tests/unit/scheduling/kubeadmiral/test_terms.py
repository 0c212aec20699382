import pytest
from kubeadmiral_builders import member, term
from tables import cases

from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.kubeadmiral.unit import InvalidTermError, any_matches, rows_matching

CLUSTER = member("alpha", labels={"region": "beijing", "size": "10", "odd": "ten"})
REGION = ("region", "In", "beijing")
FLEET = Fleet([member("beta"), CLUSTER, member("gamma", labels={"region": "beijing"})])
NO_OPERATOR = ("region", "Near", "beijing")


def row_matches(terms):
    """Return whether the indexes match the same cluster among others."""
    return bool(rows_matching(terms, FLEET)[FLEET.row_of[CLUSTER.name]])


@cases(
    ("terms", "matches"),
    {
        "no term matches nothing": ([], False),
        "an empty term matches nothing": ([term()], False),
        "an empty term does not affect other terms": ([term(), term(REGION)], True),
        "In with the value of the label": ([term(REGION)], True),
        "In with several values": ([term(("region", "In", "shanghai", "beijing"))], True),
        "NotIn with the value of the label": ([term(("region", "NotIn", "beijing"))], False),
        "NotIn with a missing label": ([term(("zone", "NotIn", "a"))], True),
        "In with a missing label": ([term(("zone", "In", "a"))], False),
        "Exists": ([term(("region", "Exists"))], True),
        "DoesNotExist": ([term(("zone", "DoesNotExist"))], True),
        "Gt compares integers, not strings": ([term(("size", "Gt", "9"))], True),
        "Gt excludes the bound": ([term(("size", "Gt", "10"))], False),
        "Lt": ([term(("size", "Lt", "11"))], True),
        "Gt with a label that is not an integer": ([term(("odd", "Gt", "0"))], False),
        "Lt with a missing label": ([term(("zone", "Lt", "0"))], False),
        "all expressions of a term must match": ([term(REGION, ("size", "Gt", "50"))], False),
        "one of the terms must match": ([term(("size", "Gt", "50")), term(REGION)], True),
        "a field In": ([term(fields=[("metadata.name", "In", "alpha")])], True),
        "a field NotIn": ([term(fields=[("metadata.name", "NotIn", "alpha")])], False),
        "any other field is empty": ([term(fields=[("spec.region", "In", "")])], True),
        "labels and fields must match": ([term(REGION, fields=[("metadata.name", "In", "beta")])], False),
        "an invalid term after a match is not evaluated": ([term(REGION), term(NO_OPERATOR)], True),
        "an invalid field is not evaluated if the labels do not match": (
            [term(("region", "In", "shanghai"), fields=[("metadata.name", "Exists")]), term(REGION)],
            True,
        ),
    },
)
def test_terms(terms, matches):
    assert any_matches(terms, CLUSTER) is matches
    assert row_matches(terms) is matches


@cases(
    "terms",
    {
        "an unknown operator before a match": [term(NO_OPERATOR), term(REGION)],
        "an invalid expression after one that does not match": [term(("zone", "In", "a"), NO_OPERATOR), term(REGION)],
        "In without a value": [term(("region", "In"))],
        "Exists with a value": [term(("region", "Exists", "beijing"))],
        "Gt with a value that is not an integer": [term(("size", "Gt", "ten"))],
        "Lt with two values": [term(("size", "Lt", "1", "2"))],
        "an invalid key": [term(("not a key", "Exists"))],
        "an invalid label value": [term(("region", "In", "not a value!"))],
        "a field with two values": [term(fields=[("metadata.name", "In", "alpha", "beta")])],
        "a field with another operator": [term(fields=[("metadata.name", "Gt", "1")])],
        "an invalid field after one that does not match": [
            term(fields=[("metadata.name", "In", "beta"), ("metadata.name", "Exists")]),
            term(REGION),
        ],
    },
)
def test_an_invalid_expression_invalidates_all_terms(terms):
    with pytest.raises(InvalidTermError):
        any_matches(terms, CLUSTER)
    assert not row_matches(terms)
