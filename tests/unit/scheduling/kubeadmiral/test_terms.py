import pytest
from kubeadmiral_builders import member, term

from berthmaster.scheduling.fleet import Fleet
from berthmaster.scheduling.kubeadmiral.unit import InvalidTermError, any_matches, rows_matching

CLUSTER = member("alpha", labels={"region": "beijing", "size": "10", "odd": "ten"})
REGION = ("region", "In", "beijing")
FLEET = Fleet([member("beta"), CLUSTER, member("gamma", labels={"region": "beijing"})])
NO_OPERATOR = ("region", "Near", "beijing")


def row_matches(terms):
    """Return whether the indexes match the same cluster among others."""
    return bool(rows_matching(terms, FLEET)[FLEET.row_of[CLUSTER.name]])


@pytest.mark.parametrize(
    ("terms", "matches"),
    [
        pytest.param([], False, id="no term matches nothing"),
        pytest.param([term()], False, id="an empty term matches nothing"),
        pytest.param([term(), term(REGION)], True, id="an empty term does not affect other terms"),
        pytest.param([term(REGION)], True, id="In with the value of the label"),
        pytest.param([term(("region", "In", "shanghai", "beijing"))], True, id="In with several values"),
        pytest.param([term(("region", "NotIn", "beijing"))], False, id="NotIn with the value of the label"),
        pytest.param([term(("zone", "NotIn", "a"))], True, id="NotIn with a missing label"),
        pytest.param([term(("zone", "In", "a"))], False, id="In with a missing label"),
        pytest.param([term(("region", "Exists"))], True, id="Exists"),
        pytest.param([term(("zone", "DoesNotExist"))], True, id="DoesNotExist"),
        pytest.param([term(("size", "Gt", "9"))], True, id="Gt compares integers, not strings"),
        pytest.param([term(("size", "Gt", "10"))], False, id="Gt excludes the bound"),
        pytest.param([term(("size", "Lt", "11"))], True, id="Lt"),
        pytest.param([term(("odd", "Gt", "0"))], False, id="Gt with a label that is not an integer"),
        pytest.param([term(("zone", "Lt", "0"))], False, id="Lt with a missing label"),
        pytest.param([term(REGION, ("size", "Gt", "50"))], False, id="all expressions of a term must match"),
        pytest.param([term(("size", "Gt", "50")), term(REGION)], True, id="one of the terms must match"),
        pytest.param([term(fields=[("metadata.name", "In", "alpha")])], True, id="a field In"),
        pytest.param([term(fields=[("metadata.name", "NotIn", "alpha")])], False, id="a field NotIn"),
        pytest.param([term(fields=[("spec.region", "In", "")])], True, id="any other field is empty"),
        pytest.param(
            [term(REGION, fields=[("metadata.name", "In", "beta")])], False, id="labels and fields must match"
        ),
        pytest.param([term(REGION), term(NO_OPERATOR)], True, id="an invalid term after a match is not evaluated"),
        pytest.param(
            [term(("region", "In", "shanghai"), fields=[("metadata.name", "Exists")]), term(REGION)],
            True,
            id="an invalid field is not evaluated if the labels do not match",
        ),
    ],
)
def test_terms(terms, matches):
    assert any_matches(terms, CLUSTER) is matches
    assert row_matches(terms) is matches


@pytest.mark.parametrize(
    "terms",
    [
        pytest.param([term(NO_OPERATOR), term(REGION)], id="an unknown operator before a match"),
        pytest.param(
            [term(("zone", "In", "a"), NO_OPERATOR), term(REGION)],
            id="an invalid expression after one that does not match",
        ),
        pytest.param([term(("region", "In"))], id="In without a value"),
        pytest.param([term(("region", "Exists", "beijing"))], id="Exists with a value"),
        pytest.param([term(("size", "Gt", "ten"))], id="Gt with a value that is not an integer"),
        pytest.param([term(("size", "Lt", "1", "2"))], id="Lt with two values"),
        pytest.param([term(("not a key", "Exists"))], id="an invalid key"),
        pytest.param([term(("region", "In", "not a value!"))], id="an invalid label value"),
        pytest.param([term(fields=[("metadata.name", "In", "alpha", "beta")])], id="a field with two values"),
        pytest.param([term(fields=[("metadata.name", "Gt", "1")])], id="a field with another operator"),
        pytest.param(
            [term(fields=[("metadata.name", "In", "beta"), ("metadata.name", "Exists")]), term(REGION)],
            id="an invalid field after one that does not match",
        ),
    ],
)
def test_an_invalid_expression_invalidates_all_terms(terms):
    with pytest.raises(InvalidTermError):
        any_matches(terms, CLUSTER)
    assert not row_matches(terms)
