"""One invalid object of a control plane does not stop the answers about all others."""

import pytest
from federation_documents import KUBEADMIRAL, member, policy, shop
from fleet_dump import members, stored_binding, stored_policy, stored_template
from switched_on import world_of

from berthmaster.manifests import Document
from berthmaster.manifests.loader import manifests_of
from berthmaster.model.errors import ManifestError
from berthmaster.model.gaps import ANY_READER
from berthmaster.simulation.federation import federation_of


def read(*objects, number: int = 0):
    """The manifests of objects of an API server, or, with a number, of a file."""
    return manifests_of([Document("karmada", number, "", dict(each)) for each in objects], "karmada")


def broken(template):
    return {**template, "spec": {**template["spec"], "replicas": "many"}}


def test_an_invalid_template_leaves_its_binding_and_all_others():
    held_by = stored_policy(to=["member1"])
    web, api = (stored_template(held_by=held_by, name=name) for name in ("web", "api"))
    bindings = [stored_binding(each, {"member1": 2}, policy=held_by) for each in (web, api)]
    manifests = read(*members("member1"), held_by, broken(web), api, *bindings)
    world = world_of(manifests)
    assert {str(each): each.template is not None for each in world.workloads} == {
        "default/Deployment/api": True,
        "default/Deployment/web": False,
    }
    [gap] = manifests.gaps
    assert gap.about == ("default/Deployment/web",)
    assert "spec.replicas" in gap.text(ANY_READER)


def test_an_invalid_template_of_a_file_is_an_error_that_names_it():
    template = broken(stored_template())
    manifests = read(*members("member1"), number=1)
    manifests.templates.append(Document("web.yaml", 1, "", template))
    with pytest.raises(ManifestError, match=r"web.yaml.*spec.replicas"):
        world_of(manifests)


def test_an_invalid_federated_object_leaves_all_others():
    metadata = {"name": "shop-deployments.apps", "namespace": "default"}
    template = shop({})
    template["spec"]["replicas"] = "many"
    federated = {"apiVersion": KUBEADMIRAL, "kind": "FederatedObject", "metadata": metadata}
    other = shop()
    other["metadata"]["name"] = "other"
    manifests = read(member("a"), policy(), {**federated, "spec": {"template": template}}, other)
    assert [each.name.name for each in federation_of(manifests).workloads] == ["other"]
    assert len(manifests.gaps) == 1
