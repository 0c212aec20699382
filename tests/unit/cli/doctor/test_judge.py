"""Broken installations, one per row: the finding and its remedy."""

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from doctor_facts import (
    AUTHORITY,
    DAY,
    HOST,
    NOW,
    SETUP,
    access,
    bundle,
    deployment,
    diagnose,
    dry_run,
    healthy,
    kinds,
    leaf,
    lease,
    not_called,
    policy,
    refused,
    schema,
    server,
    webhooks,
)

from berthmaster.controllers.rbac import RULES, RUNTIME
from berthmaster_cli.doctor.facts import (
    KNOWN,
    BindingFacts,
    EndpointFacts,
    Facts,
    FleetFacts,
    KubeSchedulerFacts,
    ProbeFacts,
    SecretFacts,
    ServedKinds,
    Unobserved,
    WebhookFacts,
)
from berthmaster_cli.doctor.findings import Severity
from certs.authority import new_authority
from certs.bundle import EMPTY

FAILED, WARNING, SKIPPED, OK = Severity.FAILED, Severity.WARNING, Severity.SKIPPED, Severity.OK
SILENT = Unobserved("GET /version: Connection refused")
FORBIDDEN = Unobserved("GET /x: 403 not allowed", 403)
ABSENT = Unobserved("GET /x: 404", 404)
OVERFLOW = "spec.placement.clusterAffinities.overflowAffinities"
OTHER_AUTHORITY = new_authority("other", 365 * DAY, NOW - DAY)
OTHER_HOST = leaf("berthmaster-webhook.elsewhere.svc").certificate


def presented(pair=None, **more):
    return (
        EndpointFacts(**{"host": HOST, "port": 443, "contact": "served", "leaf": (pair or leaf()).certificate, **more}),
    )


def secret(pair, *, key_fits=True):
    return SecretFacts("berthmaster-webhook-tls", pair.certificate, key_fits)


def case(name, check, severity, message, remedy, **facts):
    return pytest.param(facts, check, severity, message, remedy, id=name)


API_SERVER = [
    case("the target does not respond", "api-server/target", FAILED,
         "does not respond: GET /version: Connection refused", "kubectl --context=karmada version", target=SILENT),
    case("the target rejects the user", "api-server/target", FAILED, "rejects the credentials of this user",
         "credentials", target=Unobserved("401", 401)),
    case("the host does not respond", "api-server/host", FAILED, "Connection refused", "kubectl version", host=SILENT),
    case("the target is old", "api-server/target", WARNING, "v1.25.0", "1.27 or newer", target=server(number=(1, 25))),
    case("the clock is 20 s ahead", "api-server/target-clock", WARNING, "20.0 s ahead", "timedatectl",
         target=server(ahead_s=20)),
    case("the clock is an hour behind", "api-server/host-clock", FAILED, "60 min behind", "timedatectl",
         host=server(ahead_s=-3600)),
    case("the clock is 3 s ahead", "api-server/target-clock", OK, "3.0 s ahead", "", target=server(ahead_s=3)),
]  # fmt: skip
DEFINITIONS = [
    case("policies are not defined", "definitions/propagationpolicies", FAILED, "does not serve PropagationPolicy",
         "apply --server-side", kinds=kinds("PropagationPolicy")),
    case("it is a plain Kubernetes", "definitions/served", FAILED, "serves no kind of Karmada: it is no control plane",
         "Name the kubeconfig of Karmada's API server", kinds=dict.fromkeys(kinds(), ABSENT)),
    case("WorkloadRebalancers are not defined", "definitions/workloadrebalancers", WARNING, "unavailable: rebalancing",
         "apply --server-side", kinds=kinds("WorkloadRebalancer")),
    case("bindings lack a newer field", "definitions/resourcebindings", WARNING, "lacks spec.rescheduleTriggeredAt",
         "apply --server-side", kinds=kinds("ResourceBinding.spec.rescheduleTriggeredAt")),
    case("bindings lack the scheduler's name", "definitions/clusterresourcebindings", FAILED,
         "lacks spec.schedulerName", "apply --server-side", kinds=kinds("ClusterResourceBinding.spec.schedulerName")),
    case("policies lack overflow groups", "definitions/propagationpolicies", WARNING, "unavailable: overflow groups",
         "apply --server-side", kinds=kinds(f"PropagationPolicy.{OVERFLOW}")),
    case("bindings lack overflow groups that policies have", "definitions/resourcebindings", WARNING,
         "unavailable: overflow groups", "apply --server-side", kinds=kinds(f"ResourceBinding.{OVERFLOW}")),
    *(case(f"Karmada 1.17 has no overflow groups in {plural}", f"definitions/{plural}", OK,
           "with all required fields; overflow groups need Karmada 1.18 or newer", "",
           kinds=kinds(*(f"{each.kind}.{OVERFLOW}" for each in KNOWN.kinds)))
      for plural in ("propagationpolicies", "clusterresourcebindings")),
    case("the aggregated API server is unavailable", "definitions/clusters", FAILED, "503",
         "get apiservice v1alpha1.cluster.karmada.io",
         kinds={**kinds(), "cluster.karmada.io/v1alpha1": Unobserved("503", 503)}),
]  # fmt: skip
REGISTRATION = [
    case("no webhook is registered", "registration/present", FAILED, "no webhook", "registration.enabled=true",
         webhooks=()),
    case("only Karmada's webhook is registered", "registration/present", FAILED, "no webhook", "helm upgrade",
         webhooks=(WebhookFacts("MutatingWebhookConfiguration", "karmada", "propagationpolicy.karmada.io", "https://k/"),)),
    case("some webhooks are missing", "registration/present", WARNING, "does not call the webhook for", "helm upgrade",
         webhooks=webhooks()[:2]),
    case("this user may not read configurations", "registration/present", SKIPPED, "403", "auth can-i",
         webhooks=FORBIDDEN),
    case("two configurations register our webhooks", "registration/once", FAILED, "forgotten",
         "kubectl --context=karmada delete MutatingWebhookConfiguration forgotten",
         webhooks=(*webhooks(), *webhooks("forgotten"))),
    case("the target does not have the Service", "registration/url", FAILED, "by Service", "clientConfig=url",
         webhooks=webhooks(is_service=True)),
    case("the URL is empty", "registration/url", FAILED, "no valid URL", "helm upgrade", webhooks=webhooks(url="")),
    case("the failure policy ignores failures", "registration/failure-policy", WARNING, "not reviewed",
         "webhook.failurePolicy=Fail", webhooks=webhooks(fails_closed=False)),
    case("the timeout is very short", "registration/timeout", WARNING, "timeoutSeconds is 1",
         "webhook.timeoutSeconds=3", webhooks=webhooks(timeout_s=1.0)),
    case("the timeout is very long", "registration/timeout", WARNING, "timeoutSeconds is 30",
         "webhook.timeoutSeconds=3", webhooks=webhooks(timeout_s=30.0)),
    case("the webhook gives up too late", "registration/request-timeout", FAILED, "up to 5 s",
         "webhook.requestTimeoutSeconds=2.5", deployments=(deployment("webhook", "--request-timeout-s=5"),)),
]  # fmt: skip
ROTATOR = "kubectl -n karmada-system rollout restart deploy/berthmaster-certs"
CERTIFICATES = [
    case("caBundle is empty", "certificates/bundle", FAILED, "is empty", ROTATOR,
         webhooks=webhooks(bundle=EMPTY, has_bundle=False)),
    case("caBundle contains something else", "certificates/bundle", FAILED, "contains no CA certificate", ROTATOR,
         webhooks=webhooks(bundle=EMPTY)),
    case("the authority has expired", "certificates/bundle", FAILED, "has expired", ROTATOR,
         webhooks=webhooks(bundle=bundle(new_authority("old", 10 * DAY, NOW - 20 * DAY)))),
    case("the authority expires soon", "certificates/bundle", WARNING, "expires in 48 hours", ROTATOR,
         webhooks=webhooks(bundle=bundle(new_authority("old", 100 * DAY, NOW - 98 * DAY - timedelta(minutes=9))))),
    case("the authority expires soon and has a successor", "certificates/bundle", OK, "is valid for another", "",
         webhooks=webhooks(bundle=bundle(new_authority("old", 100 * DAY, NOW - 98 * DAY), AUTHORITY))),
    case("the leaf has expired", "certificates/life", FAILED, "expired 24 hours ago", ROTATOR,
         endpoints=presented(leaf(days=10, age_days=11), verify_error="certificate has expired", verify_code=10)),
    case("the leaf is not valid yet", "certificates/life", FAILED, "is not valid before", ROTATOR,
         endpoints=presented(leaf(age_days=-1), verify_error="certificate is not yet valid", verify_code=9)),
    case("the leaf was not renewed", "certificates/life", WARNING, "expires in 5 days", ROTATOR,
         endpoints=presented(leaf(days=90, age_days=84.99))),
    case("another authority issued the leaf", "certificates/served-authority", FAILED, "does not trust", ROTATOR,
         endpoints=presented(leaf(authority=OTHER_AUTHORITY), verify_error="no local issuer", verify_code=20)),
    case("the leaf is for other names", "certificates/served-names", FAILED, "berthmaster-webhook.elsewhere.svc",
         f"certificates.webhookExtraNames={{{HOST}}}",
         endpoints=(EndpointFacts(HOST, 443, "served", "", OTHER_HOST, "Hostname mismatch", 62),)),
    case("the name does not resolve from here", "certificates/served", SKIPPED, "the API server reaches it", "",
         endpoints=(EndpointFacts(HOST, 443, "unresolved"),)),
    case("the name does not resolve from the API server either", "certificates/served", WARNING,
         "does not resolve from here", "admission/trial", endpoints=(EndpointFacts(HOST, 443, "unresolved"),),
         dry_run=not_called("dial tcp: lookup x on 10.0.0.10:53: no such host")),
    case("the port is closed, and policies are not reviewed", "certificates/served", FAILED, "Connection refused",
         "get pods,endpointslices", endpoints=(EndpointFacts(HOST, 443, "unreachable", "Connection refused"),),
         webhooks=webhooks(fails_closed=False), dry_run=dry_run(bad_problem="")),
    case("the port is closed from here only", "certificates/served", SKIPPED, "the API server reaches it", "",
         endpoints=(EndpointFacts(HOST, 443, "unreachable", "Connection refused"),)),
    case("the Secret contains no certificate", "certificates/secret", FAILED, "no certificate", ROTATOR,
         secret=SecretFacts("berthmaster-webhook-tls", None, key_fits=False)),
    case("key and certificate do not match", "certificates/secret", FAILED, "does not belong to its certificate",
         ROTATOR, secret=secret(leaf(), key_fits=False)),
    case("another authority issued the Secret", "certificates/secret", FAILED, "does not trust", ROTATOR,
         secret=secret(leaf(authority=OTHER_AUTHORITY))),
    case("the Secret is for other names", "certificates/secret", FAILED, f"not for {HOST}", "webhookExtraNames",
         secret=secret(leaf("other.svc"))),
    case("this user may not read the Secret", "certificates/secret", SKIPPED, "403", "", secret=FORBIDDEN),
]  # fmt: skip
ADMISSION = [
    case("the webhook is unavailable", "admission/trial-closed", FAILED, f"nothing listens at {HOST}:443",
         "get pods,endpointslices", dry_run=not_called("dial tcp 10.0.0.1:443: connect: connection refused")),
    case("the webhook is unavailable, and this user may not read configurations", "admission/trial-closed", FAILED,
         f"nothing listens at {HOST}:443", "get pods,endpointslices", webhooks=FORBIDDEN,
         dry_run=not_called("dial tcp 10.0.0.1:443: connect: connection refused")),
    case("the webhook is slow", "admission/trial-late", FAILED, "within timeoutSeconds", "NetworkPolicy",
         dry_run=not_called("context deadline exceeded")),
    case("another webhook is unavailable", "admission/trial", FAILED, "another webhook, policy.example.org",
         "get mutatingwebhookconfigurations",
         dry_run=refused('failed calling webhook "policy.example.org": failed to call webhook: EOF')),
    case("another webhook denies the policy", "admission/trial", FAILED, "policy.example.org denies a plain policy",
         "--trial-namespace", dry_run=refused('admission webhook "policy.example.org" denied the request: no', 403)),
    case("this user may not create policies", "admission/trial", SKIPPED, "may not create policies", "auth can-i",
         dry_run=refused("POST: 403 propagationpolicies is forbidden", 403)),
    case("policies are not defined", "admission/trial", SKIPPED, "no such kind", "definitions",
         dry_run=refused("404", 404)),
    case("the API server never responds", "admission/trial", FAILED, "no response", "readyz",
         dry_run=Unobserved("none")),
    case("the dry run is slow", "admission/trial-time", WARNING, "2400 ms", "webhook.timeoutSeconds=4",
         dry_run=dry_run(took_s=(0.1, 2.4))),
    case("defaults are missing", "admission/defaults", FAILED, "without defaults", "logs deploy/berthmaster-webhook",
         dry_run=dry_run(policy=policy(placement={"spreadConstraints": [{"maxGroups": 2}]}))),
    case("defaults are missing where selectors exclude the namespace", "admission/defaults", WARNING, "selectors",
         "--trial-namespace", webhooks=webhooks(narrowed=True),
         dry_run=dry_run(policy=policy(placement={"spreadConstraints": [{"maxGroups": 2}]}))),
    case("the permanent id is missing", "admission/permanent-id", FAILED, "permanent id", "webhook.mode=standalone",
         dry_run=dry_run(policy={**policy(), "metadata": {}})),
    case("the rule is off", "admission/rules", WARNING, "is accepted", "preemption-without-namespace",
         dry_run=dry_run(bad_problem="")),
    case("the rule warns", "admission/rules", OK, "gets a warning", "",
         dry_run=dry_run(bad_problem="", bad_warnings=("spec: no [preemption-without-namespace]",))),
    case("another webhook denies first", "admission/rules", WARNING, "policy.example.org denies", "get validating",
         dry_run=dry_run(bad_problem='admission webhook "policy.example.org" denied the request: no')),
]  # fmt: skip
BINDINGS_RULE, STATUS_RULE, *_, QUOTA_RULE = RULES["binding-scheduler"][1:]
RIGHTS = [
    case("a permission is missing", "rights/resourcebindings.work.karmada.io", FAILED, "may not patch resourcebindings",
         "get configmap berthmaster-target-rbac -o jsonpath='{.data.*}' | kubectl --context=karmada apply -f -",
         access=access((BINDINGS_RULE, "patch resourcebindings.work.karmada.io"))),
    case("a permission for the lease is missing", "rights/leases.coordination.k8s.io", FAILED, "in karmada-system",
         "helm upgrade", setup=replace(SETUP, single=True),
         access=access((RUNTIME[0], "create leases.coordination.k8s.io in karmada-system"))),
    case("the optional permission for quotas is missing", "rights/federatedresourcequotas.policy.karmada.io", WARNING,
         "may not watch federatedresourcequotas", "rbac", access=access((QUOTA_RULE, "watch federatedresourcequotas"))),
    case("only templates of named kinds are allowed", "rights/templates", WARNING, "every kind",
         "controllers.templates", access=access((RULES["preemption"][1], "get *.*"))),
    case("this user may not impersonate", "rights/asked", SKIPPED, "403", "auth can-i impersonate", access=FORBIDDEN),
    case("an administrator runs the command", "rights/controllers", OK, "--rights-of=USER", "",
         access=replace(access(), groups=("system:masters",))),
]  # fmt: skip
KUBE_SCHEDULER = [
    case("only pods that ask for the extender wait", "kube-scheduler/outage", OK, "only pods that request berth",
         "", kube_scheduler=KubeSchedulerFacts(managed=("berthmaster.io/placed",))),
    case("no pod waits for the extender", "kube-scheduler/outage", OK, "ignorable", "",
         kube_scheduler=KubeSchedulerFacts(ignorable=True)),
    case("an outage locks the cluster", "kube-scheduler/outage", FAILED, "the extender's own pods included",
         "extender.kubeScheduler.whenDown=wait-placed", kube_scheduler=KubeSchedulerFacts()),
    case("another scheduler starts the extender", "kube-scheduler/outage", WARNING, "such as second", "whenDown",
         kube_scheduler=KubeSchedulerFacts(own_scheduler="second")),
    case("the stanza cannot be read", "kube-scheduler/outage", SKIPPED, "cannot be read", "can-i get configmaps",
         kube_scheduler=FORBIDDEN),
    case("no node has the label of members", "kube-scheduler/members", WARNING, "no node matches", "get nodes",
         kube_scheduler=KubeSchedulerFacts(ignorable=True, members="type=virtual-node")),
    case("nodes have the label of members", "kube-scheduler/members", OK, "nodes match", "",
         kube_scheduler=KubeSchedulerFacts(ignorable=True, members="type=virtual-kubelet", member_nodes=True)),
    case("nodes cannot be listed", "kube-scheduler/members", SKIPPED, "nodes cannot be listed", "",
         kube_scheduler=KubeSchedulerFacts(ignorable=True, members="a=b", member_nodes=FORBIDDEN)),
]  # fmt: skip
CONFLICTS = [
    case("another installation registered our configuration", "conflicts/configurations", FAILED,
         "other.berthmaster has registered", "fullnameOverride", webhooks=webhooks(registered_by="other.berthmaster")),
    case("this installation registered its configuration", "conflicts/configurations", OK, "no other installation", "",
         webhooks=webhooks(registered_by="karmada-system.berthmaster")),
    case("another installation registered a configuration of its own name", "conflicts/configurations", OK,
         "no other installation", "", webhooks=webhooks("other", registered_by="other.other")),
    case("a second release leads", "conflicts/leases", WARNING, "controllers-9 (lease other/", "--scheduler-name",
         other_leases=(lease(), lease("other", "controllers-9"))),
    case("a second release led in the past", "conflicts/leases", OK, "no second", "",
         other_leases=(lease(), lease("other", "controllers-9", age_s=900))),
    case("karmada-scheduler serves our scheduler name", "conflicts/scheduler", FAILED, "both write",
         "kubectl -n karmada-system edit deploy karmada-scheduler",
         deployments=(deployment("karmada-scheduler", "--scheduler-name", "berthmaster"),)),
    case("a gate of Karmada that is off here", "conflicts/gates", WARNING, "ignores what the gate adds",
         "featureGates.WorkloadAffinity=true",
         deployments=(deployment("karmada-scheduler", "--feature-gates=WorkloadAffinity=true"),
                      deployment("controllers"))),
    case("a gate that is on by default here and was turned off", "conflicts/gates", WARNING,
         "MultiplePodTemplatesScheduling", "featureGates.MultiplePodTemplatesScheduling=true",
         deployments=(deployment("karmada-controller-manager", "--feature-gates=MultiplePodTemplatesScheduling=true"),
                      deployment("controllers", "--feature-gates=MultiplePodTemplatesScheduling=false"))),
    case("placement fields that this version does not know", "definitions/release", WARNING,
         "does not know spec.placement.racks", "Upgrade Berthmaster",
         kinds={**kinds(), "work.karmada.io/v1alpha2": ServedKinds(
             frozenset({"resourcebindings", "clusterresourcebindings"}),
             {"ResourceBinding": schema("spec.placement.racks"), "ClusterResourceBinding": {}})}),
    case("both components preempt", "conflicts/preemption", FAILED, "PropagationPolicyPreemption",
         "featureGates.PolicyPreemption=false",
         deployments=(deployment("karmada-controller-manager", "--feature-gates=A=0,PropagationPolicyPreemption=true"),
                      deployment("controllers", "--feature-gates=PolicyPreemption=true"))),
    case("both components rebalance", "conflicts/rebalancer", FAILED, "WorkloadRebalancers",
         "--controllers=*,-workloadRebalancer",
         deployments=(deployment("karmada-controller-manager"),
                      deployment("controllers", "--controllers=*,workload-rebalancer"))),
    case("several pods run without leader election", "conflicts/election", FAILED, "2 pods", "--replicas=1",
         deployments=(deployment("controllers", "--no-leader-elect", wanted=2),)),
    case("two Deployments run controllers", "conflicts/scheduler", WARNING, "one, two", "delete deploy two",
         deployments=(deployment("controllers", name="one"), deployment("controllers", name="two"))),
    case("the cluster is not the host", "conflicts/host", SKIPPED, "neither", "--kubeconfig", deployments=()),
    case("there is no access to the host", "conflicts/host", SKIPPED, "was not checked", "--kubeconfig",
         deployments=None),
    case("this user may not list Deployments", "conflicts/host", SKIPPED, "403", "auth can-i", deployments=FORBIDDEN),
]  # fmt: skip
LOGS = "kubectl -n karmada-system logs -l app.kubernetes.io/component=controllers"
PODS = "kubectl -n karmada-system get pods -l app.kubernetes.io/component=controllers"
CONTROLLERS = [
    case("there is no lease", "controllers/leader", FAILED, "no controllers have led yet", PODS, lease=None),
    case("a webhook and a shadow need no leader", "controllers/leader", SKIPPED, "has no controllers", "", lease=None,
         deployments=(deployment("webhook"), deployment("controllers", "--shadow"))),
    case("the lease has no holder", "controllers/leader", FAILED, "no process leads", PODS, lease=lease(holder="")),
    case("the lease is stale", "controllers/leader", FAILED, "has not renewed it for 600 s", LOGS,
         lease=lease(age_s=600)),
    case("the leader never renewed", "controllers/leader", FAILED, "never renewed", LOGS,
         lease=replace(lease(), renewed=None)),
    case("the leader's clock is ahead", "controllers/leader", WARNING, "60 s ahead", "NTP", lease=lease(age_s=-60)),
    case("this user may not read the lease", "controllers/leader", SKIPPED, "403", "", lease=FORBIDDEN),
]  # fmt: skip
FLEET = [
    case("there is no cluster", "fleet/clusters", WARNING, "no cluster", "karmadactl join", fleet=FleetFacts(0)),
    case("clusters are not ready", "fleet/clusters", WARNING, "2 of 5 clusters", "get cluster m1",
         fleet=FleetFacts(5, not_ready=("m1", "m2"))),
    case("a cluster reports no resources", "fleet/capacity", WARNING, "1 of 5 clusters report no allocatable resources",
         "get cluster m3", fleet=FleetFacts(5, unmeasured=("m3",))),
    case("this user may not list clusters", "fleet/clusters", SKIPPED, "403", "", fleet=FORBIDDEN),
    case("bindings wait without a leader", "fleet/scheduler", FAILED, "4 bindings wait", "Start the controllers",
         lease=None),
    case("a binding names an unknown scheduler", "fleet/strange-scheduler", WARNING, "'gone'", "--other-scheduler=gone",
         bindings=BindingFacts({"gone": 1})),
    case("karmada-scheduler holds no lease", "fleet/karmada-scheduler", WARNING, "2 bindings name default-scheduler",
         "--leader-elect=false it has no lease: kubectl -n karmada-system get pods", karmada_lease=None),
    case("bindings are stale", "fleet/lagging", WARNING, "2 of 9 bindings changed", LOGS,
         bindings=BindingFacts({"berthmaster": 9}, stale=("a/b", "a/c"))),
    case("a binding is unschedulable", "fleet/unschedulable", WARNING, "a/b (NoClusterFit)",
         "-n a describe resourcebinding b",
         bindings=BindingFacts({"berthmaster": 9}, unschedulable=(("a/b", "NoClusterFit"),))),
    case("this user may not list bindings", "fleet/bindings", SKIPPED, "403", "", bindings=FORBIDDEN),
]  # fmt: skip
PROBES = [
    case("no pod is ready", "probes/pods", FAILED, "berthmaster-webhook has 0 of 2", "component=webhook",
         deployments=(replace(deployment("webhook", name="berthmaster-webhook", wanted=2), ready=0),)),
    case("one pod is ready", "probes/pods", WARNING, "1 of 2 pods", "describe pods",
         deployments=(replace(deployment("controllers", wanted=2), ready=1),)),
    case("no pod is wanted", "probes/pods", WARNING, "0 of 0 pods", "scale deploy webhook",
         deployments=(deployment("webhook", wanted=0),)),
    case("a process is not ready", "probes/ready", FAILED, "no lists yet", "kubectl -n karmada-system get pods",
         probes=(ProbeFacts("http://h", 503, "no lists yet"),)),
    case("a process does not run", "probes/ready", FAILED, "does not respond", "port-forward",
         probes=(ProbeFacts("http://h", 0, "refused"),)),
]  # fmt: skip


INSTALLATIONS = [
    *API_SERVER, *DEFINITIONS, *REGISTRATION, *CERTIFICATES, *ADMISSION, *RIGHTS, *CONFLICTS, *CONTROLLERS, *FLEET,
    *PROBES, *KUBE_SCHEDULER,
]  # fmt: skip
VALUES = yaml.safe_load(Path(__file__).parents[4].joinpath("charts/berthmaster/values.yaml").read_text())
NAMED_VALUE = re.compile(r"(?<![-.\w])((?:certificates|controllers|registration|target|webhook)\.[a-zA-Z.]+[a-zA-Z])")


def has(values, path):
    """Whether the chart has a value. A mapping that is empty by default may contain anything."""
    node = values
    for name in path.split("."):
        if node == {}:
            return True
        if not isinstance(node, dict) or name not in node:
            return False
        node = node[name]
    return True


@pytest.mark.parametrize(("facts", "check", "severity", "message", "remedy"), INSTALLATIONS)
def test_a_broken_installation(facts, check, severity, message, remedy):
    everything = diagnose(healthy(**facts))
    found = [each for each in everything if each.check == check]
    assert found, f"no finding of {check}"
    worst = min(found, key=lambda each: list(Severity).index(each.severity))
    assert worst.severity is severity, worst
    assert message in worst.message
    assert remedy in worst.remedy
    assert bool(worst.remedy) or severity in {OK, SKIPPED}, "a bad finding has a remedy"
    assert "{" not in worst.remedy.replace(f"{{{HOST}}}", "").replace("'{.", ""), "every placeholder is filled in"
    named = [path for each in everything for path in NAMED_VALUE.findall(each.remedy)]
    assert not [path for path in named if not has(VALUES, path)], "the chart has every value that a remedy names"


def test_a_healthy_installation_has_only_good_findings():
    found = diagnose(healthy())
    assert {each.severity for each in found} == {OK}, [each for each in found if each.severity is not OK]
    assert {each.group for each in found} == {
        "api-server", "definitions", "registration", "certificates", "admission", "rights", "conflicts", "controllers",
        "fleet", "probes",
    }  # fmt: skip


def test_a_target_that_does_not_respond_is_the_only_finding():
    assert [each.check for each in diagnose(Facts(SETUP, NOW, SILENT))] == ["api-server/target"]


def test_a_service_is_accepted_if_the_host_is_the_target():
    facts = healthy(setup=replace(SETUP, single=True), webhooks=webhooks(is_service=True))
    assert next(each for each in diagnose(facts) if each.check == "registration/url").severity is OK


def test_other_schedulers_are_known_by_deployment_or_by_option():
    bindings = BindingFacts({"theirs": 1, "named": 1})
    setup = replace(SETUP, other_schedulers=("named",))
    workloads = (deployment("karmada-scheduler", "--scheduler-name=theirs"),)
    found = diagnose(healthy(bindings=bindings, setup=setup, deployments=workloads))
    assert not [each for each in found if each.check == "fleet/strange-scheduler"]
