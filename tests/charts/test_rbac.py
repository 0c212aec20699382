"""Rights: exactly those that the code needs, restricted by name wherever RBAC allows it."""

import pytest
import yaml
from charts.cases import CASES
from tables import cases, data

from berthmaster.controllers.rbac import rules_of
from berthmaster.controllers.registry import REGISTRY, selected
from berthmaster.kube.kinds import KARMADA_POLICIES
from berthmaster.kube.watch_options import CLUSTER_KINDS
from charts import helm

# Verbs that no name can restrict.
UNNAMED = {"create", "list", "watch"}


def group_and_plural(path):
    """Of ``/api/v1/nodes``: core's and ``nodes``."""
    _, root, *middle, plural = path.split("/")
    return (middle[0] if root == "apis" else "", plural)


WATCHED = {**{kind: [watched] for kind, watched in CLUSTER_KINDS.items()}, "policies": list(KARMADA_POLICIES)}


def target_objects(values):
    """The roles in the target: rendered in mode single, carried by a ConfigMap otherwise."""
    if values.get("mode") == "single":
        return helm.render(values)
    whole = {**values, "target": {**values.get("target", {}), "rbac": {"manifest": True}}}
    carried = helm.named(helm.render(whole), "ConfigMap", "berthmaster-target-rbac")
    return [each for each in yaml.safe_load_all(carried["data"]["berthmaster-target-rbac.yaml"]) if each]


def roles(objects, component):
    prefix = f"berthmaster-{component}"
    return [each for each in helm.of_kind(objects, "Role", "ClusterRole") if prefix in each["metadata"]["name"]]


def granted(objects, component, suffix=""):
    return {
        (role["metadata"].get("namespace", ""), group, resource, name, verb)
        for role in roles(objects, component)
        if suffix in role["metadata"]["name"]
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
        for verb in rule["verbs"]
    }


def everything(case):
    values = CASES[case]
    return [*helm.render(values), *(target_objects(values) if values.get("mode") != "single" else [])]


def test_no_role_has_a_wildcard_or_allows_privilege_escalation(case):
    for role in helm.of_kind(everything(case), "Role", "ClusterRole"):
        for rule in role["rules"]:
            words = {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
            assert not words & {"*", "escalate", "bind", "impersonate", "deletecollection"}, role["metadata"]["name"]
            assert "rbac.authorization.k8s.io" not in rule["apiGroups"]
            assert not {"pods/exec", "serviceaccounts/token", "nodes/proxy"} & set(rule["resources"])


def test_the_chart_creates_exactly_the_secrets_that_certs_may_write_and_renders_no_data(case, objects):
    written = {
        name for *_, resource, name, verb in granted(objects, "certs") if (resource, verb) == ("secrets", "patch")
    }
    made = [
        each for each in helm.of_kind(objects, "Secret") if "certs.berthmaster.io/role" in each["metadata"]["labels"]
    ]
    assert {each["metadata"]["name"] for each in made} == written
    for each in made:
        assert set(each) == {"apiVersion", "kind", "metadata"}, "an upgrade must not change data or type"
        if case == "without-hooks":
            assert "annotations" not in each["metadata"]
            continue
        assert each["metadata"]["annotations"] == {
            "helm.sh/hook": "pre-install,pre-upgrade",
            "helm.sh/hook-weight": "-20",
            "helm.sh/hook-delete-policy": "hook-failed",
        }, "no rollback or uninstall may delete it, and no upgrade may create it again"
        role = "authority" if each["metadata"]["name"] == "berthmaster-ca" else "serving"
        assert each["metadata"]["labels"]["certs.berthmaster.io/role"] == role


def test_secrets_are_named_and_never_listed_in_the_host(objects):
    objects = [each for each in objects if "-target" not in each["metadata"]["name"]]
    for role in helm.of_kind(objects, "Role", "ClusterRole"):
        for rule in role["rules"]:
            if "secrets" in rule["resources"]:
                assert role["kind"] == "Role"
                assert rule["resourceNames"], "with the right to create Secrets, an account can get any token"
                assert not {"create", "list", "watch"} & set(rule["verbs"])
                assert "delete" not in rule["verbs"] or role["metadata"]["name"] == "berthmaster-cleanup"


@pytest.mark.parametrize("component", ["certs", "register"])
def test_secrets_are_those_that_pods_mount_and_the_authoritys(component):
    objects = helm.render(CASES["extender"])
    mounted = {
        volume["secret"]["secretName"]
        for _, template in helm.pods(objects)
        for volume in template["spec"]["volumes"]
        if volume["name"] == "tls"
    }
    named = {name for _, _, resource, name, _ in granted(objects, component) if resource == "secrets" and name}
    assert named == mounted | {"berthmaster-ca"}


def test_provided_certificates_are_only_read():
    verbs = {verb for *_, verb in granted(helm.render(CASES["certs-off"]), "register")}
    assert verbs == {"get"}


@pytest.mark.parametrize("component", ["certs", "register"])
@pytest.mark.parametrize("case", ["single", "kubeadmiral", "default"])
def test_registered_configurations_are_named(case, component):
    values = CASES[case]
    registered = {
        (each["apiVersion"].partition("/")[0], f"{each['kind'].lower()}s", each["metadata"]["name"])
        for each in helm.registration(helm.render(values))
    }
    rights = granted(target_objects(values), component, "-target")
    events = {("default", "events.k8s.io", "events", "", verb) for verb in ("create", "patch")}
    assert {each for each in rights if each[2] == "events"} == events
    leases = {each for each in rights if each[2] == "leases"}
    elected = component == "register" and "mode" not in values and values.get("controllers", {}).get("enabled", True)
    lease = ("karmada-system", "coordination.k8s.io", "leases", "berthmaster-controllers")
    assert leases == ({(*lease, "get"), (*lease, "delete")} if elected else set()), "its removal"
    rights = {each for each in rights if each[2] not in {"events", "leases"}}
    named = {(group, resource, name) for _, group, resource, name, _ in rights if name}
    profiles = {each for each in registered if each[1] == "schedulingprofiles"}
    assert named == (registered if component == "register" else registered - profiles)
    assert {verb for *_, name, verb in rights if not name} <= {"create"}


@pytest.mark.parametrize("kind", CLUSTER_KINDS)
def test_the_extender_may_watch_its_kinds(kind):
    values = {"mode": "single", "extender": {**CASES["extender"]["extender"], "watch": [kind, "policies"]}}
    wanted = {
        ("", *group_and_plural(watched.collection.path), "", verb)
        for word in (kind, "policies")
        for watched in WATCHED[word]
        for verb in ("list", "watch")
    }
    assert granted(target_objects(values), "extender", "-target") == wanted


def test_the_extender_may_list_bindings_and_templates_only_if_it_watches_them():
    watch = {"watch": ["clusters", "policies", "bindings"]}
    bindings = {"extender": {**CASES["extender"]["extender"], **watch}}
    without, with_bindings, with_all = (
        granted(target_objects(values), "extender", "-target")
        for values in (CASES["extender"], bindings, CASES["extender-live"])
    )
    added = {(group, resource) for _, group, resource, *_ in with_bindings - without}
    lease = ("karmada-system", "coordination.k8s.io", "leases", "berthmaster-controllers", "get")
    assert added == {
        lease[1:3], ("events.k8s.io", "events"),
        *(("work.karmada.io", plural) for plural in ("resourcebindings", "clusterresourcebindings"))
    }  # fmt: skip
    assert {("apps", "deployments"), ("", "configmaps")} < {each[1:3] for each in with_all - with_bindings}
    assert lease in with_all, "it says what moves wait for"
    assert {each[-1] for each in with_all - {lease}} == {"list", "watch"}
    assert not {each for each in with_all if each[2] == "secrets"}


def test_without_controllers_the_extender_reads_no_lease():
    values = {**CASES["extender-live"], "controllers": {"enabled": False}}
    assert not [each for each in granted(target_objects(values), "extender", "-target") if each[2] == "leases"]
    assert "--lease-name" not in helm.text(values)


def test_an_extender_without_watches_has_no_rights():
    assert roles(everything("extender-only"), "extender") == []


def needed(controllers, *, lease, elects=True, estimators="", moves=False, shadow=False):
    """The rights that the controllers declare, with one kind of templates instead of all."""
    places = {"cluster": "", "lease": lease, "estimators": estimators}
    for rule in rules_of(controllers, elects=elects, estimators=bool(estimators), moves=moves, shadow=shadow):
        group, resources = ("apps", ["deployments"]) if rule.group == "*" else (rule.group, rule.resources)
        name = "berthmaster-controllers" if rule.named else ""
        for resource in resources:
            yield from ((places[rule.scope], group, resource, name, verb) for verb in rule.verbs)


@pytest.mark.parametrize("mode", ["single", "karmada"])
@cases(("values", "controllers", "more"), data("chart_tables")["rights of controllers"])
def test_controllers_have_exactly_the_rights_that_they_declare(mode, values, controllers, more):
    on = values.get("featureGates", {})
    running = [
        each for each in selected(values.get("enable", ["*"]), REGISTRY) if each.gate is None or each.gate.name in on
    ]
    assert sorted(each.name for each in running) == controllers, "the table means what the command would run"
    here = {"lease": helm.NAMESPACE if mode == "single" else "karmada-system"}
    wanted = set(needed(controllers, **{**here, **more}))
    assert granted(target_objects({"mode": mode, "controllers": values}), "controllers") == wanted


def test_two_releases_with_one_name_share_no_object_outside_their_namespaces(case):
    def outside(namespace):
        for each in [*helm.render(CASES[case], namespace=namespace)]:
            if each["metadata"].get("namespace") != namespace:
                yield each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]

    assert not {*outside("one")} & {*outside("two")}


def test_the_job_may_remove_the_lease_without_a_registration():
    values = {"webhook": {"enabled": False}, "registration": {"enabled": False}}
    rights = granted(target_objects(values), "register", "-target")
    assert {(resource, verb) for _, _, resource, _, verb in rights} == {("leases", "get"), ("leases", "delete")}


def test_verbs_with_a_name_are_those_a_name_can_restrict(case):
    for role in helm.of_kind(everything(case), "Role", "ClusterRole"):
        for rule in role["rules"]:
            assert not ("resourceNames" in rule and UNNAMED & set(rule["verbs"])), role["metadata"]["name"]


def test_a_separate_target_uses_the_users_of_the_values():
    users = CASES["least-power"]["target"]["users"]
    bindings = helm.of_kind(target_objects(CASES["least-power"]), "RoleBinding", "ClusterRoleBinding")
    assert {binding["subjects"][0]["name"] for binding in bindings} == set(users.values())
    assert {binding["subjects"][0]["kind"] for binding in bindings} == {"User"}
