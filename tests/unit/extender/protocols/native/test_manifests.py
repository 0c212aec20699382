"""``GET /v1/bindings/.../manifests``: a binding and its workload, without what may be confidential."""

from extender_services import asked, services_of, world_with
from karmada_plane import binding, cluster, deployment, policy, selector

from berthmaster.native_api.why import BindingManifests
from extender.protocols import native

HELD = policy("web", selector(), placement={"clusterAffinity": {"clusterNames": ["a"]}})
ROUTES = {each.path: each for each in native.routes() if each.method == "GET"}


def test_a_workload_has_no_environment_no_image_and_no_foreign_annotation():
    template = deployment("web", 4, by=HELD)
    template["metadata"].setdefault("annotations", {})["example.org/owner"] = "who-owns-it"
    (container,) = template["spec"]["template"]["spec"]["containers"]
    container.update(image="registry/hidden-image", env=[{"name": "PASSWORD", "value": "hunter2"}])
    services = services_of(world_with(cluster("a"), HELD, template, binding(template, HELD, a=4)))
    route = ROUTES["/v1/bindings/{namespace}/{name}/manifests"]
    found = asked(services, route, BindingManifests, values={"namespace": "shop", "name": "web-deployment"})
    text = repr((found.binding, found.workload))
    assert found.binding["kind"] == "ResourceBinding"
    assert found.workload["spec"]["replicas"] == 4
    assert [each for each in ("hunter2", "hidden-image", "who-owns-it") if each in text] == []
