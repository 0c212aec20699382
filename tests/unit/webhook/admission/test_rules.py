"""Every rule: an object that it finds, the field, and a similar object that it accepts."""

import policy_pages
import pytest
from reviews import admission_review, answer
from tables import cases

from berthmaster.model.placement_limits import PlacementLimits
from webhook.admission.catalog import ALL_RULES, RULE_IDS
from webhook.admission.settings import AdmissionSettings, Level

DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
STATIC = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}
DYNAMIC = {**STATIC, "weightPreference": {"dynamicWeight": "AvailableReplicas"}}
BY_CLUSTER = {"spreadByField": "cluster", "minGroups": 1, "maxGroups": 2}
BY_REGION = {"spreadByField": "region", "minGroups": 1, "maxGroups": 2}


def weights(*names, **more):
    entries = [{"targetCluster": {"clusterNames": [name]}, "weight": 1} for name in names]
    return {**STATIC, "weightPreference": {"staticWeightList": entries, **more}}


def placed(**placement):
    return {"placement": placement}


def tolerating(**toleration):
    return placed(clusterTolerations=[toleration])


def groups(*terms):
    return placed(clusterAffinities=[{"affinityName": f"g{index}", **term} for index, term in enumerate(terms)])


def selecting(*selectors, **spec):
    return {"resourceSelectors": list(selectors), **spec}


PP, CPP, KPP = "PropagationPolicy", "ClusterPropagationPolicy", policy_pages.KUBEADMIRAL
OURS = "policy.berthmaster.io/"


def annotated(key, text):
    return {"metadata": {"annotations": {f"{OURS}{key}": text}}}


MOVE_ANNOTATIONS = [
    # kind, an annotation that it finds, and one that it accepts
    (PP, "failback", "after 10m", "failback", ""),
    (PP, "failback", "after=soon", "failback", "after=10m, headroom=10%, mode=DryRun"),
    (CPP, "failback", "headroom=10", "failback", "true"),
    (CPP, "failback", "yes", "failback", "False"),
    (PP, "move-strategy", "makeBeforeBreak", "move-strategy", "MakeBeforeBreak"),
    (PP, "move-volumes", "lost", "move-volumes", "MayBeLost"),
    (PP, "pause-moves", "yes", "pause-moves", "all"),
    (PP, "pause-move", "true", "pause-moves", "true"),
    (PP, "fail-back", "true", "accept-plan", "true"),
    (CPP, "pause_moves", "true", "priority-drop", "{}"),
]
OVERFLOW = {"clusterNames": ["a"], "overflowAffinities": [{"affinityName": "o", "clusterNames": ["b"]}]}


def failing_over(mode):
    application = {"decisionConditions": {"tolerationSeconds": 60}, "purgeMode": mode}
    return selecting(DEPLOYMENT, propagateDeps=True, failover={"application": application})


CASES = [
    # kind, rule, a spec that it finds, the field, a spec that it accepts
    (CPP, "preemption-without-namespace", selecting(DEPLOYMENT, preemption="Always", priority=1), "spec.resourceSelectors[0].namespace", selecting(DEPLOYMENT)),
    (CPP, "preemption-scope-unknown", selecting({"apiVersion": "x/v1", "kind": "Y", "name": "y"}, preemption="Always", priority=1), "spec.resourceSelectors[0].namespace", selecting({"apiVersion": "x/v1", "kind": "Y", "name": "y", "namespace": "z"}, preemption="Always", priority=1)),
    (CPP, "preemption-without-effect", selecting({**DEPLOYMENT, "namespace": "a"}, preemption="Always", priority=0), "spec.priority", selecting({**DEPLOYMENT, "namespace": "a"}, preemption="Always", priority=1)),
    (PP, "selector-wrong-scope", selecting({"apiVersion": "v1", "kind": "Namespace"}), "spec.resourceSelectors[0].kind", selecting(DEPLOYMENT)),
    (CPP, "selector-wrong-scope", selecting({"apiVersion": "v1", "kind": "Namespace", "namespace": "a"}), "spec.resourceSelectors[0].namespace", selecting({"apiVersion": "v1", "kind": "Namespace"})),
    (PP, "selector-labels-ignored", selecting({**DEPLOYMENT, "labelSelector": {}}), "spec.resourceSelectors[0].labelSelector", selecting({"apiVersion": "apps/v1", "kind": "Deployment", "labelSelector": {}})),
    (PP, "selector-repeated", selecting(DEPLOYMENT, DEPLOYMENT), "spec.resourceSelectors[1]", selecting(DEPLOYMENT, {**DEPLOYMENT, "name": "db"})),
    (CPP, "selector-never-propagated", selecting({**DEPLOYMENT, "namespace": "kube-system"}), "spec.resourceSelectors[0].namespace", selecting({**DEPLOYMENT, "namespace": "kuber"})),
    (CPP, "selector-never-propagated", selecting({"apiVersion": "work.karmada.io/v1alpha2", "kind": "X"}), "spec.resourceSelectors[0].apiVersion", selecting({"apiVersion": "work.example/v1", "kind": "X"})),
    (PP, "group-unreachable", groups({}, {"clusterNames": ["a"]}), "spec.placement.clusterAffinities[1]", groups({"clusterNames": ["a"]}, {})),
    (PP, "group-repeated", groups({"clusterNames": ["a", "b"]}, {"clusterNames": ["b", "a"]}), "spec.placement.clusterAffinities[1]", groups({"clusterNames": ["a"]}, {"clusterNames": ["b"]})),
    (PP, "groups-empty", placed(clusterAffinities=[]), "spec.placement.clusterAffinities", {}),
    (PP, "cluster-named-and-excluded", placed(clusterAffinity={"clusterNames": ["a"], "exclude": ["a"]}), "spec.placement.clusterAffinity.exclude", placed(clusterAffinity={"clusterNames": ["a"], "exclude": ["b"]})),
    (PP, "selector-broken", placed(clusterAffinity={"labelSelector": {"matchLabels": {"a b": "c"}}}), "spec.placement.clusterAffinity.labelSelector.matchLabels[a b]", placed(clusterAffinity={"labelSelector": {"matchLabels": {"a": "c"}}})),
    (PP, "selector-broken", selecting({**DEPLOYMENT, "name": "", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}), "spec.resourceSelectors[0].labelSelector.matchExpressions[0]", {}),
    (PP, "selector-broken", placed(clusterAffinity={"fieldSelector": {"matchExpressions": [{"key": "region", "operator": "In"}]}}), "spec.placement.clusterAffinity.fieldSelector.matchExpressions[0]", placed(clusterAffinity={"fieldSelector": {"matchExpressions": [{"key": "region", "operator": "In", "values": ["x"]}]}})),
    (PP, "spread-ignored-by-static-weight", placed(spreadConstraints=[BY_CLUSTER], replicaScheduling=weights("a")), "spec.placement.spreadConstraints", placed(spreadConstraints=[BY_CLUSTER], replicaScheduling=DYNAMIC)),
    (PP, "spread-max-groups-unset", placed(spreadConstraints=[{"spreadByField": "cluster", "minGroups": 1}]), "spec.placement.spreadConstraints[0].maxGroups", placed(spreadConstraints=[BY_CLUSTER])),
    (PP, "spread-unsupported", placed(spreadConstraints=[{"spreadByLabel": "rack", "minGroups": 1}]), "spec.placement.spreadConstraints", placed(spreadConstraints=[BY_REGION])),
    (PP, "spread-without-effect", placed(spreadConstraints=[BY_CLUSTER, {"spreadByField": "zone", "maxGroups": 1}]), "spec.placement.spreadConstraints[1]", placed(spreadConstraints=[BY_CLUSTER, BY_REGION])),
    (PP, "spread-min-above-named", placed(spreadConstraints=[{**BY_CLUSTER, "minGroups": 2}], clusterAffinity={"clusterNames": ["a", "b"], "exclude": ["b"]}), "spec.placement.clusterAffinity.clusterNames", placed(spreadConstraints=[{**BY_CLUSTER, "minGroups": 2}], clusterAffinity={"clusterNames": ["a", "b"]})),
    (PP, "overflow-forbidden-by-spread", placed(clusterAffinities=[{"affinityName": "g", **OVERFLOW}], spreadConstraints=[{**BY_CLUSTER, "maxGroups": 1}], replicaScheduling=DYNAMIC), "spec.placement.clusterAffinities[0].overflowAffinities", placed(clusterAffinities=[{"affinityName": "g", **OVERFLOW}], spreadConstraints=[BY_CLUSTER], replicaScheduling=DYNAMIC)),
    (PP, "division-without-effect", placed(replicaScheduling={"replicaSchedulingType": "Duplicated", "replicaDivisionPreference": "Aggregated"}), "spec.placement.replicaScheduling.replicaDivisionPreference", placed(replicaScheduling={"replicaSchedulingType": "Duplicated"})),
    (PP, "division-without-effect", placed(replicaScheduling={"replicaSchedulingType": "Duplicated", "weightPreference": {}}), "spec.placement.replicaScheduling.weightPreference", placed(replicaScheduling=DYNAMIC)),
    (PP, "weights-without-effect", placed(replicaScheduling={**weights("a"), "replicaDivisionPreference": "Aggregated"}), "spec.placement.replicaScheduling.weightPreference", placed(replicaScheduling=weights("a"))),
    (PP, "weights-without-effect", placed(replicaScheduling=weights("a", dynamicWeight="AvailableReplicas")), "spec.placement.replicaScheduling.weightPreference.staticWeightList", placed(replicaScheduling=DYNAMIC)),
    (PP, "static-weight-unmatched", placed(replicaScheduling=weights("a", "c"), clusterAffinity={"clusterNames": ["a"]}), "spec.placement.replicaScheduling.weightPreference.staticWeightList[1].targetCluster", placed(replicaScheduling=weights("a", "c"), clusterAffinity={"exclude": ["z"]})),
    (PP, "static-weight-incomplete", placed(replicaScheduling=weights("a"), clusterAffinity={"clusterNames": ["a", "b"]}), "spec.placement.replicaScheduling.weightPreference.staticWeightList", placed(replicaScheduling=weights("a", "b"), clusterAffinity={"clusterNames": ["a", "b"]})),
    (PP, "aggregated-beside-min-groups", placed(spreadConstraints=[{**BY_CLUSTER, "minGroups": 2}], replicaScheduling={"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}), "spec.placement.spreadConstraints[0].minGroups", placed(spreadConstraints=[{**BY_CLUSTER, "minGroups": 2}], replicaScheduling=DYNAMIC)),
    (PP, "toleration-of-everything", tolerating(operator="Exists"), "spec.placement.clusterTolerations[0]", tolerating(operator="Exists", key="k")),
    (PP, "toleration-without-key", tolerating(value="x"), "spec.placement.clusterTolerations[0].key", tolerating(key="k", value="x")),
    (PP, "toleration-without-effect", tolerating(key="k", effect="Never"), "spec.placement.clusterTolerations[0].effect", tolerating(key="k", effect="NoExecute")),
    (PP, "toleration-without-effect", tolerating(key="k", operator="Is"), "spec.placement.clusterTolerations[0].operator", tolerating(key="k", operator="Equal")),
    (PP, "toleration-without-effect", tolerating(key="k", operator="Exists", value="v"), "spec.placement.clusterTolerations[0].value", tolerating(key="k", operator="Exists")),
    (PP, "unsupported-placement", {**placed(racks=1), "schedulerName": "berthmaster"}, "spec.placement.racks", {**placed(clusterAffinity={}), "schedulerName": "berthmaster"}),
    (CPP, "unsupported-placement", {**placed(clusterAffinity={"racks": []}), "schedulerName": "berthmaster"}, "spec.placement.clusterAffinity.racks", {**placed(clusterAffinity={}), "schedulerName": "berthmaster"}),
    (PP, "placement-field-unknown", groups({"clusterNames": ["a"], "racks": 1}), "spec.placement.clusterAffinities[0].racks", groups({"clusterNames": ["a"]})),
    (PP, "purge-mode-removed", failing_over("Immediately"), "spec.failover.application.purgeMode", failing_over("Directly")),
    *(
        (kind, "move-annotation-invalid", annotated(key, bad), f"metadata.annotations[{OURS}{key}]", annotated(right, good))
        for kind, key, bad, right, good in MOVE_ANNOTATIONS
    ),
    (KPP, "kubeadmiral-weight-zero", {"placement": [{"cluster": "a", "preferences": {"weight": 0}}]}, "spec.placement[0].preferences.weight", {"placement": [{"cluster": "a", "preferences": {"weight": 1}}]}),
    (KPP, "kubeadmiral-preferences-ignored", {"schedulingMode": "Duplicate", "placement": [{"cluster": "a", "preferences": {"weight": 1}}]}, "spec.placement[0].preferences", {"placement": [{"cluster": "a", "preferences": {"weight": 1}}]}),
    (KPP, "kubeadmiral-preferences-ignored", {"replicasStrategy": "Binpack", "placement": [{"cluster": "a", "preferences": {"weight": 1}}]}, "spec.placement[0].preferences.weight", {"replicasStrategy": "Binpack", "placement": [{"cluster": "a", "preferences": {"priority": 1}}]}),
    (KPP, "kubeadmiral-preferences-ignored", {"placement": [{"cluster": "a", "preferences": {"priority": 1}}]}, "spec.placement[0].preferences.priority", {"maxClusters": 1, "placement": [{"cluster": "a", "preferences": {"priority": 1}}]}),
    (KPP, "kubeadmiral-binpack-duplicate", {"schedulingMode": "Duplicate", "replicasStrategy": "Binpack"}, "spec.replicasStrategy", {"replicasStrategy": "Binpack"}),
    (KPP, "kubeadmiral-binpack-order", {"replicasStrategy": "Binpack", "placement": [{"cluster": "a"}, {"cluster": "b"}]}, "spec.placement", {"replicasStrategy": "Binpack", "placement": [{"cluster": "a"}, {"cluster": "b", "preferences": {"priority": 1}}]}),
    (KPP, "kubeadmiral-max-replicas-zero", {"placement": [{"cluster": "a", "preferences": {"maxReplicas": 0}}]}, "spec.placement[0].preferences.maxReplicas", {"placement": [{"cluster": "a", "preferences": {"maxReplicas": 1}}]}),
    (KPP, "kubeadmiral-max-clusters-idle", {"maxClusters": 2, "placement": [{"cluster": "a"}]}, "spec.maxClusters", {"maxClusters": 1, "placement": [{"cluster": "a"}]}),
    (KPP, "kubeadmiral-sticky", {"reschedulePolicy": {"disableRescheduling": True}}, "spec.reschedulePolicy.disableRescheduling", {"reschedulePolicy": {}}),
]  # fmt: skip


def made(kind, spec):
    return policy_pages.made(kind, {"replicasStrategy": "Spread", **spec} if kind == KPP else spec)


def reviewed(kind, spec, levels):
    path = {KPP: "kubeadmiral-propagationpolicy"}.get(kind, kind.lower())
    everything_else_off = dict.fromkeys(RULE_IDS, Level.OFF)
    settings = AdmissionSettings(levels={**everything_else_off, **levels})
    return answer(f"/validate-{path}", admission_review(made(kind, spec)), settings)


@pytest.mark.parametrize(
    ("kind", "rule", "bad", "where", "good"), CASES, ids=[f"{case[1]} at {case[3].split('.')[-1]}" for case in CASES]
)
def test_rule(kind, rule, bad, where, good):
    warned = reviewed(kind, bad, {rule: Level.WARN})
    assert warned["allowed"] is True
    assert [each.split(": ")[0] for each in warned["warnings"]] == [where]
    assert warned["warnings"][0].endswith(f"[{rule}]")
    assert "…" not in warned["warnings"][0], "an API server would cut the warning"
    denied = reviewed(kind, bad, {rule: Level.DENY})
    assert denied["status"]["details"]["causes"][0]["field"] == where
    assert reviewed(kind, bad, {})["allowed"] is True
    assert "warnings" not in reviewed(kind, bad, {})
    assert "warnings" not in reviewed(kind, good, {rule: Level.WARN})


ELSEWHERE = {"lazy-change", "rebalancer-scope-unknown", "too-large"}


def test_every_rule_has_a_case():
    assert {case[1] for case in CASES} | ELSEWHERE == RULE_IDS
    assert len(RULE_IDS) == len(ALL_RULES)


def test_an_update_of_a_lazy_policy_gives_a_warning():
    old, new = made(PP, {"activationPreference": "Lazy"}), made(PP, {"activationPreference": "Lazy", "priority": 3})
    path = "/validate-propagationpolicy"
    assert "lazy-change" in answer(path, admission_review(new, old))["warnings"][0]
    assert "warnings" not in answer(path, admission_review(new, new))
    assert "warnings" not in answer(path, admission_review(new))


def test_all_rules_but_three_warn_by_default():
    assert {rule.id for rule in ALL_RULES if rule.level(AdmissionSettings()) is not Level.WARN} == {
        "preemption-without-namespace",
        "too-large",
        "unsupported-placement",
    }


def test_warnings_are_bounded():
    spec = placed(clusterTolerations=[{"operator": "Exists"} for _ in range(200)])
    warnings = answer("/validate-propagationpolicy", admission_review(made(PP, spec)))["warnings"]
    assert len(warnings) <= 24
    assert sum(len(each.encode()) for each in warnings) <= 4096
    assert warnings[-1].startswith("and ")


def validated(kind, spec, settings=None, old=None):
    path = {KPP: "kubeadmiral-propagationpolicy"}.get(kind, kind.lower())
    stored = made(kind, old) if old is not None else None
    return answer(f"/validate-{path}", admission_review(made(kind, spec), stored), settings or AdmissionSettings())


TOLERATIONS = placed(clusterTolerations=[{"operator": "Exists"} for _ in range(300)])
TERMS = {"tolerations": [{"operator": "Exists"} for _ in range(300)]}


@cases(
    ("kind", "spec", "path", "better"),
    {
        "Karmada": (PP, TOLERATIONS, "spec.placement.clusterTolerations", {}),
        "KubeAdmiral": (KPP, TERMS, "spec.tolerations", {}),
    },
)
class TestTooLarge:
    def test_no_other_rule_runs_on_a_policy_that_is_denied(self, kind, spec, path, better):
        found = validated(kind, spec)["status"]
        assert [cause["field"] for cause in found["details"]["causes"]] == [path]
        assert "300 tolerations; at most 256 are scheduled" in found["message"]
        assert "[too-large]" in found["message"]
        assert validated(kind, better)["allowed"] is True

    def test_limit_and_level_are_configurable(self, kind, spec, path, better):
        large = AdmissionSettings(limits=PlacementLimits(tolerations=300))
        assert validated(kind, spec, large)["allowed"] is True
        small = AdmissionSettings(limits=PlacementLimits(tolerations=299))
        assert validated(kind, spec, small)["allowed"] is False
        assert validated(kind, better, small)["allowed"] is True
        found = validated(kind, spec, AdmissionSettings(levels={"too-large": Level.WARN}))
        assert found["allowed"] is True
        assert found["warnings"][0].startswith(f"{path}: 300 tolerations")

    def test_an_update_that_changes_nothing_is_allowed_with_a_warning(self, kind, spec, path, better):
        assert validated(kind, spec, old=spec)["allowed"] is True
        assert validated(kind, spec, old=spec)["warnings"][0].startswith(f"{path}: 300 tolerations")
        assert validated(kind, spec, old=better)["allowed"] is False
        assert validated(kind, better, old=spec)["allowed"] is True


def test_a_rule_reports_its_first_problems_and_their_number():
    spec = selecting(*(DEPLOYMENT for _ in range(1000)))
    found = reviewed(PP, spec, {"selector-repeated": Level.DENY})["status"]
    assert len(found["details"]["causes"]) == 51
    assert found["details"]["causes"][-1]["message"] == "949 more problems like these; correct them too"


def test_messages_do_not_repeat_long_names():
    """A name of 50 kB, which each of 1,000 problems would repeat."""
    same = [{"affinityName": "x" * 50_000, "labelSelector": {}}, *({"affinityName": f"g{n}"} for n in range(1000))]
    found = reviewed(PP, placed(clusterAffinities=same), {"group-unreachable": Level.DENY})["status"]
    assert len(found["message"]) <= 16_384
    same = [{**group, "clusterNames": ["a"]} for group in same]
    found = reviewed(PP, placed(clusterAffinities=same), {"group-repeated": Level.DENY})["status"]
    assert len(found["message"]) <= 16_384
