"""The latest of every binding: what was heard, or what was written and not heard of yet."""

import json
from typing import Any

import msgspec
import pytest
from fake_clock import FakeClock
from kube_in_memory import KubeInMemory

from berthmaster.controllers.binding_scheduler.bindings import RESOURCE_BINDINGS, Bindings
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.kube.informer import Informer
from berthmaster.model.binding import Binding

KEY = "ns", "web"


@pytest.fixture
def context() -> ControllerContext:
    return ControllerContext(KubeInMemory(), FakeClock(), None, None)  # type: ignore[arg-type] # nothing is told or counted


@pytest.fixture
def bindings(context: ControllerContext) -> Bindings:
    return Bindings(context)


@pytest.fixture
def informer(context: ControllerContext, bindings: Bindings) -> Informer[Binding]:
    bindings.subscribe(lambda _key, _before, _after: None)
    return context.informers[RESOURCE_BINDINGS]


def raw(version: str, **spec: Any) -> msgspec.Raw:
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "ns"}
    metadata = {"name": "web", "namespace": "ns", "resourceVersion": version}
    return msgspec.Raw(json.dumps({"metadata": metadata, "spec": {"resource": resource, **spec}}).encode())


def at(binding: Binding, version: str) -> Binding:
    return msgspec.structs.replace(
        binding, metadata=msgspec.structs.replace(binding.metadata, resource_version=version)
    )


def version(bindings: Bindings) -> str:
    found = bindings.get(KEY)
    return "" if found is None else found.metadata.resource_version


def heard(informer: Informer[Binding], number: str) -> Binding:
    informer.put(KEY, raw(number))
    found = informer.get(KEY)
    assert found is not None
    return found


def test_what_was_written_is_the_latest_until_it_is_heard_of(bindings: Bindings, informer: Informer[Binding]):
    before = heard(informer, "1")
    bindings.written(KEY, before, at(before, "2"))
    bindings.written(KEY, at(before, "2"), at(before, "3"))
    assert version(bindings) == "3"
    heard(informer, "2")
    assert version(bindings) == "3", "the first of two writes"
    heard(informer, "4")
    assert version(bindings) == "4"


@pytest.mark.parametrize(
    "quicker",
    [
        pytest.param(lambda informer: informer.put(KEY, raw("2")), id="the write was heard of before its answer came"),
        pytest.param(lambda informer: informer.drop(KEY), id="it was deleted before the answer came"),
        pytest.param(
            lambda informer: (informer.drop(KEY), informer.put(KEY, raw("9"))), id="it was made anew before that"
        ),
    ],
)
def test_nothing_is_kept_of_a_write_that_is_history_when_its_answer_comes(
    bindings: Bindings, informer: Informer[Binding], quicker
):
    before = heard(informer, "1")
    quicker(informer)
    bindings.written(KEY, before, at(before, "2"))
    assert not bindings._written
    assert version(bindings) in {"", "2", "9"}
    assert bindings.get(KEY) is informer.get(KEY)


def test_a_write_of_our_own_is_no_news_and_anothers_is(bindings: Bindings, informer: Informer[Binding]):
    before = heard(informer, "1")
    bindings.written(KEY, before, at(before, "2"))
    assert bindings.is_own(KEY, at(before, "2"))
    assert not bindings.is_own(KEY, at(before, "3"))
    heard(informer, "3")
    assert not bindings.is_own(KEY, at(before, "2")), "it is history"


def test_nothing_is_kept_of_a_binding_that_is_gone(bindings: Bindings, informer: Informer[Binding]):
    before = heard(informer, "1")
    bindings.written(KEY, before, at(before, "2"))
    informer.drop(KEY)
    assert not bindings._written
    assert bindings.get(KEY) is None


def test_bindings_of_one_policy_share_its_placement(bindings: Bindings, informer: Informer[Binding]):
    placement = {"clusterAffinity": {"clusterNames": ["m"]}}
    for name in ("web", "db"):
        informer.put(("ns", name), raw("1", placement=placement))
    first, second = (bindings.get(("ns", name)) for name in ("web", "db"))
    assert first is not None
    assert second is not None
    assert first.spec.placement is second.spec.placement is not None
