"""docs/read-only.yaml grants what is requested, and nothing else of the control planes."""

from pathlib import Path

import pytest
import yaml
from karmada_plane import KARMADA_KINDS, policy, selector, shop, store
from kube_in_memory import KubeInMemory
from kube_store import Place

from berthmaster.kube.requests import APIRequest
from berthmaster.kube.served_types import discover_types
from berthmaster.simulation.workload import ResourceName
from berthmaster_cli.live.collections import CollectionReader, ReadLimits
from berthmaster_cli.live.existence import read_waited_for
from berthmaster_cli.live.fleet import KUBEADMIRAL, read_fleet
from berthmaster_cli.live.workload import read_workload, resolved

DOCS = Path(__file__).parents[4] / "docs"
PAGE = (DOCS / "live.md").read_text()


class NoProgress:
    def listed(self, resource: str, objects: int, expected: int) -> None:
        pass


@pytest.fixture(scope="module")
def requested() -> set[tuple[str, str, str]]:
    """The group, resource and verb of each request for a simulation and for explanations."""
    api = KubeInMemory()
    shop(api)
    for kind in ("OverridePolicy", "ClusterOverridePolicy", "ClusterTaintPolicy"):
        plural = f"{kind.lower().removesuffix('y')}ies"
        api.served.add("policy.karmada.io/v1alpha1", kind, plural, namespaced=kind == "OverridePolicy")
    for namespace in ("shop", ""):
        waiting = policy("waiting", selector(name="web"), namespace=namespace, dependentOverrides=["images"])
        store(api, waiting)
    types = discover_types(api)
    reader = CollectionReader(api, "karmada", ReadLimits(), NoProgress())
    read_waited_for(reader, types, read_fleet(reader, types), ())
    for text in ("deploy/web", "clusterrole/viewer", "cm/settings"):
        served, name = resolved(types, ResourceName.parse(text), "shop")
        read_workload(reader, types, served, name)
    return {right(request) for request in api.requests if request.path not in ("/api", "/apis")}


def right(request: APIRequest) -> tuple[str, str, str]:
    place = Place.of(request.path)
    group = place.root.split("/")[2] if place.root.startswith("/apis/") else ""
    return group, place.plural, request.verb


def granted() -> set[tuple[str, str, str]]:
    role = yaml.safe_load((DOCS / "read-only.yaml").read_text())
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_every_request_is_granted(requested):
    assert requested <= granted()


def test_no_right_on_karmada_is_granted_that_is_not_used(requested):
    ours = {group for group, *_ in granted() if group.endswith("karmada.io")}
    assert {each for each in granted() if each[0] in ours} == {each for each in requested if each[0] in ours}
    assert len(ours) == len({kind[0] for kind in KARMADA_KINDS})


def test_the_page_names_the_kinds_of_kubeadmiral():
    section = PAGE.partition("For KubeAdmiral, grant")[2].partition("##")[0]
    plurals = {f"{kind.lower()}s".replace("policys", "policies") for _, kind in KUBEADMIRAL}
    assert {word.strip("`,") for word in section.split() if word.startswith("`")} >= plurals
