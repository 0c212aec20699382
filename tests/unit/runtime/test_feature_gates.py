import pytest

from berthmaster.model.errors import InputError
from berthmaster.runtime.feature_gates import FeatureGates, Gate, told

NEW = Gate("New", "alpha", default=False, summary="tries something")
OLD = Gate("Old", "beta", default=True, summary="has proven itself")
KNOWN = (NEW, OLD)


@pytest.mark.parametrize(
    ("text", "on"),
    [
        pytest.param("", (False, True), id="the defaults"),
        pytest.param("New=true", (True, True), id="one on"),
        pytest.param("New=true,Old=false", (True, False), id="one on and one off"),
        pytest.param(" New = true , ", (True, True), id="spaces and empty parts"),
        pytest.param("New=true,New=false", (False, True), id="the last word counts"),
        pytest.param("New=True,Old=FALSE", (True, False), id="letters of any case"),
    ],
)
def test_gates_are_read(text, on):
    gates = FeatureGates.parse(text, KNOWN)
    assert (gates.on(NEW), gates.on(OLD)) == on


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("Nwe=true", "unknown gate 'Nwe'; known are New, Old", id="unknown"),
        pytest.param("New", "'New' is not NAME=true or NAME=false", id="no value"),
        pytest.param("New=", "'New=' is not NAME=true", id="an empty value"),
        pytest.param("New=yes", "'New=yes' is not NAME=true", id="another word"),
        pytest.param("new=true", "unknown gate 'new'", id="names have their letters"),
    ],
)
def test_what_cannot_be_meant_is_refused(text, words):
    with pytest.raises(InputError, match=words):
        FeatureGates.parse(text, KNOWN)


def test_help_lists_them_with_stage_and_default():
    assert (
        told(KNOWN) == "New (alpha, false by default): tries something; Old (beta, true by default): has proven itself"
    )


def test_they_can_be_logged():
    assert str(FeatureGates.parse("New=true", KNOWN)) == "New=true,Old=true"
