"""`berthmaster drain` and `undrain` on a control plane over HTTP."""

import json
import threading

import pytest
from faults import only, refuse
from karmada_plane import deployment, resource, store
from tables import cases
from waiting import wait_for

from berthmaster_cli.complete_line import completions

TAINT = {"key": "policy.berthmaster.io/draining", "effect": "NoSchedule"}
FOREIGN = {"key": "cluster.karmada.io/not-ready", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}
ON = json.dumps({"drain": "On"})


@pytest.fixture
def fleet(plane):
    plane.put("web", {"member1": 4})
    plane.put("api", {"member1": 1, "member2": 1})
    plane.put("away", {"member3": 2})
    plane.lease(moves=ON)
    return plane


def keys(taints):
    return [each["key"] for each in taints]


def test_the_taint_is_set_and_foreign_taints_stay(fleet):
    fleet.api.edit("/apis/cluster.karmada.io/v1alpha1/clusters/member1", spec={"taints": [FOREIGN]})
    output = fleet.run("drain", "member1", "--no-wait").stdout
    assert output == "cluster/member1 drains\n"
    first, second = fleet.taints("member1")
    assert first == FOREIGN
    assert second.pop("timeAdded")
    assert second == TAINT
    assert fleet.run("drain", "member1", "--no-wait").stdout == "cluster/member1 drains already\n"


def test_a_taint_that_appears_meanwhile_stays(fleet):
    path = "/apis/cluster.karmada.io/v1alpha1/clusters/member1"

    def health_changes():
        fleet.api.before = lambda _: None
        fleet.api.edit(path, spec={"taints": [FOREIGN]})

    fleet.api.before = lambda request: health_changes() if request.method == "PATCH" else None
    fleet.run("drain", "member1", "--no-wait")
    assert keys(fleet.taints("member1")) == [FOREIGN["key"], TAINT["key"]]


def test_undrain_removes_only_its_taint(fleet):
    other = {**TAINT, "effect": "NoExecute"}
    fleet.api.edit("/apis/cluster.karmada.io/v1alpha1/clusters/member1", spec={"taints": [TAINT, FOREIGN, other]})
    assert fleet.run("undrain", "member1", "--dry-run").stdout == "cluster/member1 no longer drains (dry run)\n"
    assert fleet.run("undrain", "member1", "member2").stdout == (
        "cluster/member1 no longer drains\ncluster/member2 was not draining\n"
    )
    assert fleet.taints("member1") == [FOREIGN]


@cases(
    "spec",
    {
        "that cannot be decoded": {"replicas": "many"},
        "that is too large": {"resource": {"name": "x" * 5_000_000}},
    },
)
def test_a_binding_that_cannot_be_read_is_named_and_hides_no_other(fleet, spec):
    path = "/apis/work.karmada.io/v1alpha2/namespaces/theirs/resourcebindings/odd"
    fleet.api.put(path, {"metadata": {"namespace": "theirs", "name": "odd"}, "spec": spec})
    planned = fleet.run("drain", "member1", "--dry-run", "-o", "json", code=1)
    rows = {each["workload"]: each["state"] for each in json.loads(planned.stdout)["left"]}
    assert rows == {
        "shop/Deployment/api": "moving", "shop/Deployment/web": "moving", "theirs/ResourceBinding/odd": "not known"
    }  # fmt: skip
    assert "ResourceBinding theirs/odd" in planned.stderr
    assert "nothing is known to move" in fleet.run("moves").stdout
    fleet.put("web", {"member3": 4})
    fleet.put("api", {"member2": 2})
    drained = json.loads(fleet.run("drain", "member1", "-o", "json", code=1).stdout)
    assert (drained["drained"], [each["state"] for each in drained["left"]]) == (False, ["not known"])


@cases(
    ("words", "incomplete", "expected"),
    {
        "a part of a name": ([], "member", ["member1", "member2", "member3"]),
        "the names that are not there yet": (["member1", "member3"], "", ["member2"]),
        "no cluster starts so": ([], "other", []),
    },
)
@pytest.mark.parametrize("command", ["drain", "undrain"])
def test_names_of_clusters_are_completed(fleet, command, words, incomplete, expected):
    lines = completions([command, "--kubeconfig", str(fleet.kubeconfig), *words], incomplete)
    assert [each for each in lines[:-1] if not each.startswith("-")] == expected


def test_nothing_is_completed_without_an_answer(fleet, tmp_path):
    fleet.server.storm = lambda _verb: "503"
    assert completions(["drain", "--kubeconfig", str(fleet.kubeconfig)], "m")[:-1] == []
    assert completions(["drain", "--kubeconfig", str(tmp_path / "absent")], "m")[:-1] == []


def test_clusters_are_selected_by_labels(fleet):
    fleet.run("drain", "-l", "region in (member1,member2)", "--no-wait")
    assert [bool(fleet.taints(name)) for name in ("member1", "member2", "member3")] == [True, True, False]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name the clusters, or select them with -l"),
        (["member1", "-l", "a=b"], "name the clusters, or select them with -l"),
        (["member9"], "there is no cluster 'member9'; did you mean member"),
        (["-l", "a=b"], "no cluster matches the selector 'a=b'"),
        (["-l", "a=="], "a=="),
    ],
)
@pytest.mark.parametrize("command", ["drain", "undrain"])
def test_wrong_clusters_are_an_error_and_change_nothing(fleet, command, words, message):
    result = fleet.run(command, *words, code=2)
    assert message in (result if isinstance(result, str) else result.output)
    assert fleet.api.methods.count("PATCH") == 0


class TestDryRun:
    def test_it_shows_where_each_workload_would_go(self, fleet):
        output = fleet.run("drain", "member1", "--dry-run").stdout
        assert "would go to member2:2, member3:2" in output
        assert output.endswith("2 of 2 workloads would leave member1, 0 would stay\n")
        assert fleet.api.methods.count("PATCH") == 0

    def test_it_names_what_would_stay_and_why(self, fleet):
        fleet.put("theirs", {"member1": 1}, scheduler="default-scheduler")
        fleet.put("sticky", {"member1": 1}, tolerates=True)
        fleet.put("huge", {"member1": 1}, replicaRequirements={"resourceRequest": {"cpu": "500"}})
        fleet.put("paused", {"member1": 1}, suspension={"scheduling": True})
        report = json.loads(fleet.run("drain", "member1", "--dry-run", "-o", "json", code=1).stdout)
        states = {row["workload"].rpartition("/")[2]: (row["state"], row["message"]) for row in report["left"]}
        assert states["theirs"] == ("not ours", "default-scheduler schedules it")
        assert states["sticky"][0] == "tolerates"
        assert states["paused"][0] == "suspended"
        why = "1 replica must be assigned, but the 2 selected clusters hold 0"
        assert states["huge"] == ("waiting", f"fits nowhere else: {why}")
        assert states["web"][0] == "moving"

    def test_it_names_what_keeps_a_copy_there_before_anybody_moves(self, fleet):
        fleet.work("web", "member1", paused=True)
        fleet.put("data", {"member1": 1})
        fleet.work("data", "member1", kind="StatefulSet", volumeClaimTemplates=[{"metadata": {"name": "disk"}}])
        fleet.put("frozen", {"member1": 1}, suspension={"dispatching": True})
        report = json.loads(fleet.run("drain", "member1", "--dry-run", "-o", "json", code=1).stdout)
        states = {row["workload"].rpartition("/")[2]: (row["state"], row["message"]) for row in report["left"]}
        assert states["web"] == ("waiting", "the Deployment is paused, so no pod would start")
        assert states["data"][0] == "waiting"
        assert "disk would stay behind on member1" in states["data"][1]
        assert states["frozen"][0] == "waiting"
        assert "suspended" in states["frozen"][1]
        assert states["api"][0] == "moving"

    def test_a_policy_may_say_that_volumes_can_be_lost(self, fleet):
        fleet.put("data", {"member1": 1})
        fleet.work("data", "member1", kind="StatefulSet", volumeClaimTemplates=[{"metadata": {"name": "disk"}}])
        allows = {"annotations": {"policy.berthmaster.io/move-volumes": "MayBeLost"}}
        fleet.put_policy("p", **allows)
        held = {"propagationpolicy.karmada.io/namespace": "shop", "propagationpolicy.karmada.io/name": "p"}
        fleet.api.edit(fleet.path("data"), metadata={"annotations": held})
        assert "3 of 3 workloads would leave member1" in fleet.run("drain", "member1", "--dry-run").stdout

    @cases(
        ("settings", "stays"),
        {
            "none": ({}, ["data"]),
            "volumes may be lost": ({"volumes": "MayBeLost"}, []),
            "old copies go first": ({"strategy": "BreakBeforeMake"}, ["data", "kept"]),
            "of a later version": ({"volumes": "Copied", "strategy": "Both"}, ["data"]),
            "a rule": ({"moveRules": [{"selector": {"kinds": ["Deployment"]}, "volumes": "MayBeLost"}]}, []),
            "a rule of a later version": ({"moveRules": [{"selector": {}, "strategy": "Both"}]}, ["data"]),
        },
    )
    def test_the_settings_and_rules_of_the_controllers_count_as_far_as_they_are_known(self, fleet, settings, stays):
        fleet.put("data", {"member1": 1})
        fleet.work("data", "member1", kind="StatefulSet", volumeClaimTemplates=[{"metadata": {"name": "disk"}}])
        fleet.put("kept", {"member1": 1}, preserveResourcesOnDeletion=True)
        fleet.lease(moves=json.dumps({"drain": "On", "rules": 1, **settings}))
        planned = fleet.run("drain", "member1", "--dry-run", "-o", "json", code=1 if stays else 0)
        waiting = [each for each in json.loads(planned.stdout)["left"] if each["state"] == "waiting"]
        assert [each["workload"].rpartition("/")[2] for each in waiting] == stays
        unknown = "the rules of the configuration are not known here" in planned.stderr
        assert unknown == (not settings.get("moveRules") or "Both" in str(settings))

    @pytest.mark.parametrize(
        ("strategy", "limit", "why"),
        [
            ("BreakBeforeMake", "200m", "once the old copies are gone"),
            ("BreakBeforeMake", "300m", ""),
            ("MakeBeforeBreak", "500m", "beside the old copies"),
            ("MakeBeforeBreak", "600m", ""),
        ],
    )
    def test_a_quota_without_room_keeps_a_workload(self, fleet, strategy, limit, why):
        requests = {"resourceRequest": {"cpu": "100m"}}
        fleet.put("full", {"member1": 3}, replicaRequirements=requests)
        fleet.api.served.add("policy.karmada.io/v1alpha1", "FederatedResourceQuota", "federatedresourcequotas")
        quota = resource("all", "FederatedResourceQuota", "policy.karmada.io/v1alpha1", namespace="shop")
        store(fleet.api, {**quota, "spec": {"overall": {"cpu": limit}}, "status": {"overallUsed": {"cpu": "300m"}}})
        fleet.lease(moves=json.dumps({"drain": "On", "strategy": strategy}))
        planned = fleet.run("drain", "member1", "--dry-run", "-o", "json", code=1 if why else 0)
        messages = {each["workload"].rpartition("/")[2]: each["message"] for each in json.loads(planned.stdout)["left"]}
        expected = f"quota all has no room for cpu {why}" if why else "would go to member2:2, member3:1"
        assert messages["full"] == expected

    def test_the_lease_says_which_scheduler_the_controllers_are(self, fleet):
        fleet.put("theirs", {"member1": 1}, scheduler="default-scheduler")
        fleet.lease(moves=json.dumps({"drain": "On", "scheduler": "default-scheduler"}))

        def states(*words):
            planned = fleet.run("drain", "member1", "--dry-run", "-o", "json", *words, code=1)
            return {each["workload"].rpartition("/")[2]: each["state"] for each in json.loads(planned.stdout)["left"]}

        assert states() == {"theirs": "moving", "web": "not ours", "api": "not ours"}
        assert states("--scheduler-name=berthmaster")["web"] == "moving"

    @pytest.mark.parametrize("kind", ["Works", "FederatedResourceQuotas"])
    def test_what_may_not_be_read_is_named(self, fleet, kind):
        fleet.api.before = only(refuse(403), part=f"/{kind.lower()}")
        assert f"no right to list {kind}" in fleet.run("drain", "member1", "--dry-run").stderr

    def test_a_workload_without_a_work_is_asked_itself_whether_it_has_volumes(self, fleet):
        identity = {"resourcebinding.karmada.io/permanent-id": "of-data"}
        fleet.put("data", {"member1": 1})
        fleet.api.edit(fleet.path("data"), metadata={"labels": identity})
        claim = {"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}
        store(fleet.api, deployment("data", 1, volumes=[claim]))
        planned = fleet.run("drain", "member1", "--dry-run", "-o", "json", code=1)
        messages = {each["workload"].rpartition("/")[2]: each["message"] for each in json.loads(planned.stdout)["left"]}
        assert messages["data"].startswith("the data in disk would stay behind on member1")
        assert messages["web"].startswith("would go to")

    def test_a_duplicated_workload_leaves_if_another_cluster_keeps_a_copy(self, fleet):
        affinity = {"clusterAffinity": {"clusterNames": ["member1", "member2"]}}
        duplicated = {**affinity, "replicaScheduling": {"replicaSchedulingType": "Duplicated"}}
        fleet.put("copies", {"member1": 1, "member2": 1}, placement=duplicated, replicas=1)
        assert "would go to member2:1\n" in fleet.run("drain", "member1", "--dry-run").stdout

    def test_with_two_clusters_no_workload_goes_from_one_to_the_other(self, fleet):
        report = json.loads(fleet.run("drain", "member1", "member2", "--dry-run", "-o", "json").stdout)
        assert {row["message"] for row in report["left"]} == {"would go to member3:4", "would go to member3:2"}


class TestWaiting:
    def move_all(self, fleet, *names):
        """Play the controllers: when the taint appears, the workloads leave one after the other."""

        def play():
            wait_for(lambda: fleet.taints("member1"))
            for name in names:
                moving = {"reason": "Drain", "phase": "Surging", "target": {"member3": 1}}
                fleet.put(name, {"member1": 1, "member3": 1}, moving)
            for name in names:
                fleet.put(name, {"member3": 1})

        thread = threading.Thread(target=play)
        thread.start()
        return thread

    def test_it_ends_when_the_clusters_are_drained(self, fleet):
        thread = self.move_all(fleet, "web", "api")
        output = fleet.run("drain", "member1", "--timeout", "30").stdout
        thread.join()
        assert output == "cluster/member1 drains\nmember1 drained\n"

    def test_workloads_of_other_schedulers_are_named_and_count_unless_ignored(self, fleet):
        fleet.put("theirs", {"member1": 1}, scheduler="default-scheduler")
        thread = self.move_all(fleet, "web", "api")
        output = fleet.run("drain", "member1", "--timeout", "30", code=1).stdout
        thread.join()
        assert "default-scheduler schedules it" in output
        assert output.endswith("1 workload is still on member1\n")
        output = fleet.run("drain", "member1", "--ignore-others").stdout
        assert output.endswith("member1 drained; 1 workload of other schedulers remains\n")

    def test_after_the_timeout_it_says_what_each_workload_waits_for(self, fleet):
        fleet.put("web", {"member1": 4}, {"reason": "Drain", "phase": "Stabilising", "message": "budget a: closed"})
        result = fleet.run("drain", "member1", "--timeout", "0.1", code=1)
        assert "budget a: closed" in result.stdout
        assert "no move has begun" in result.stdout
        assert fleet.taints("member1")

    def test_without_a_configuration_of_moves_it_does_not_wait(self, fleet):
        fleet.lease()
        message = "the controllers run without --moves-config, so nothing moves by a drain"
        assert message in fleet.run("drain", "member1", "--dry-run").stderr
        assert message in fleet.run("drain", "member1", code=1).stderr

    def test_data_stays_on_standard_output(self, fleet):
        fleet.lease()
        result = fleet.run("drain", "member1", "-o", "json", code=1)
        assert json.loads(result.stdout)["drained"] is False
        assert "cluster/member1 drains" in result.stderr


@cases("args", {"a plan": ["--dry-run"], "a drain": []})
def test_workloads_of_another_scheduler_stay_and_the_remedy_is_named(plane, args):
    plane.put("web", {"member1": 4}, scheduler="default-scheduler")
    plane.lease(moves=ON)
    result = plane.run("drain", "member1", *args, code=1)
    assert "default-scheduler" in result.stdout
    assert "Hand the workloads of other schedulers over (docs/switch-over.md)" in result.stderr
    assert plane.run("drain", "member1", "--ignore-others", *args)
