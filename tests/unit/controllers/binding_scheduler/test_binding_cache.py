"""The cache of bindings."""

import json
from typing import Any

import msgspec
import pytest
from fake_clock import FakeClock
from kube_in_memory import KubeInMemory

from berthmaster.controllers.binding_scheduler.binding_cache import BindingCache
from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.kube.informer import Informer
from berthmaster.kube.kinds import RESOURCE_BINDINGS
from berthmaster.model.binding import Binding
from berthmaster.model.unsupported import unsupported_parts

KEY = "ns", "web"


@pytest.fixture
def context() -> ControllerContext:
    return ControllerContext(KubeInMemory(), FakeClock(), None, None)  # type: ignore[arg-type] # no events, no metrics


@pytest.fixture
def bindings(context: ControllerContext) -> BindingCache:
    return BindingCache(context)


@pytest.fixture
def informer(context: ControllerContext, bindings: BindingCache) -> Informer[Binding]:
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


def version(bindings: BindingCache) -> str:
    found = bindings.get(KEY)
    return "" if found is None else found.metadata.resource_version


def observe(informer: Informer[Binding], number: str) -> Binding:
    informer.put(KEY, raw(number))
    found = informer.get(KEY)
    assert found is not None
    return found


def test_a_written_binding_is_the_latest_until_it_is_observed(bindings: BindingCache, informer: Informer[Binding]):
    before = observe(informer, "1")
    bindings.add_written(KEY, before, at(before, "2"))
    bindings.add_written(KEY, at(before, "2"), at(before, "3"))
    assert version(bindings) == "3"
    observe(informer, "2")
    assert version(bindings) == "3", "the first of two writes"
    observe(informer, "4")
    assert version(bindings) == "4"


@pytest.mark.parametrize(
    "overtake",
    [
        pytest.param(lambda informer: informer.put(KEY, raw("2")), id="the write was observed before its response"),
        pytest.param(lambda informer: informer.delete(KEY), id="the binding was deleted before the response"),
        pytest.param(
            lambda informer: (informer.delete(KEY), informer.put(KEY, raw("9"))),
            id="the binding was created again before the response",
        ),
    ],
)
def test_a_write_that_is_outdated_at_its_response_is_not_kept(
    bindings: BindingCache, informer: Informer[Binding], overtake
):
    before = observe(informer, "1")
    overtake(informer)
    bindings.add_written(KEY, before, at(before, "2"))
    assert version(bindings) in {"", "2", "9"}
    assert bindings.get(KEY) is informer.get(KEY)


def test_own_writes_are_distinguished_from_others(bindings: BindingCache, informer: Informer[Binding]):
    before = observe(informer, "1")
    bindings.add_written(KEY, before, at(before, "2"))
    assert bindings.is_own(KEY, at(before, "2"))
    assert not bindings.is_own(KEY, at(before, "3"))
    observe(informer, "3")
    assert not bindings.is_own(KEY, at(before, "2")), "it is outdated"


def test_nothing_is_kept_of_a_deleted_binding(bindings: BindingCache, informer: Informer[Binding]):
    before = observe(informer, "1")
    bindings.add_written(KEY, before, at(before, "2"))
    informer.delete(KEY)
    assert bindings.get(KEY) is None


def test_bindings_of_one_policy_share_its_placement(bindings: BindingCache, informer: Informer[Binding]):
    placement = {"clusterAffinity": {"clusterNames": ["m"]}}
    for name in ("web", "db"):
        informer.put(("ns", name), raw("1", placement=placement))
    first, second = (bindings.get(("ns", name)) for name in ("web", "db"))
    assert first is not None
    assert second is not None
    assert first.spec.placement is second.spec.placement is not None


@pytest.mark.parametrize("hold", [True, False], ids=["hold", "ignore"])
def test_unknown_fields_of_a_placement_make_it_unsupported_unless_they_are_ignored(context: ControllerContext, hold):
    bindings = BindingCache(context, hold_unknown=hold)
    context.informers[RESOURCE_BINDINGS].put(KEY, raw("1", placement={"clusterAffinity": {}, "racks": 1}))
    found = bindings.get(KEY)
    assert found is not None
    assert bool(unsupported_parts(found.spec.placement)) == hold


def test_a_binding_whose_placement_gains_an_unknown_field_is_held_at_once(
    bindings: BindingCache, informer: Informer[Binding]
):
    for version_, placement in (("1", {}), ("2", {"racks": 1}), ("3", {})):
        informer.put(KEY, raw(version_, placement=placement))
        found = bindings.get(KEY)
        assert found is not None
        assert bool(unsupported_parts(found.spec.placement)) == (version_ == "2")


@pytest.mark.parametrize("hold", [True, False], ids=["hold", "ignore"])
def test_an_unknown_value_is_never_ignored(context: ControllerContext, hold):
    bindings = BindingCache(context, hold_unknown=hold)
    context.informers[RESOURCE_BINDINGS].put(
        KEY, raw("1", placement={"replicaScheduling": {"replicaSchedulingType": "Mirrored"}})
    )
    found = bindings.get(KEY)
    assert found is not None
    assert "'Mirrored' is not accepted" in unsupported_parts(found.spec.placement)[0]
