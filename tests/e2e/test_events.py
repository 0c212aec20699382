"""The events of a binding, read from a real API server: it selects them by field, whichever API recorded them."""

from typing import Any

import pytest
from e2e.api import Api
from e2e.control_plane import ControlPlane

from berthmaster.kube.http_client import load_client
from berthmaster.model.binding import Binding
from berthmaster.model.decode import convert
from extender.state.events import read_events

pytestmark = pytest.mark.e2e


def _about(namespace: str, name: str) -> dict[str, Any]:
    return {"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", "namespace": namespace, "name": name}


def test_the_events_of_one_binding_are_read(control_plane: ControlPlane, api: Api, namespace: str) -> None:
    meta = {"namespace": namespace}
    api.create({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {**meta, "name": "new"},
        "regarding": _about(namespace, "web"), "type": "Normal", "reason": "Moved", "action": "Move", "note": "step 1",
        "reportingController": "example.org/new", "reportingInstance": "a", "eventTime": "2026-01-02T00:00:00.000000Z",
    })  # fmt: skip
    api.create({
        "apiVersion": "v1", "kind": "Event", "metadata": {**meta, "name": "old"},
        "involvedObject": _about(namespace, "web"), "type": "Warning", "reason": "ScheduleFailed", "message": "0/3 fit",
        "source": {"component": "old-recorder"}, "count": 3, "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-03T00:00:00Z",
    })  # fmt: skip
    api.create({
        "apiVersion": "v1", "kind": "Event", "metadata": {**meta, "name": "other"}, "reason": "Other",
        "involvedObject": _about(namespace, "api"), "type": "Normal", "source": {"component": "old-recorder"},
    })  # fmt: skip
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    known = {**_about(namespace, "web"), "metadata": {**meta, "name": "web"}, "spec": {"resource": resource}}
    binding = convert(Binding, {key: known[key] for key in ("apiVersion", "kind", "metadata", "spec")})
    found, more = read_events(load_client(control_plane.kubeconfig), binding)
    assert [(each.reason, each.note, each.count, each.reporter) for each in found] == [
        ("ScheduleFailed", "0/3 fit", 3, "old-recorder"),
        ("Moved", "step 1", 1, "example.org/new"),
    ]
    assert not more
