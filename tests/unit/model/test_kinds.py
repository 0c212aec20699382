import pytest

from berthmaster.model.kinds import Scope, group_of, is_namespaced, reason_not_propagated, scope_of


@pytest.mark.parametrize(
    ("api_version", "kind", "scope"),
    [
        ("v1", "Namespace", Scope.CLUSTER),
        ("v1", "ConfigMap", Scope.NAMESPACED),
        ("apps/v1", "Deployment", Scope.NAMESPACED),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", Scope.CLUSTER),
        ("rbac.authorization.k8s.io/v1beta1", "ClusterRole", Scope.CLUSTER),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", Scope.CLUSTER),
        ("policy.karmada.io/v1alpha1", "PropagationPolicy", Scope.NAMESPACED),
        ("policy.karmada.io/v1alpha1", "ClusterPropagationPolicy", Scope.CLUSTER),
        ("core.kubeadmiral.io/v1alpha1", "FederatedCluster", Scope.CLUSTER),
        ("example.io/v1", "Widget", None),
        ("example.io/v1", "Namespace", None),
    ],
)
def test_scopes_of_known_kinds(api_version, kind, scope):
    assert scope_of(api_version, kind) is scope
    assert is_namespaced(api_version, kind) is (scope is not Scope.CLUSTER)


@pytest.mark.parametrize(("api_version", "group"), [("v1", ""), ("apps/v1", "apps"), ("a.b/v2", "a.b"), ("", "")])
def test_groups(api_version, group):
    assert group_of(api_version) == group


@pytest.mark.parametrize(
    ("api_version", "kind", "namespace", "reason"),
    [
        ("apps/v1", "Deployment", "default", None),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", "", None),
        ("v1", "Event", "default", "Event of v1 is not propagated"),
        ("events.k8s.io/v1", "Event", "default", "the API group events.k8s.io is not propagated"),
        ("coordination.k8s.io/v1", "Lease", "default", "Lease of coordination.k8s.io/v1 is not propagated"),
        ("work.karmada.io/v1alpha1", "Work", "default", "the API group work.karmada.io is not propagated"),
        ("search.karmada.io/v1alpha1", "ResourceRegistry", "", None),
        ("v1", "Secret", "karmada-system", "the namespace karmada-system is reserved"),
        ("v1", "Secret", "karmada-es-member1", "the namespace karmada-es-member1 is reserved"),
        ("v1", "Secret", "kube-system", "the namespace kube-system is not propagated"),
        ("v1", "Secret", "my-kube-tools", "the namespace my-kube-tools is not propagated"),
        ("v1", "Secret", "kubernetes", None),
    ],
)
def test_reasons_why_a_resource_is_not_propagated(api_version, kind, namespace, reason):
    assert reason_not_propagated(api_version, kind, namespace) == reason
