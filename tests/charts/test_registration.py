"""What is registered in the target: exactly the kinds that the webhook reviews, so that it blocks nothing else."""

from urllib.parse import urlsplit

import pytest
import yaml
from charts.cases import CASES, IMPACT

from certs.ownership import installation
from charts import helm
from extender.app import all_routes
from webhook.admission.catalog import IMPACT_PATHS, ROUTES

EVERYTHING = {
    "webhook": {"reviews": {"karmada": True, "kubeAdmiral": True}, "impact": IMPACT},
    "extender": CASES["impact"]["extender"],
}
WEBHOOK_KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
VERBS = {"MutatingWebhookConfiguration": "mutate", "ValidatingWebhookConfiguration": "validate"}


def plural(kind):
    return f"{kind[:-1]}ies".lower() if kind.endswith("y") else f"{kind}s".lower()


def webhooks(objects):
    for configuration in helm.of_kind(helm.registration(objects), *WEBHOOK_KINDS):
        for entry in configuration["webhooks"]:
            yield configuration["kind"], entry


def path_of(entry):
    client = entry["clientConfig"]
    return urlsplit(client["url"]).path if "url" in client else client["service"]["path"]


@pytest.mark.parametrize("mode", ["karmada", "single"])
def test_the_rules_are_the_routes_of_the_webhook(mode):
    registered = {
        path_of(entry): (rule["apiGroups"], rule["resources"])
        for _, entry in webhooks(helm.render({**EVERYTHING, "mode": mode}))
        for rule in entry["rules"]
    }
    assert registered == {path: ([route.group], [plural(route.kind)]) for path, route in ROUTES.items()}


def test_only_policies_are_ever_covered(objects):
    known = {(route.group, plural(route.kind)) for route in ROUTES.values()}
    for kind, entry in webhooks(objects):
        [rule] = entry["rules"]
        [group], [resource] = rule["apiGroups"], rule["resources"]
        assert (group, resource) in known
        deletes = path_of(entry) in IMPACT_PATHS
        assert rule["operations"] == ["CREATE", "UPDATE", *(["DELETE"] if deletes else [])]
        assert path_of(entry).startswith("/impact-" if deletes else f"/{VERBS[kind]}-")
        assert rule["scope"] == ("Namespaced" if resource == "propagationpolicies" else "Cluster")


def test_entries_are_named_once_and_promise_no_effects(case, objects):
    entries = list(webhooks(objects))
    names = [(kind, entry["name"]) for kind, entry in entries]
    assert len(names) == len(set(names))
    for _, entry in entries:
        assert entry["name"].endswith(".berthmaster.io")
        recorded = "ledger" in CASES[case] or (path_of(entry) in IMPACT_PATHS and case == "impact-gate")
        effects = "NoneOnDryRun" if recorded else "None"
        assert (entry["sideEffects"], entry["admissionReviewVersions"]) == (effects, ["v1"])
        assert "caBundle" not in entry["clientConfig"], "`register` and `certs run` own that field"


def test_no_label_says_that_a_tool_applied_what_a_job_registers(objects):
    """Argo CD finds its objects by app.kubernetes.io/instance, and removes those that stand in no manifest."""
    for each in helm.registration(objects):
        labels = each["metadata"]["labels"]
        assert not labels.keys() & {"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "helm.sh/chart"}
        assert labels["app.kubernetes.io/part-of"] == "berthmaster"


def test_what_a_job_registers_has_the_annotations_of_a_value():
    given = {"argocd.argoproj.io/compare-options": "IgnoreExtraneous"}
    values = {**CASES["kubeadmiral"], "registration": {"annotations": given}}
    found = helm.registration(helm.render(values))
    assert [each["metadata"]["annotations"] for each in found] == [given] * len(found)
    assert {each["kind"] for each in found} == {
        *WEBHOOK_KINDS,
        "SchedulerPluginWebhookConfiguration",
        "SchedulingProfile",
    }


@pytest.mark.parametrize(
    ("address", "url", "name"),
    [
        pytest.param("webhook.example.org", "webhook.example.org:443", "webhook.example.org", id="a name"),
        pytest.param("192.0.2.7:8443", "192.0.2.7:8443", "192.0.2.7", id="an IPv4 address and a port"),
        pytest.param("2001:db8::7", "[2001:db8::7]:443", "2001:db8::7", id="an IPv6 address"),
        pytest.param("[2001:db8::7]", "[2001:db8::7]:443", "2001:db8::7", id="an IPv6 address in brackets"),
        pytest.param("[2001:db8::7]:8443", "[2001:db8::7]:8443", "2001:db8::7", id="an IPv6 address and a port"),
    ],
)
def test_the_target_reaches_the_webhook_by_an_address_of_either_family(address, url, name):
    objects = helm.render({"webhook": {"service": {"address": address}}})
    called = {urlsplit(entry["clientConfig"]["url"]).netloc for _, entry in webhooks(objects)}
    assert called == {url}
    [container] = helm.named(objects, "Job", "berthmaster-register")["spec"]["template"]["spec"]["containers"]
    [serving] = [text for text in container["args"] if text.startswith("--serving=")]
    assert name in serving.partition("-tls=")[2].split(",")


@pytest.mark.parametrize(
    ("namespace", "owner"),
    [
        pytest.param("system", "system.berthmaster", id="namespace and name"),
        pytest.param("n" * 62, "n" * 62, id="a long namespace leaves no dot at the end"),
    ],
)
def test_an_installation_has_one_name_everywhere(namespace, owner):
    objects = helm.render({}, namespace=namespace)
    [certs] = [each for name, each in helm.pods(objects) if name == "Deployment/berthmaster-certs"]
    kept = {each["name"]: each["value"] for each in certs["spec"]["containers"][0]["env"]}
    assert kept["BERTHMASTER_CERTS_REGISTERED_BY"] == owner == installation(namespace, "berthmaster")
    jobs = [each["spec"]["template"]["spec"]["containers"][0]["args"] for each in helm.of_kind(objects, "Job")]
    assert all(f"--registered-by={owner}" in args for args in jobs)


def test_settings_reach_every_entry():
    wanted = CASES["webhook-tuned"]["webhook"]
    for kind, entry in webhooks(helm.render(CASES["webhook-tuned"])):
        for key in ("failurePolicy", "timeoutSeconds", "namespaceSelector", "objectSelector", "matchConditions"):
            assert entry[key] == wanted[key]
        assert entry["matchPolicy"] == "Equivalent"
        assert entry.get("reinvocationPolicy") == ("IfNeeded" if kind.startswith("Mutating") else None)


@pytest.mark.parametrize(
    ("values", "form"),
    [
        pytest.param({}, "url", id="an API server of its own finds the webhook by DNS"),
        pytest.param({"mode": "single"}, "service", id="the host's API server resolves Services, not DNS names"),
        pytest.param({"mode": "single", "registration": {"clientConfig": "url"}}, "url", id="set for a single cluster"),
    ],
)
def test_the_client_config_refers_to_the_service(values, form):
    objects = helm.render(values)
    service = helm.named(objects, "Service", "berthmaster-webhook")
    [port] = service["spec"]["ports"]
    for _, entry in webhooks(objects):
        client = entry["clientConfig"]
        if form == "url":
            where = urlsplit(client["url"])
            assert (where.scheme, where.hostname) == ("https", f"berthmaster-webhook.{helm.NAMESPACE}.svc")
            assert where.port == port["port"]
        else:
            found = {**client["service"], "path": ""}
            wanted = {"name": "berthmaster-webhook", "namespace": helm.NAMESPACE, "port": port["port"], "path": ""}
            assert found == wanted


def keys(objects):
    return {(each["kind"], each["metadata"]["name"]) for each in objects}


# A user who disables the registration manages the registered objects.
@pytest.mark.parametrize("after", [case for case in CASES if case != "registration-off"])
def test_an_upgrade_removes_registrations_without_a_server(after):
    """KubeAdmiral's objects may stay if the new values do not mention KubeAdmiral, because its API may be missing."""
    new = helm.render(CASES[after])
    kept = keys(helm.registration(new)) | keys(helm.registration(new, "berthmaster-unwanted"))
    kept.add(("SchedulingProfile", "berthmaster"))  # policies name it; without its plugin nothing moves
    for before, values in CASES.items():
        left = keys(helm.registration(helm.render(values))) - kept
        if not after.startswith("kubeadmiral"):
            left = {each for each in left if each[0] in WEBHOOK_KINDS}
        assert not left, before


def test_enabled_registrations_are_never_removed_before_an_upgrade():
    for case, values in CASES.items():
        objects = helm.render(values)
        both = keys(helm.registration(objects)) & keys(helm.registration(objects, "berthmaster-unwanted"))
        assert not both, case


def test_kubeadmirals_plugin_calls_paths_that_the_extender_serves():
    objects = helm.render(CASES["kubeadmiral"])
    [plugin] = helm.of_kind(helm.registration(objects), "SchedulerPluginWebhookConfiguration")
    spec = plugin["spec"]
    where = urlsplit(spec["urlPrefix"])
    assert where.hostname == f"berthmaster-extender.{helm.NAMESPACE}.svc"
    served = {route.path for route in all_routes() if route.protocol == "kubeadmiral"}
    called = {where.path + spec[f"{point}Path"] for point in ("filter", "score", "select")}
    assert served - called == {f"{where.path}/schedule"}, "which only people and programs call"
    assert spec["tlsConfig"] == {"certData": "Y2VydA==", "keyData": "a2V5"}
    [profile] = helm.of_kind(helm.registration(objects), "SchedulingProfile")
    enabled = {point: each["enabled"] for point, each in profile["spec"]["plugins"].items()}
    ours = [{"name": plugin["metadata"]["name"], "type": "Webhook"}]
    assert enabled == {"score": ours, "select": ours}, "a filter that fails removes workloads"


def test_the_stanza_for_kube_scheduler_calls_paths_that_the_extender_serves():
    shown = helm.named(helm.render(CASES["kube-scheduler"]), "ConfigMap", "berthmaster-kube-scheduler")
    [stanza] = yaml.safe_load(shown["data"]["extenders.yaml"])["extenders"]
    where = urlsplit(stanza["urlPrefix"])
    served = {route.path for route in all_routes() if route.protocol == "kube-scheduler"}
    assert {f"{where.path}/{stanza[f'{verb}Verb']}" for verb in ("filter", "prioritize", "preempt")} == served
    assert where.hostname == f"berthmaster-extender.{helm.NAMESPACE}.svc"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param({}, {"managedResources": [{"name": "berthmaster.io/placed", "ignoredByScheduler": True}]},
                     id="by default only pods that ask for the extender wait for it"),
        pytest.param({"kubeScheduler": {"whenDown": "ignore"}}, {"ignorable": True}, id="no pod waits"),
        pytest.param({"kubeScheduler": {"whenDown": "wait"}, "pods": {"schedulerName": "second"}}, {},
                     id="every pod waits, except those of another scheduler"),
    ],
)  # fmt: skip
def test_the_stanza_says_what_happens_while_the_extender_is_down(settings, expected):
    case = CASES["kube-scheduler"]["extender"]
    extender = {**case, **settings, "kubeScheduler": {**case["kubeScheduler"], **settings.get("kubeScheduler", {})}}
    objects = helm.render({**CASES["kube-scheduler"], "extender": extender})
    shown = helm.named(objects, "ConfigMap", "berthmaster-kube-scheduler")
    [stanza] = yaml.safe_load(shown["data"]["extenders.yaml"])["extenders"]
    assert {name: stanza[name] for name in ("managedResources", "ignorable") if name in stanza} == expected
    spec = helm.named(objects, "Deployment", "berthmaster-extender")["spec"]["template"]["spec"]
    assert spec.get("schedulerName", "") == settings.get("pods", {}).get("schedulerName", "")


@pytest.mark.parametrize("complete", [True, False])
def test_the_stanza_and_the_extender_agree_about_complete_lists(complete):
    extender = {**CASES["kube-scheduler"]["extender"]}
    extender["kubeScheduler"] = {**extender["kubeScheduler"], "completeLists": complete}
    objects = helm.render({**CASES["kube-scheduler"], "extender": extender})
    shown = yaml.safe_load(helm.named(objects, "ConfigMap", "berthmaster-kube-scheduler")["data"]["extenders.yaml"])
    deployment = helm.named(objects, "Deployment", "berthmaster-extender")
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert ("--kube-scheduler-complete-lists" in arguments) is complete
    assert (shown.get("percentageOfNodesToScore") == 100) is complete
    assert ("profiles" in shown) is complete
