import pytest

from berthmaster.model.errors import InputError
from berthmaster.runtime.feature_gates import FeatureGates, Gate, gates_help

NEW = Gate("New", "alpha", default=False, summary="tries something")
OLD = Gate("Old", "beta", default=True, summary="does something")
KNOWN = (NEW, OLD)


@pytest.mark.parametrize(
    ("text", "on"),
    [
        pytest.param("", (False, True), id="the defaults"),
        pytest.param("New=true", (True, True), id="one gate on"),
        pytest.param("New=true,Old=false", (True, False), id="one gate on and one off"),
        pytest.param(" New = true , ", (True, True), id="spaces and empty parts"),
        pytest.param("New=true,New=false", (False, True), id="the last value counts"),
        pytest.param("New=True,Old=FALSE", (True, False), id="any letter case"),
    ],
)
def test_gates_are_parsed(text, on):
    gates = FeatureGates.parse(text, KNOWN)
    assert (gates.on(NEW), gates.on(OLD)) == on


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("Nwe=true", "unknown gate 'Nwe'; known are New, Old", id="unknown"),
        pytest.param("New", "'New' is not NAME=true or NAME=false", id="no value"),
        pytest.param("New=", "'New=' is not NAME=true", id="an empty value"),
        pytest.param("New=yes", "'New=yes' is not NAME=true", id="another value"),
        pytest.param("new=true", "unknown gate 'new'", id="a name in another letter case"),
    ],
)
def test_invalid_gates_are_refused(text, words):
    with pytest.raises(InputError, match=words):
        FeatureGates.parse(text, KNOWN)


def test_help_lists_gates_with_stage_and_default():
    assert (
        gates_help(KNOWN)
        == "New (alpha, false by default): tries something; Old (beta, true by default): does something"
    )


def test_gates_can_be_logged():
    assert str(FeatureGates.parse("New=true", KNOWN)) == "New=true,Old=true"
