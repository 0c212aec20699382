"""`berthmaster moves` and `moves resume`, on a control plane over HTTP and on a dump."""

import json
import threading

import pytest
import yaml
from click.testing import CliRunner
from faults import only, refuse
from karmada_plane import store
from tables import cases, data

from berthmaster.views.move_rows import MoveRow, RowState, changed_rows
from berthmaster_cli.main import main
from berthmaster_cli.moves.reading import FollowedBindings

SURGING, WAITING, HELD_DOWN, BRAKE = data("moves_under_way").values()


@pytest.fixture
def moving(plane):
    plane.put("web", {"member1": 4, "member2": 4}, SURGING)
    plane.put("api", {"member2": 2}, WAITING)
    plane.put("cron", {"member2": 1}, HELD_DOWN)
    plane.put("still", {"member1": 1})
    plane.lease()
    return plane


def test_the_table_has_what_moves_and_what_waits_for_what(moving):
    lines = moving.run("moves").stdout.splitlines()
    assert [line.split()[0] for line in lines] == [
        "WORKLOAD", "shop/Deployment/web", "shop/Deployment/api", "shop/Deployment/cron", "1",
    ]  # fmt: skip
    assert "member2:4   member1:4" in lines[1]
    assert "deadline 2026-06-01 12:15:00Z" in lines[1]
    assert "budget fleet: 20 moves under way, at most 20" in lines[2]
    assert "not healthy within 15m; held down until 2099-01-01 00:00:00Z after 2 failures" in lines[3]
    assert lines[4] == "1 overdue, 1 waiting, 1 held down"


def test_the_data_has_every_field(moving):
    found = json.loads(moving.run("moves", "-o", "json").stdout)
    assert found["brake"] == {"engaged": False}
    assert [each["state"] for each in found["moves"]] == ["overdue", "waiting", "held down"]
    assert found["moves"][2]["heldDownUntil"] == "2099-01-01T00:00:00Z"
    assert yaml.safe_load(moving.run("moves", "-o", "yaml").stdout)["moves"] == found["moves"]


def test_controllers_that_do_not_renew_their_lease_are_named(moving):
    assert "no controller" not in moving.run("moves").stdout
    moving.lease(renewed="2026-06-01T12:00:00.000000Z")
    assert "no controller has renewed its lease for" in moving.run("moves").stdout.splitlines()[0]
    found = json.loads(moving.run("moves", "-o", "json").stdout)["controllers"]
    assert found == {"renewedAt": "2026-06-01T12:00:00Z", "silent": True}


def test_names_and_wide_columns(moving):
    assert moving.run("moves", "-o", "name").stdout.split()[0] == "shop/Deployment/web"
    wide = moving.run("moves", "-o", "wide").stdout
    assert "BreakBeforeMake" in wide
    assert "cron-deployment" in wide


@pytest.fixture
def labelled(moving):
    """The same with their templates. web and still have the label of the team."""
    for name, team in (("web", "shop"), ("api", "billing"), ("cron", "billing"), ("still", "shop")):
        workload = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 1}}
        store(moving.api, {**workload, "metadata": {"name": name, "namespace": "shop", "labels": {"team": team}}})
    return moving


@cases(
    ("selector", "names"),
    {
        "one value": ("team=shop", ["web"]),
        "another value": ("team!=shop", ["api", "cron"]),
        "a set": ("team in (shop, billing)", ["web", "api", "cron"]),
    },
)
def test_labels_choose_among_what_moves(labelled, tmp_path, selector, names):
    path = tmp_path / "dump.json"
    labelled.run("simulate", "--dump", path)
    live = labelled.run("moves", "-l", selector, "-o", "name").stdout
    dumped = CliRunner().invoke(main, ["moves", "-f", str(path), "-l", selector, "-o", "name"]).stdout
    assert dumped == live
    assert live.split() == [f"shop/Deployment/{each}" for each in names]


def test_labels_that_no_moving_workload_has_are_named(labelled):
    found = labelled.run("moves", "-l", "team=none")
    assert "no workload with a move has the labels of -l 'team=none'" in found.stderr
    assert "is not a selector" in labelled.run("moves", "-l", "team==(", code=2)


def test_labels_need_the_right_to_list(labelled):
    labelled.api.before = only(refuse(403), part="/deployments$")
    assert "no right to list deployments.apps, whose labels -l compares" in labelled.run(
        "moves", "-l", "team=shop", code=2
    )


def test_labels_choose_among_what_is_followed(labelled, monkeypatch):
    looks = []

    def news(followed):
        looks.append(followed)
        if len(looks) == 2:
            path = "/apis/apps/v1/namespaces/shop/deployments/api"
            labelled.api.edit(path, metadata={"labels": {"team": "shop"}})
        if len(looks) > 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(FollowedBindings, "news", news)
    monkeypatch.setattr("berthmaster_cli.moves.command._LOOK_S", 0.01)
    monkeypatch.setattr("berthmaster_cli.moves.command._LABELS_S", 0)
    lines = labelled.run("moves", "-w", "-l", "team=shop", "-o", "name", code=1).stdout.split()
    assert lines == ["shop/Deployment/web", "shop/Deployment/api"]


def test_another_namespace_has_no_moves(moving):
    assert moving.run("moves", "-n", "other").stdout == "nothing moves\n"


def test_files_without_bindings_do_not_say_that_nothing_moves(tmp_path):
    path = tmp_path / "clusters.json"
    cluster = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "a"}}
    path.write_text(json.dumps(cluster))
    result = CliRunner().invoke(main, ["moves", "-f", str(path)])
    assert result.stdout == "nothing is known to move\n"
    assert "the manifests have no binding: moves are not known" in result.stderr


def test_the_storm_brake_blocks_what_moves_and_waits(moving):
    moving.lease(storm_brake=json.dumps(BRAKE))
    lines = moving.run("moves").stdout.splitlines()
    assert lines[0].startswith("storm brake engaged for")
    assert BRAKE["reason"] in lines[0]
    assert lines[-1] == "2 blocked by the storm brake, 1 held down"
    assert json.loads(moving.run("moves", "-o", "json").stdout)["brake"]["engaged"] is True


def test_an_invalid_configuration_and_a_pause_are_shown(moving):
    moving.lease(moves=json.dumps({"pause": "Planned", "problem": "f: soak: '5' is not a duration"}))
    output = moving.run("moves").stdout
    assert "the configuration of moves is invalid: f: soak: '5' is not a duration" in output
    assert "the configuration pauses planned moves" in output


def test_an_annotation_that_cannot_be_read_is_shown(plane):
    plane.put("web", {"member1": 4}, {"phase": "Jumping"})
    plane.lease()
    output = plane.run("moves").stdout
    assert "invalid" in output
    assert "phase" in output


@pytest.mark.parametrize("options", [[], ["--lease-name", "other"]])
def test_without_a_lease_the_state_of_the_brake_is_not_known(plane, options):
    result = plane.run("moves", *options)
    assert "the state of the storm brake is not known" in result.stderr
    assert json.loads(plane.run("moves", "-o", "json").stdout)["brake"] == {}


def test_a_dump_is_read_as_a_control_plane(moving, tmp_path):
    path = tmp_path / "dump.json"
    moving.run("simulate", "--dump", path)
    result = CliRunner().invoke(main, ["moves", "-f", str(path)])
    assert result.exit_code == 0, result.output
    assert "1 overdue, 1 waiting, 1 held down" in result.stdout
    assert "no Lease of the controllers" in result.stderr


@pytest.mark.parametrize("words", [["-f", "x", "-w"], ["-f", "x", "resume"]], ids=" ".join)
def test_a_dump_can_be_neither_followed_nor_changed(words):
    result = CliRunner().invoke(main, ["moves", *words])
    assert result.exit_code == 2
    assert "cannot be combined with -f" in result.output


def test_another_api_server_is_an_error(plane):
    plane.api.served.withdraw("work.karmada.io/v1alpha2")
    assert "does not serve work.karmada.io/v1alpha2" in plane.run("moves", code=2)


def test_following_prints_what_changed_and_what_is_gone():
    def row(name, message=""):
        return MoveRow(name, RowState.WAITING, f"{name}-deployment", message=message)

    known = {each.workload: each for each in (row("same"), row("other"), row("gone"))}
    found = changed_rows(known, [row("same"), row("other", "budget"), row("new")])
    assert [(each.workload, each.state.value, each.message) for each in found] == [
        ("other", "waiting", "budget"), ("new", "waiting", ""), ("gone", "done", "no move"),
    ]  # fmt: skip


class TestResume:
    def test_a_brake_that_is_not_engaged_stays_so(self, moving):
        assert moving.run("moves", "resume").stdout == "the storm brake is not engaged\n"

    def test_a_dry_run_names_the_clusters_whose_loss_would_be_accepted(self, moving):
        moving.lease(storm_brake=json.dumps(BRAKE))
        moving.api.edit(
            "/apis/cluster.karmada.io/v1alpha1/clusters/member2",
            status={"conditions": [{"type": "Ready", "status": "False"}]},
        )
        output = moving.run("moves", "resume", "--dry-run").stdout
        assert "after this, the brake accepts the loss of 1 unready cluster: member2" in output
        assert moving.api.methods.count("PATCH") == 0

    def test_the_leader_ends_the_brake(self, moving):
        moving.lease(storm_brake=json.dumps(BRAKE))
        requests = []

        def leader(change):
            annotations = change.content["metadata"].get("annotations") or {}
            text = annotations.pop("policy.berthmaster.io/storm-brake-resume", None)
            if text is not None:
                requests.append(json.loads(text))
                threading.Thread(target=moving.lease).start()

        moving.api.on_change = leader
        output = moving.run("moves", "resume", "--message", "the site is gone").stdout
        assert output.endswith("the storm brake has ended\n")
        assert requests[0]["message"] == "the site is gone"

    def test_without_a_leader_the_command_fails_in_the_end(self, moving):
        moving.lease(storm_brake=json.dumps(BRAKE))
        result = moving.run("moves", "resume", "--timeout", "1", code=1)
        assert "no leader has ended the brake yet" in result.stderr

    def test_without_a_lease_there_is_nothing_to_resume(self, plane):
        assert "there is no Lease" in plane.run("moves", "resume", code=2)
