import pytest

from berthmaster.model.decode import builtins, convert, unknown_fields
from berthmaster.model.errors import FieldError
from berthmaster.model.kubeadmiral import KubeAdmiralPolicy, KubeAdmiralSpec
from berthmaster.model.scheduling_profile import SchedulingProfile

FULL = {
    "schedulingProfile": "fast",
    "schedulingMode": "Divide",
    "replicasStrategy": "Binpack",
    "clusterSelector": {"tier": "gold"},
    "clusterAffinity": [
        {
            "matchExpressions": [{"key": "az", "operator": "In", "values": ["a"]}],
            "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["x"]}],
        }
    ],
    "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3}],
    "maxClusters": 0,
    "placement": [
        {"cluster": "a", "preferences": {"minReplicas": 0, "maxReplicas": 0, "weight": 0, "priority": 0}},
    ],
    "disableFollowerScheduling": True,
    "autoMigration": {"when": {"podUnschedulableFor": "5m"}, "keepUnschedulableReplicas": True},
    "reschedulePolicy": {
        "disableRescheduling": True,
        "rescheduleWhen": {
            "policyContentChanged": False,
            "clusterJoined": True,
            "clusterLabelsChanged": True,
            "clusterAPIResourcesChanged": True,
        },
        "replicaRescheduling": {"avoidDisruption": False},
    },
}
PROFILE = {
    "apiVersion": "core.kubeadmiral.io/v1alpha1",
    "kind": "SchedulingProfile",
    "metadata": {"name": "fast"},
    "spec": {
        "plugins": {"filter": {"enabled": [{"name": "a", "type": "Webhook", "wait": 2}], "disabled": [{"name": "*"}]}},
        "pluginConfig": [{"name": "a", "args": {"any": ["thing"]}}],
    },
}


def test_every_field_of_a_policy_is_read_and_written_back():
    # A zero is not the same as nothing said.
    assert builtins(convert(KubeAdmiralSpec, FULL)) == FULL
    assert unknown_fields(KubeAdmiralSpec, FULL) == []


def test_what_is_not_said_is_none():
    spec = convert(KubeAdmiralPolicy, {"spec": {"placement": [{"cluster": "a"}], "reschedulePolicy": {}}}).spec
    assert (spec.max_clusters, spec.auto_migration) == (None, None)
    assert spec.placement[0].preferences.weight is None
    assert spec.reschedule_policy.reschedule_when is None


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"maxClusters": "1"}, "maxClusters"),
        ({"placement": [{"cluster": "a", "preferences": {"weight": 1.5}}]}, "placement[0].preferences.weight"),
        ({"clusterSelector": {"a": 1}}, "clusterSelector[a]"),
    ],
)
def test_a_value_of_the_wrong_type_is_named(spec, path):
    with pytest.raises(FieldError) as raised:
        convert(KubeAdmiralSpec, spec)
    assert raised.value.path == path


def test_every_field_of_a_profile_is_read():
    profile = convert(SchedulingProfile, PROFILE)
    assert unknown_fields(SchedulingProfile, PROFILE) == []
    (plugin,) = profile.spec.plugins.filter.enabled
    assert (plugin.name, plugin.type, plugin.weight) == ("a", "Webhook", 2)
    assert builtins(profile.spec) == PROFILE["spec"]
