import pytest
from builders import taint

from berthmaster.model.taint import Taint, Toleration, repelling_taints

NOT_READY = taint("not-ready:NoSchedule")
GPU = taint("gpu=true:NoExecute")


@pytest.mark.parametrize(
    ("toleration", "tolerated", "on"),
    [
        pytest.param(Toleration(key="gpu", value="true", effect="NoExecute"), True, GPU, id="all equal"),
        pytest.param(Toleration(key="gpu", operator="Equal", value="true"), True, GPU, id="any effect"),
        pytest.param(Toleration(key="gpu", operator="Equal", value="no"), False, GPU, id="another value"),
        pytest.param(Toleration(key="gpu"), False, GPU, id="no value is the empty value"),
        pytest.param(Toleration(key="not-ready"), True, NOT_READY, id="the empty value of a taint without one"),
        pytest.param(Toleration(key="gpu", operator="Exists"), True, GPU, id="any value"),
        pytest.param(Toleration(key="cpu", operator="Exists"), False, GPU, id="another key"),
        pytest.param(Toleration(operator="Exists"), True, GPU, id="any key and value"),
        pytest.param(Toleration(value="true"), True, GPU, id="an empty key is any key, its value counts"),
        pytest.param(Toleration(operator="Exists", effect="NoSchedule"), False, GPU, id="another effect"),
        pytest.param(Toleration(key="gpu", operator="exists"), False, GPU, id="an unknown operator"),
        pytest.param(Toleration(operator="Exists", toleration_seconds=0), True, GPU, id="seconds play no part"),
    ],
)
def test_tolerations(toleration, tolerated, on):
    assert toleration.tolerates(on) is tolerated


@pytest.mark.parametrize(
    ("text", "repels"),
    [("a:NoSchedule", True), ("a:NoExecute", True), ("a:PreferNoSchedule", False), ("a:Unheard", False)],
)
def test_only_hard_effects_repel(text, repels):
    assert repelling_taints([taint(text)], ()) == ([taint(text)] if repels else [])


def test_one_toleration_for_each_taint_is_needed():
    tolerations = (Toleration(key="gpu", operator="Exists"),)
    assert repelling_taints([GPU, NOT_READY], tolerations) == [NOT_READY]


@pytest.mark.parametrize("text", ["a:NoSchedule", "a=b:NoExecute"])
def test_taints_are_shown_as_kubectl_writes_them(text):
    assert str(taint(text)) == text


def test_a_value_with_an_equals_sign_or_colon_stays_whole():
    assert taint("a=b=c:NoSchedule") == Taint(key="a", value="b=c", effect="NoSchedule")
