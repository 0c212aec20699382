"""A folder that changes while the service runs."""

import shutil

import pytest
from conftest import ROOT
from servers import running
from waiting import wait_for

from berthmaster.native_api.client import Client
from berthmaster.native_api.what_if import DownChange
from extender.state.state import NO_SOURCE

EXAMPLES = ROOT / "examples"


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "manifests"
    made.mkdir()
    shutil.copy(EXAMPLES / "clusters.yaml", made)
    shutil.copytree(EXAMPLES / "groups", made / "groups")
    return made


@pytest.fixture
def server(folder, tmp_path):
    flags = ("-f", folder, "--interval-s", 0.1, "--workers", 1)
    with running("extender", *flags, log=tmp_path / "log") as started:
        yield started


def names(server):
    with Client(server.url) as client:
        return [cluster.name for cluster in client.clusters()]


def test_changes_are_read_and_invalid_content_is_not_used(server, folder):
    path = folder / "clusters.yaml"
    before = path.read_text()
    path.write_text(before.replace("member5", "member6"))
    wait_for(lambda: "member6" in names(server))
    path.write_text("{broken")
    wait_for(lambda: "stale since" in server.probe("/readyz")[1])
    status, text = server.probe("/readyz")
    assert status == 200, "the last valid state is in use"
    assert "clusters.yaml" in text
    assert "member6" in names(server)
    wait_for(lambda: "berthmaster_extender_state_stale 1.0" in server.metrics())
    assert 'berthmaster_extender_source_failures_total{source="folder"} 1.0' in server.metrics()
    assert "the new state cannot be used" in server.log.read_text()
    path.write_text(before)
    wait_for(lambda: server.probe("/readyz")[1] == "ok\n")
    assert "member5" in names(server)


def test_without_manifests_only_requests_with_clusters_are_answered(tmp_path):
    with running("extender", "--workers", 1, log=tmp_path / "log") as server:
        assert server.probe("/readyz") == (200, f"ok\n{NO_SOURCE}\n")
        with Client(server.url) as client, pytest.raises(Exception, match="the extender has no fleet"):
            client.simulate([])
    assert NO_SOURCE in (tmp_path / "log").read_text()


def test_manifests_without_workloads_are_a_gap_of_every_answer(tmp_path):
    with (
        running("extender", "-f", EXAMPLES / "clusters.yaml", "--workers", 1, log=tmp_path / "log") as server,
        Client(server.url) as client,
    ):
        answers = [
            client.simulate([]), client.fleet(), client.workloads(), client.moves(), client.policies(),
            client.plan(changes=[DownChange("member1")]).plan,
        ]  # fmt: skip
    gap = "the manifests have no binding and no resource template: the workloads of the fleet are not known"
    assert [gap in each.gaps for each in answers] == [True] * 6
    assert not answers[-1].complete
