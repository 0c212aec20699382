"""The order of hooks at install, upgrade, rollback and uninstall."""

import pytest
from charts.cases import CASES

from charts import helm

HOOK, WEIGHT, POLICY = "helm.sh/hook", "helm.sh/hook-weight", "helm.sh/hook-delete-policy"


def hooks(objects):
    return {
        (each["kind"], each["metadata"]["name"]): each
        for each in objects
        if HOOK in each["metadata"].get("annotations", {})
    }


def events(each):
    return set(each["metadata"]["annotations"][HOOK].split(","))


@pytest.mark.parametrize("case", ["shadow", "kubeadmiral-without-plugin"])
def test_what_is_no_longer_wanted_is_removed_before_the_release_changes(case):
    found = hooks(helm.render(CASES[case]))["Job", "berthmaster-unwanted"]
    [container] = found["spec"]["template"]["spec"]["containers"]
    assert events(found) == {"pre-upgrade", "pre-rollback"}
    assert container["args"][:2] == ["register", "remove"]


def test_hooks_are_recreated_and_stay_only_after_failures(objects):
    for each in hooks(objects).values():
        if each["kind"] != "Secret" or "certs.berthmaster.io/role" not in each["metadata"]["labels"]:  # see test_rbac
            assert each["metadata"]["annotations"][POLICY] == "before-hook-creation,hook-succeeded"


def test_a_job_ends_by_itself_before_helm_gives_up(objects):
    for each in helm.of_kind(objects, "Job"):
        assert each["spec"]["activeDeadlineSeconds"] < 300, "helm's own default"
        assert each["spec"]["backoffLimit"] <= 6
        assert each["spec"]["template"]["spec"]["restartPolicy"] == "Never"


def test_a_job_outside_a_release_creates_all_objects_that_it_needs(case, objects):
    """An earlier release may lack these objects, and after an uninstall none exist."""
    found = hooks(objects)
    for (kind, name), job in found.items():
        if kind != "Job" or not events(job) & {"pre-upgrade", "pre-rollback", "pre-install", "post-delete"}:
            continue
        spec = job["spec"]["template"]["spec"]
        needs = {("ServiceAccount", spec["serviceAccountName"])}
        mounted = {volume["configMap"]["name"] for volume in spec["volumes"] if "configMap" in volume}
        needs |= {("ConfigMap", name) for name in mounted if name.startswith(helm.RELEASE)}
        for each in needs:
            assert events(found[each]) >= events(job), name
            assert int(found[each]["metadata"]["annotations"][WEIGHT]) < int(job["metadata"]["annotations"][WEIGHT])
        [container] = spec["containers"]
        if CASES[case].get("mode") == "single" or "--certificates" in container["args"]:
            bindings = [one for (kind, _), one in found.items() if kind.endswith("RoleBinding")]
            assert spec["serviceAccountName"] in {one["subjects"][0]["name"] for one in bindings}


def test_jobs_after_an_install_use_the_releases_service_account(objects):
    """The ServiceAccount belongs to the release. It exists after the install and before the uninstall."""
    found = hooks(objects)
    for (kind, _), job in found.items():
        if kind == "Job" and events(job) & {"post-install", "pre-delete"}:
            assert ("ServiceAccount", job["spec"]["template"]["spec"]["serviceAccountName"]) not in found


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"certificates": {"keepOnUninstall": True}}, id="kept if the value says so"),
        pytest.param({"certificates": {"source": "cert-manager"}}, id="left to cert-manager"),
    ],
)
def test_secrets_stay_after_an_uninstall(values):
    found = hooks(helm.render(values))
    [container] = found["Job", "berthmaster-cleanup"]["spec"]["template"]["spec"]["containers"]
    assert "--certificates" not in container["args"]
    assert ("Role", "berthmaster-cleanup") not in found


@pytest.mark.parametrize(
    ("values", "lease"),
    [
        pytest.param({}, "karmada-system/berthmaster-controllers", id="in the target"),
        pytest.param({"mode": "single"}, f"{helm.NAMESPACE}/berthmaster-controllers", id="in the release's namespace"),
        pytest.param(
            {"mode": "single", "controllers": {"leaderElection": {"namespace": "leases", "leaseName": "mine"}}},
            "leases/mine", id="in the given namespace with the given name",
        ),
        pytest.param({"controllers": {"enabled": False}}, None, id="not without controllers"),
        pytest.param(
            {"controllers": {"replicas": 1, "leaderElection": {"enabled": False}}}, None, id="not without election"
        ),
    ],
)  # fmt: skip
def test_the_lease_is_removed_after_the_pods(values, lease):
    objects = helm.render(values)
    job = hooks(objects)["Job", "berthmaster-cleanup"]
    [container] = job["spec"]["template"]["spec"]["containers"]
    named = [text.partition("=")[2] for text in container["args"] if text.startswith("--lease=")]
    assert named == ([lease] if lease else [])
    kept = [text for text in container["args"] if text.startswith("--target-kubeconfig=")]
    assert bool(kept) == bool(lease and "mode" not in values), "the target is asked only where the Lease is there"
    if lease and "mode" in values:
        [role] = [
            one
            for (kind, name), one in hooks(objects).items()
            if name.endswith("-cleanup-target-lease") and kind == "Role"
        ]
        assert f"{role['metadata']['namespace']}/{role['rules'][0]['resourceNames'][0]}" == lease


def test_apply_waits_less_than_its_job_may_take():
    job = helm.named(helm.render({}), "Job", "berthmaster-register")
    [container] = job["spec"]["template"]["spec"]["containers"]
    [wait] = [float(text.partition("=")[2]) for text in container["args"] if text.startswith("--timeout-s=")]
    assert 2 * wait < job["spec"]["activeDeadlineSeconds"], "time for a second try"
