"""The decisions on a federation's objects that the extender returns."""

import msgspec
import pytest
from extender_services import refusing, services_of
from fake_clock import FakeClock
from federation_documents import member, policy, shop
from tables import cases

from berthmaster.model.errors import FieldError, InputError
from extender.protocols.kubeadmiral import routes
from extender.protocols.services import Call

LIMITS = [{"cluster": "a", "preferences": {"maxReplicas": 3}}, {"cluster": "b", "preferences": {"minReplicas": 9}}]
(ROUTE,) = (each for each in routes() if each.path == "/kubeadmiral/v1alpha1/schedule")


def ask(request, *, tick_s=0.0, within_s=10.0):
    clock = FakeClock(tick_s=tick_s)
    body = request if isinstance(request, bytes) else msgspec.json.encode(request)
    return msgspec.json.decode(ROUTE.handler(services_of(clock=clock), Call("1", clock.passed_s + within_s, body)).body)


def objects(**spec):
    return [member("a"), member("b"), policy(**spec), shop()]


@cases(
    ("options", "clusters", "noted"),
    {
        "as the scheduler does, with a note": ({}, {"a": None, "b": None}, True),
        "as the manual says, on request": ({"duplicateLimits": True}, {"a": 3, "b": 9}, False),
    },
)
def test_limits_of_mode_duplicate(options, clusters, noted):
    request = {"objects": objects(schedulingMode="Duplicate", placement=LIMITS), **options}
    (row,) = ask(request)["workloads"]
    assert (row["resource"], row["clusters"]) == ("default/Deployment/shop", clusters)
    assert ("duplicateLimits" in (row["message"] or "")) is noted


def test_lists_of_objects_are_read():
    listed = {"apiVersion": "v1", "kind": "List", "items": objects()}
    (row,) = ask({"objects": [listed]})["workloads"]
    assert sum(row["clusters"].values()) == 8


@cases(
    ("given", "path"),
    {
        "an object without a type": ([member("a"), {"kind": "Deployment"}], r"objects\[1\].apiVersion"),
        "an item of a list without a type": (
            [member("a"), {"apiVersion": "v1", "kind": "List", "items": [{}]}],
            r"objects\[1\].items\[0\].apiVersion",
        ),
        "a duplicate object": ([member("a"), member("a")], r"objects\[1\]"),
    },
)
def test_an_invalid_object_is_named(given, path):
    with pytest.raises(FieldError, match=path):
        ask({"objects": given})


def test_objects_without_a_cluster_are_refused():
    with pytest.raises(InputError, match="no cluster in objects"):
        ask({"objects": [policy(), shop()]})


def test_a_request_ends_at_its_deadline():
    with refusing(503, "not ready in time"):
        ask({"objects": objects()}, tick_s=1.0, within_s=0.5)


def test_a_large_request_is_refused():
    with refusing(413, "at most 3145728 are read"):
        ask(b" " * (3 * 2**20 + 1))
