"""What is registered in the target: exactly the kinds that the webhook reviews, so that it blocks nothing else."""

from urllib.parse import urlsplit

import pytest
import yaml
from charts.cases import CASES, IMPACT

from charts import helm
from extender.app import all_routes
from webhook.admission.reviews import IMPACT_PATHS, ROUTES

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
    for point in ("filter", "score", "select"):
        assert profile["spec"]["plugins"][point]["enabled"] == [{"name": plugin["metadata"]["name"], "type": "Webhook"}]


def test_the_stanza_for_kube_scheduler_calls_paths_that_the_extender_serves():
    shown = helm.named(helm.render(CASES["kube-scheduler"]), "ConfigMap", "berthmaster-kube-scheduler")
    [stanza] = yaml.safe_load(shown["data"]["extenders.yaml"])["extenders"]
    where = urlsplit(stanza["urlPrefix"])
    served = {route.path for route in all_routes() if route.protocol == "kube-scheduler"}
    assert {f"{where.path}/{stanza[f'{verb}Verb']}" for verb in ("filter", "prioritize", "preempt")} == served
    assert where.hostname == f"berthmaster-extender.{helm.NAMESPACE}.svc"
