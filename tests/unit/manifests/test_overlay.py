"""Files over a dump: what an apply replaces and what it keeps, and the record of a dump."""

from datetime import UTC, datetime

import pytest
import yaml

from berthmaster.manifests import load_manifests
from berthmaster.manifests.snapshot import FleetSnapshot, ListRecord
from berthmaster.model.errors import ManifestError
from berthmaster.model.gaps import Gap, GapKind
from berthmaster.model.readers import ANY_READER

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
SNAPSHOT = FleetSnapshot(
    "karmada", NOW, (ListRecord("deployments.apps", "", "17", 2, NOW),), gaps=(Gap(GapKind.NO_TEMPLATES),)
)
CLUSTER = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "member1"}, "spec": {}}


def deployment(replicas=2, **metadata):
    identity = {"name": "web", "namespace": "shop"}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {**identity, **metadata},
        "spec": {"replicas": replicas},
    }  # fmt: skip


STORED = {
    **deployment(
        uid="u1",
        labels={"app": "web", "propagationpolicy.karmada.io/permanent-id": "p1"},
        annotations={"propagationpolicy.karmada.io/name": "web", "team": "a"},
    ),
    "status": {"readyReplicas": 2},
}


@pytest.fixture
def load(tmp_path):

    def call(dumped, *files):
        paths = []
        for number, objects in enumerate((dumped, *files)):
            path = tmp_path / f"{number}.yaml"
            path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": objects}))
            paths.append(path)
        return load_manifests(paths)

    return call


def dump(*objects):
    return [SNAPSHOT.manifest(), CLUSTER, *objects]


def test_the_same_object_of_a_file_replaces_that_of_a_dump(load):
    (only,) = load(dump(STORED), [deployment(5)]).templates
    assert only.raw["spec"] == {"replicas": 5}


def test_an_overlay_keeps_what_an_apply_keeps(load):
    (only,) = load(dump(STORED), [deployment(5, labels={"app": "new"})]).templates
    assert only.raw["metadata"] == {
        "name": "web", "namespace": "shop", "uid": "u1",
        "labels": {"app": "new", "propagationpolicy.karmada.io/permanent-id": "p1"},
        "annotations": {"propagationpolicy.karmada.io/name": "web"},
    }  # fmt: skip
    assert only.raw["status"] == {"readyReplicas": 2}


def test_a_status_in_a_file_replaces_the_stored_status(load):
    (only,) = load(dump(STORED), [{**deployment(5), "status": {}}]).templates
    assert only.raw["status"] == {}


def test_new_objects_of_a_file_are_added(load):
    named = [each.name for each in load(dump(STORED), [{**deployment(), "metadata": {"name": "other"}}]).templates]
    assert named == ["web", "other"]


@pytest.mark.parametrize("first", [dump(STORED), [CLUSTER]], ids=["over a dump", "without a dump"])
def test_an_object_that_two_files_define_is_an_error(load, first):
    with pytest.raises(ManifestError, match="Deployment 'shop/web' is already defined"):
        load(first, [deployment(5)], [deployment(6)])


def test_a_dump_says_when_it_was_read_and_what_is_missing(load):
    manifests = load(dump(STORED))
    assert (manifests.read_at, manifests.gaps) == (NOW, [Gap(GapKind.NO_TEMPLATES)])
    assert manifests.ignored == []


def test_a_stored_object_without_a_namespace_is_cluster_scoped_even_if_its_kind_is_unknown(load):
    widget = {"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "w", "uid": "u2"}}
    applied = {"apiVersion": "example.org/v1", "kind": "Gadget", "metadata": {"name": "g"}}
    assert [each.namespace for each in load(dump(widget, applied)).templates] == ["", "default"]


def test_an_invalid_object_of_a_dump_is_left_out_and_reported(load):
    broken = {**CLUSTER, "metadata": {"name": "member2"}, "spec": {"zones": 3}}
    manifests = load(dump(broken))
    assert [each.name for each in manifests.clusters] == ["member1"]
    assert (manifests.gaps[-1].kind, manifests.gaps[-1].about) == (GapKind.INVALID_OBJECT, ("Cluster/member2",))
    assert "spec.zones" in manifests.gaps[-1].text(ANY_READER)


def test_an_invalid_object_of_a_file_over_a_dump_is_an_error(load):
    with pytest.raises(ManifestError, match="zones"):
        load(dump(), [{**CLUSTER, "metadata": {"name": "member2"}, "spec": {"zones": 3}}])


def test_a_dump_of_another_version_is_an_error(load):
    with pytest.raises(ManifestError, match=r"berthmaster\.io/v9"):
        load([{**SNAPSHOT.manifest(), "apiVersion": "berthmaster.io/v9"}, CLUSTER])
