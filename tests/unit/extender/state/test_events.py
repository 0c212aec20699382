"""The events of a binding as the extender reads them from an API server."""

from kube_in_memory import ScriptedClient
from tables import cases

from berthmaster.model.binding import Binding
from berthmaster.model.decode import convert
from extender.state.events import MAX_EVENTS, read_events

PATH = "GET /apis/events.k8s.io/v1/namespaces/{}/events"


def binding(namespace):
    kind = "ResourceBinding" if namespace else "ClusterResourceBinding"
    metadata = {"namespace": namespace, "name": "web-deployment"}
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"resource": resource}
    return convert(
        Binding, {"apiVersion": "work.karmada.io/v1alpha2", "kind": kind, "metadata": metadata, "spec": spec}
    )


def read(*items, namespace="shop", **metadata):
    client = ScriptedClient({PATH.format(namespace or "default"): {"metadata": metadata, "items": list(items)}})
    return client, *read_events(client, binding(namespace))


def event(**fields):
    return {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "type": "Normal", "reason": "Moved", **fields}


@cases(
    ("fields", "time", "count", "reporter"),
    {
        "once": (
            {"eventTime": "2026-01-02T00:00:00.5Z", "reportingController": "berthmaster"},
            "2026-01-02T00:00:00.5Z",
            1,
            "berthmaster",
        ),
        "a series": (
            {
                "eventTime": "2026-01-02T00:00:00Z",
                "series": {"count": 7, "lastObservedTime": "2026-01-03T00:00:00Z"},
                "reportingController": "berthmaster",
            },
            "2026-01-03T00:00:00Z",
            7,
            "berthmaster",
        ),
        "of a recorder of the core API": (
            {
                "eventTime": None,
                "deprecatedLastTimestamp": "2026-01-04T00:00:00Z",
                "deprecatedCount": 3,
                "deprecatedSource": {"component": "karmada-scheduler"},
            },
            "2026-01-04T00:00:00Z",
            3,
            "karmada-scheduler",
        ),
        "without any time of its own": ({"reportingController": "x"}, "2026-01-01T00:00:00Z", 1, "x"),
    },
)
def test_an_event_has_its_last_time_and_its_count(fields, time, count, reporter):
    _, (found,), _ = read(event(**fields))
    assert (found.time, found.count, found.reporter, found.reason) == (time, count, reporter, "Moved")


def test_the_latest_come_first():
    times = ["2026-01-02T00:00:00Z", "2026-01-04T00:00:00Z", "2026-01-03T00:00:00Z"]
    _, found, more = read(*(event(eventTime=each) for each in times))
    assert [each.time for each in found] == sorted(times, reverse=True)
    assert not more


@cases(
    ("namespace", "kind"), {"of a namespace": ("shop", "ResourceBinding"), "of none": ("", "ClusterResourceBinding")}
)
def test_one_bounded_request_asks_about_this_binding_alone(namespace, kind):
    client, _, more = read(event(), namespace=namespace, **{"continue": "next"})
    (request,) = client.asked
    assert dict(request.query) == {
        "limit": str(MAX_EVENTS),
        "fieldSelector": f"regarding.kind={kind},regarding.name=web-deployment",
    }
    assert more
