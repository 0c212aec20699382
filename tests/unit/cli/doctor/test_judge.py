"""Broken set-ups, one a row: what the doctor says, and what it says to do."""

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from examined import (
    AUTHORITY,
    DAY,
    HOST,
    NOW,
    SETUP,
    bundle,
    examined,
    hooks,
    kinds,
    leaf,
    lease,
    not_called,
    policy,
    refused,
    rights,
    server,
    trial,
    well,
    workload,
)

from berthmaster.controllers.rbac import RULES, RUNTIME
from berthmaster_cli.doctor.facts import Bindings, Facts, Fleet, Hook, Probe, Served, Stored, Unknown
from berthmaster_cli.doctor.finding import Verdict
from certs.authority import new_authority
from certs.bundle import EMPTY

FAILED, WARNING, SKIPPED, OK = Verdict.FAILED, Verdict.WARNING, Verdict.SKIPPED, Verdict.OK
SILENT = Unknown("GET /version: Connection refused")
FORBIDDEN = Unknown("GET /x: 403 not allowed", 403)
ABSENT = Unknown("GET /x: 404", 404)
STRANGER = new_authority("stranger", 365 * DAY, NOW - DAY)
OTHER_HOST = leaf("berthmaster-webhook.elsewhere.svc").certificate


def shown(pair=None, **more):
    return (Served(**{"host": HOST, "port": 443, "contact": "served", "leaf": (pair or leaf()).certificate, **more}),)


def stored(pair, *, key_fits=True):
    return Stored("berthmaster-webhook-tls", pair.certificate, key_fits)


def case(name, check, verdict, told, remedy, **facts):
    return pytest.param(facts, check, verdict, told, remedy, id=name)


API_SERVER = [
    case("a target that does not answer", "api-server/target", FAILED, "Connection refused",
         "kubectl --context=karmada version", target=SILENT),
    case("a target that lets nobody in", "api-server/target", FAILED, "does not let this user in", "credentials",
         target=Unknown("401", 401)),
    case("a host that does not answer", "api-server/host", FAILED, "Connection refused", "kubectl version",
         host=SILENT),
    case("an old target", "api-server/target", WARNING, "v1.25.0", "1.27 or newer", target=server(number=(1, 25))),
    case("a clock that is 20 s ahead", "api-server/target-clock", WARNING, "20.0 s ahead", "timedatectl",
         target=server(ahead_s=20)),
    case("a clock that is an hour behind", "api-server/host-clock", FAILED, "60 min behind", "timedatectl",
         host=server(ahead_s=-3600)),
    case("a clock that is 3 s ahead", "api-server/target-clock", OK, "3.0 s ahead", "", target=server(ahead_s=3)),
]  # fmt: skip
DEFINITIONS = [
    case("no definition of policies", "definitions/propagationpolicies", FAILED, "serves no PropagationPolicy",
         "apply --server-side", kinds=kinds("PropagationPolicy")),
    case("no definition of anything", "definitions/resourcebindings", FAILED, "serves no ResourceBinding",
         "kubectl --context=karmada apply", kinds=dict.fromkeys(kinds(), ABSENT)),
    case("no WorkloadRebalancer", "definitions/workloadrebalancers", WARNING, "no rebalancing", "apply --server-side",
         kinds=kinds("WorkloadRebalancer")),
    case("bindings of an old Karmada", "definitions/resourcebindings", WARNING, "no spec.rescheduleTriggeredAt",
         "apply --server-side", kinds=kinds("ResourceBinding.spec.rescheduleTriggeredAt")),
    case("bindings without a scheduler's name", "definitions/clusterresourcebindings", FAILED, "no spec.schedulerName",
         "apply --server-side", kinds=kinds("ClusterResourceBinding.spec.schedulerName")),
    case("policies without overflow groups", "definitions/propagationpolicies", WARNING, "no overflow groups",
         "apply --server-side",
         kinds=kinds("PropagationPolicy.spec.placement.clusterAffinities.overflowAffinities")),
    case("an aggregated API server that is away", "definitions/clusters", FAILED, "503",
         "get apiservice v1alpha1.cluster.karmada.io",
         kinds={**kinds(), "cluster.karmada.io/v1alpha1": Unknown("503", 503)}),
]  # fmt: skip
REGISTRATION = [
    case("no webhook", "registration/present", FAILED, "no webhook", "registration.enabled=true", hooks=()),
    case("only Karmada's webhook", "registration/present", FAILED, "no webhook", "helm upgrade",
         hooks=(Hook("MutatingWebhookConfiguration", "karmada", "propagationpolicy.karmada.io", "https://k/"),)),
    case("half of our webhooks", "registration/present", WARNING, "does not ask about", "helm upgrade",
         hooks=hooks()[:2]),
    case("configurations that this user may not read", "registration/present", SKIPPED, "403", "auth can-i",
         hooks=FORBIDDEN),
    case("two copies of ours", "registration/once", FAILED, "forgotten",
         "kubectl --context=karmada delete MutatingWebhookConfiguration forgotten",
         hooks=(*hooks(), *hooks("forgotten"))),
    case("a Service that the target does not have", "registration/url", FAILED, "by a Service", "clientConfig=url",
         hooks=hooks(is_service=True)),
    case("no URL", "registration/url", FAILED, "no URL", "helm upgrade", hooks=hooks(url="")),
    case("a failure policy that lets policies pass", "registration/failure-policy", WARNING, "unseen",
         "webhook.failurePolicy=Fail", hooks=hooks(fails_closed=False)),
    case("a very short timeout", "registration/timeout", WARNING, "timeoutSeconds is 1", "webhook.timeoutSeconds=3",
         hooks=hooks(timeout_s=1.0)),
    case("a very long timeout", "registration/timeout", WARNING, "timeoutSeconds is 30", "webhook.timeoutSeconds=3",
         hooks=hooks(timeout_s=30.0)),
    case("a webhook that gives up too late", "registration/request-timeout", FAILED, "up to 5 s",
         "webhook.requestTimeoutSeconds=2.5", workloads=(workload("webhook", "--request-timeout-s=5"),)),
]  # fmt: skip
KEEPER = "kubectl -n karmada-system rollout restart deploy/berthmaster-certs"
CERTIFICATES = [
    case("no caBundle", "certificates/bundle", FAILED, "is empty", KEEPER, hooks=hooks(bundle=EMPTY, has_bundle=False)),
    case("a caBundle of something else", "certificates/bundle", FAILED, "holds no certificate", KEEPER,
         hooks=hooks(bundle=EMPTY)),
    case("an authority that has expired", "certificates/bundle", FAILED, "has expired", KEEPER,
         hooks=hooks(bundle=bundle(new_authority("old", 10 * DAY, NOW - 20 * DAY)))),
    case("an authority at its end", "certificates/bundle", WARNING, "ends in 48 hours", KEEPER,
         hooks=hooks(bundle=bundle(new_authority("old", 100 * DAY, NOW - 98 * DAY - timedelta(minutes=9))))),
    case("an authority at its end with a successor", "certificates/bundle", OK, "lives", "",
         hooks=hooks(bundle=bundle(new_authority("old", 100 * DAY, NOW - 98 * DAY), AUTHORITY))),
    case("a leaf that has expired", "certificates/life", FAILED, "expired 24 hours ago", KEEPER,
         served=shown(leaf(days=10, age_days=11), mistrust="certificate has expired", mistrust_code=10)),
    case("a leaf of tomorrow", "certificates/life", FAILED, "is not valid before", KEEPER,
         served=shown(leaf(age_days=-1), mistrust="certificate is not yet valid", mistrust_code=9)),
    case("a leaf that nobody renews", "certificates/life", WARNING, "ends in 5 days", KEEPER,
         served=shown(leaf(days=90, age_days=84.99))),
    case("a leaf by somebody else", "certificates/served-authority", FAILED, "does not trust", KEEPER,
         served=shown(leaf(authority=STRANGER), mistrust="unable to get local issuer certificate", mistrust_code=20)),
    case("a leaf for other names", "certificates/served-names", FAILED, "berthmaster-webhook.elsewhere.svc",
         f"certificates.webhookExtraNames={{{HOST}}}",
         served=(Served(HOST, 443, "served", "", OTHER_HOST, "Hostname mismatch", 62),)),
    case("a name that does not resolve from here", "certificates/served", SKIPPED, "the API server reaches it", "",
         served=(Served(HOST, 443, "unresolved"),)),
    case("a name that resolves nowhere", "certificates/served", WARNING, "does not resolve from here",
         "admission/trial", served=(Served(HOST, 443, "unresolved"),),
         trial=not_called("dial tcp: lookup x on 10.0.0.10:53: no such host")),
    case("a port that is closed, and policies that pass unseen", "certificates/served", FAILED, "Connection refused",
         "get pods,endpointslices", served=(Served(HOST, 443, "unreachable", "Connection refused"),),
         hooks=hooks(fails_closed=False), trial=trial(bad_problem="")),
    case("a port that is closed to us alone", "certificates/served", SKIPPED, "the API server reaches it", "",
         served=(Served(HOST, 443, "unreachable", "Connection refused"),)),
    case("no certificate in the Secret", "certificates/secret", FAILED, "no certificate", KEEPER,
         stored=Stored("berthmaster-webhook-tls", None, key_fits=False)),
    case("a torn pair", "certificates/secret", FAILED, "is not its certificate's", KEEPER,
         stored=stored(leaf(), key_fits=False)),
    case("a Secret by somebody else", "certificates/secret", FAILED, "does not vouch", KEEPER,
         stored=stored(leaf(authority=STRANGER))),
    case("a Secret for other names", "certificates/secret", FAILED, f"not for {HOST}", "webhookExtraNames",
         stored=stored(leaf("other.svc"))),
    case("a Secret that is not ours to see", "certificates/secret", SKIPPED, "403", "", stored=FORBIDDEN),
]  # fmt: skip
ADMISSION = [
    case("a webhook that is away", "admission/trial-closed", FAILED, f"nobody listens at {HOST}:443",
         "get pods,endpointslices", trial=not_called("dial tcp 10.0.0.1:443: connect: connection refused")),
    case("a webhook that is away, in configurations that may not be read", "admission/trial-closed", FAILED,
         f"nobody listens at {HOST}:443", "get pods,endpointslices", hooks=FORBIDDEN,
         trial=not_called("dial tcp 10.0.0.1:443: connect: connection refused")),
    case("a webhook that is late", "admission/trial-late", FAILED, "within timeoutSeconds", "NetworkPolicy",
         trial=not_called("context deadline exceeded")),
    case("somebody else's webhook that is away", "admission/trial", FAILED, "another webhook, policy.example.org",
         "get mutatingwebhookconfigurations",
         trial=refused('failed calling webhook "policy.example.org": failed to call webhook: EOF')),
    case("somebody else's rules", "admission/trial", FAILED, "policy.example.org refuses a plain policy",
         "--trial-namespace", trial=refused('admission webhook "policy.example.org" denied the request: no', 403)),
    case("a user who may not create policies", "admission/trial", SKIPPED, "may not create policies", "auth can-i",
         trial=refused("POST: 403 propagationpolicies is forbidden", 403)),
    case("no policies to create", "admission/trial", SKIPPED, "no such kind", "definitions", trial=refused("404", 404)),
    case("an API server that never answers", "admission/trial", FAILED, "no answer", "readyz", trial=Unknown("none")),
    case("a trial that takes too long", "admission/trial-time", WARNING, "2400 ms", "webhook.timeoutSeconds=4",
         trial=trial(took_s=(0.1, 2.4))),
    case("no defaults", "admission/defaults", FAILED, "without defaults", "logs deploy/berthmaster-webhook",
         trial=trial(stored=policy(placement={"spreadConstraints": [{"maxGroups": 2}]}))),
    case("no defaults where selectors leave the namespace out", "admission/defaults", WARNING, "selectors",
         "--trial-namespace", hooks=hooks(narrowed=True),
         trial=trial(stored=policy(placement={"spreadConstraints": [{"maxGroups": 2}]}))),
    case("nobody gives an id", "admission/permanent-id", FAILED, "permanent id", "webhook.mode=standalone",
         trial=trial(stored={**policy(), "metadata": {}})),
    case("a rule that is off", "admission/rules", WARNING, "is accepted", "preemption-without-namespace",
         trial=trial(bad_problem="")),
    case("a rule that warns", "admission/rules", OK, "gets a warning", "",
         trial=trial(bad_problem="", bad_warnings=("spec: no [preemption-without-namespace]",))),
    case("somebody else refuses first", "admission/rules", WARNING, "policy.example.org refuses", "get validating",
         trial=trial(bad_problem='admission webhook "policy.example.org" denied the request: no')),
]  # fmt: skip
BINDINGS_RULE, STATUS_RULE = RULES["binding-scheduler"][1:]
RIGHTS = [
    case("a verb is missing", "rights/resourcebindings.work.karmada.io", FAILED, "may not patch resourcebindings",
         "get configmap berthmaster-target-rbac -o jsonpath='{.data.*}' | kubectl --context=karmada apply -f -",
         rights=rights((BINDINGS_RULE, "patch resourcebindings.work.karmada.io"))),
    case("the lease is out of reach", "rights/leases.coordination.k8s.io", FAILED, "in karmada-system",
         "helm upgrade", setup=replace(SETUP, single=True),
         rights=rights((RUNTIME[0], "create leases.coordination.k8s.io in karmada-system"))),
    case("templates of named kinds only", "rights/templates", WARNING, "every kind", "controllers.templates",
         rights=rights((RULES["preemption"][1], "get *.*"))),
    case("a user who may not impersonate", "rights/asked", SKIPPED, "403", "auth can-i impersonate", rights=FORBIDDEN),
    case("an administrator asks for himself", "rights/controllers", OK, "--as=USER", "",
         rights=replace(rights(), groups=("system:masters",))),
]  # fmt: skip
CONFLICTS = [
    case("a second release leads", "conflicts/leases", WARNING, "controllers-9 by other/", "--scheduler-name",
         other_leases=(lease(), lease("other", "controllers-9"))),
    case("a second release led once", "conflicts/leases", OK, "no second", "",
         other_leases=(lease(), lease("other", "controllers-9", age_s=900))),
    case("karmada-scheduler by our name", "conflicts/scheduler", FAILED, "both write",
         "kubectl -n karmada-system edit deploy karmada-scheduler",
         workloads=(workload("karmada-scheduler", "--scheduler-name", "berthmaster"),)),
    case("both preempt", "conflicts/preemption", FAILED, "PropagationPolicyPreemption",
         "featureGates.PolicyPreemption=false",
         workloads=(workload("karmada-controller-manager", "--feature-gates=A=false,PropagationPolicyPreemption=true"),
                    workload("controllers", "--feature-gates=PolicyPreemption=true"))),
    case("both rebalance", "conflicts/rebalancer", FAILED, "WorkloadRebalancers", "--controllers=*,-workloadRebalancer",
         workloads=(workload("karmada-controller-manager"),
                    workload("controllers", "--controllers=*,workload-rebalancer"))),
    case("several pods without an election", "conflicts/election", FAILED, "2 pods", "--replicas=1",
         workloads=(workload("controllers", "--no-leader-elect", wanted=2),)),
    case("two Deployments of controllers", "conflicts/scheduler", WARNING, "one, two", "delete deploy two",
         workloads=(workload("controllers", name="one"), workload("controllers", name="two"))),
    case("another cluster than the host", "conflicts/host", SKIPPED, "neither", "--kubeconfig", workloads=()),
    case("no access to the host", "conflicts/host", SKIPPED, "was not looked at", "--kubeconfig", workloads=None),
    case("Deployments that are not ours to see", "conflicts/host", SKIPPED, "403", "auth can-i", workloads=FORBIDDEN),
]  # fmt: skip
LOGS = "kubectl -n karmada-system logs -l app.kubernetes.io/component=controllers"
PODS = "kubectl -n karmada-system get pods -l app.kubernetes.io/component=controllers"
CONTROLLERS = [
    case("no lease", "controllers/leader", FAILED, "no controllers have ever led", PODS, lease=None),
    case("a lease that nobody holds", "controllers/leader", FAILED, "nobody leads", PODS, lease=lease(holder="")),
    case("a stale leader", "controllers/leader", FAILED, "no sign for 600 s", LOGS, lease=lease(age_s=600)),
    case("a leader that never renewed", "controllers/leader", FAILED, "never renewed", LOGS,
         lease=replace(lease(), renewed=None)),
    case("a leader from the future", "controllers/leader", WARNING, "60 s ahead", "NTP", lease=lease(age_s=-60)),
    case("a lease that is not ours to see", "controllers/leader", SKIPPED, "403", "", lease=FORBIDDEN),
]  # fmt: skip
FLEET = [
    case("no cluster", "fleet/clusters", WARNING, "no cluster", "karmadactl join", fleet=Fleet(0)),
    case("clusters that are not ready", "fleet/clusters", WARNING, "2 of 5 clusters", "get cluster m1",
         fleet=Fleet(5, not_ready=("m1", "m2"))),
    case("clusters without figures", "fleet/room", WARNING, "1 clusters report no free room", "get cluster m3",
         fleet=Fleet(5, unmeasured=("m3",))),
    case("clusters that are not ours to see", "fleet/clusters", SKIPPED, "403", "", fleet=FORBIDDEN),
    case("bindings of ours and no leader", "fleet/scheduler", FAILED, "4 bindings wait", "Start the controllers",
         lease=None),
    case("bindings of a stranger", "fleet/strange-scheduler", WARNING, "'gone'", "--other-scheduler=gone",
         bindings=Bindings({"gone": 1})),
    case("karmada-scheduler does not lead", "fleet/karmada-scheduler", WARNING, "2 bindings wait",
         "kubectl -n karmada-system get pods", karmada_lease=None),
    case("bindings that lag", "fleet/lagging", WARNING, "2 changed", LOGS,
         bindings=Bindings({"berthmaster": 9}, lagging=("a/b", "a/c"))),
    case("bindings that fit nowhere", "fleet/unschedulable", WARNING, "a/b by NoClusterFit",
         "-n a describe resourcebinding b",
         bindings=Bindings({"berthmaster": 9}, unschedulable=(("a/b", "NoClusterFit"),))),
    case("bindings that are not ours to see", "fleet/bindings", SKIPPED, "403", "", bindings=FORBIDDEN),
]  # fmt: skip
PROBES = [
    case("no pod is ready", "probes/pods", FAILED, "berthmaster-webhook has 0 of 2", "component=webhook",
         workloads=(replace(workload("webhook", name="berthmaster-webhook", wanted=2), ready=0),)),
    case("one pod is ready", "probes/pods", WARNING, "1 of 2 pods", "describe pods",
         workloads=(replace(workload("controllers", wanted=2), ready=1),)),
    case("no pod is wanted", "probes/pods", WARNING, "0 of 0 pods", "scale deploy webhook",
         workloads=(workload("webhook", wanted=0),)),
    case("a process that is not ready", "probes/ready", FAILED, "no lists yet", "kubectl -n karmada-system get pods",
         probes=(Probe("http://h", 503, "no lists yet"),)),
    case("a process that is not there", "probes/ready", FAILED, "does not answer", "port-forward",
         probes=(Probe("http://h", 0, "refused"),)),
]  # fmt: skip


SET_UPS = [
    *API_SERVER, *DEFINITIONS, *REGISTRATION, *CERTIFICATES, *ADMISSION, *RIGHTS, *CONFLICTS, *CONTROLLERS, *FLEET,
    *PROBES,
]  # fmt: skip
VALUES = yaml.safe_load(Path(__file__).parents[4].joinpath("charts/berthmaster/values.yaml").read_text())
NAMED_VALUE = re.compile(r"(?<![-.\w])((?:certificates|controllers|registration|target|webhook)\.[a-zA-Z.]+[a-zA-Z])")


def has(values, path):
    """Whether the chart has a value; below a mapping that is empty by default anything may be."""
    node = values
    for name in path.split("."):
        if node == {}:
            return True
        if not isinstance(node, dict) or name not in node:
            return False
        node = node[name]
    return True


@pytest.mark.parametrize(("facts", "check", "verdict", "told", "remedy"), SET_UPS)
def test_the_chart_has_every_value_that_a_remedy_names(facts, check, verdict, told, remedy):
    del check, verdict, told, remedy
    named = [path for each in examined(well(**facts)) for path in NAMED_VALUE.findall(each.remedy)]
    assert not [path for path in named if not has(VALUES, path)]


@pytest.mark.parametrize(("facts", "check", "verdict", "told", "remedy"), SET_UPS)
def test_a_set_up(facts, check, verdict, told, remedy):
    found = [each for each in examined(well(**facts)) if each.check == check]
    assert found, f"nothing about {check}"
    worst = min(found, key=lambda each: list(Verdict).index(each.verdict))
    assert worst.verdict is verdict, worst
    assert told in worst.told
    assert remedy in worst.remedy
    assert bool(worst.remedy) or verdict in {OK, SKIPPED}, "what is wrong has a remedy"
    assert "{" not in worst.remedy.replace(f"{{{HOST}}}", "").replace("'{.", ""), "names are filled in"


def test_a_set_up_that_is_well_has_nothing_but_good_findings():
    found = examined(well())
    assert {each.verdict for each in found} == {OK}, [each for each in found if each.verdict is not OK]
    assert {each.group for each in found} == {
        "api-server", "definitions", "registration", "certificates", "admission", "rights", "conflicts", "controllers",
        "fleet", "probes",
    }  # fmt: skip


def test_a_target_that_does_not_answer_is_the_one_finding():
    assert [each.check for each in examined(Facts(SETUP, NOW, SILENT))] == ["api-server/target"]


def test_a_service_is_fine_where_the_host_is_the_target():
    facts = well(setup=replace(SETUP, single=True), hooks=hooks(is_service=True))
    assert next(each for each in examined(facts) if each.check == "registration/url").verdict is OK


def test_the_others_are_known_by_the_host_or_by_name():
    bindings = Bindings({"theirs": 1, "named": 1})
    setup = replace(SETUP, other_schedulers=("named",))
    workloads = (workload("karmada-scheduler", "--scheduler-name=theirs"),)
    found = examined(well(bindings=bindings, setup=setup, workloads=workloads))
    assert not [each for each in found if each.check == "fleet/strange-scheduler"]
