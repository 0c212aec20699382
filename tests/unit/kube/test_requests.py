"""Requests as values. A name from a user never leads to another path."""

import pytest
from kube_in_memory import KubeInMemory

from berthmaster.kube.client_wrappers import MetadataOnlyClient
from berthmaster.kube.requests import Collection, get, merge_patch, page, watch
from berthmaster.model.errors import InputError

DEPLOYMENTS = Collection.of("apps/v1", "deployments")


@pytest.mark.parametrize(
    ("key", "path"),
    [
        pytest.param(("default", "web"), "/apis/apps/v1/namespaces/default/deployments/web", id="in a namespace"),
        pytest.param(("", "web"), "/apis/apps/v1/deployments/web", id="cluster-scoped"),
        pytest.param(("", "system:node"), "/apis/apps/v1/deployments/system:node", id="a colon stays"),
        pytest.param(("", "a b?c#d"), "/apis/apps/v1/deployments/a%20b%3Fc%23d", id="special characters are quoted"),
    ],
)
def test_the_path_of_an_object(key, path):
    assert get(DEPLOYMENTS, key).path == path


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../secrets/x", "a%2fb", "x" * 254])
def test_an_invalid_name_is_rejected(name):
    with pytest.raises(InputError):
        merge_patch(DEPLOYMENTS, ("default", name), {})
    if name:
        with pytest.raises(InputError):
            get(DEPLOYMENTS, (name, "web"))


@pytest.mark.parametrize(
    ("request_", "form"),
    [
        pytest.param(page(DEPLOYMENTS, "", 1.0), "PartialObjectMetadataList", id="a list"),
        pytest.param(page(DEPLOYMENTS, "next", 1.0), "PartialObjectMetadataList", id="its next page"),
        pytest.param(watch(DEPLOYMENTS, "1", 1, 1.0), "PartialObjectMetadata", id="a watch"),
        pytest.param(get(DEPLOYMENTS, ("default", "web")), "PartialObjectMetadata", id="an object"),
        pytest.param(merge_patch(DEPLOYMENTS, ("default", "web"), {}), "PartialObjectMetadata", id="a patch"),
    ],
)
def test_metadata_is_requested_as_a_list_or_as_an_object(request_, form):
    api = KubeInMemory()
    api.put(DEPLOYMENTS.object(("default", "web")), {"apiVersion": "apps/v1", "kind": "Deployment"})
    with MetadataOnlyClient(api).send(request_):
        assert api.requests[-1].accept == f"application/json;as={form};g=meta.k8s.io;v=v1,application/json"
        assert api.requests[-1]._replace(accept=request_.accept) == request_
