"""``GET /v1/bindings/.../events``: the events of a binding that the API server has."""

from extender_services import asked, refusing, services_of, world_with
from karmada_plane import binding, cluster, deployment, policy, selector
from tables import cases

from berthmaster.model.errors import ApiError
from berthmaster.native_api.why import BindingEvent, BindingEvents
from extender.protocols import native

HELD = policy("web", selector(), placement={"clusterAffinity": {"clusterNames": ["a"]}})
ROUTE = next(each for each in native.routes() if each.path == "/v1/bindings/{namespace}/{name}/events")
NAMED = {"namespace": "shop", "name": "web-deployment"}
EVENT = BindingEvent("2026-01-02T00:00:00Z", "Normal", "Moved", "", 1, "berthmaster")


def watching(read):
    template = deployment("web", 4, by=HELD)
    services = services_of(world_with(cluster("a"), HELD, template, binding(template, HELD, a=4)))
    services.state.events = read
    return services


def test_the_events_of_this_binding_are_read():
    services = watching(lambda found: ([EVENT] if found.metadata.key == ("shop", "web-deployment") else [], True))
    assert asked(services, ROUTE, BindingEvents, values=NAMED) == BindingEvents([EVENT], more=True)


def test_without_a_control_plane_there_are_none():
    with refusing(409, "watches no control plane"):
        asked(watching(None), ROUTE, values=NAMED)


@cases(
    ("error", "status", "text"),
    {
        "no right": (ApiError(403, "Forbidden", "no"), 409, "may not list events"),
        "no answer": (ApiError(0, "", "timed out"), 503, "timed out"),
    },
)
def test_what_the_api_server_refuses_is_refused(error, status, text):
    def read(_binding):
        raise error

    with refusing(status, text):
        asked(watching(read), ROUTE, values=NAMED)
