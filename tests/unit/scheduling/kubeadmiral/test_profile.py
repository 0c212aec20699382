import pytest
from tables import cases, data

from berthmaster.model.decode import convert
from berthmaster.model.errors import FieldError
from berthmaster.model.kubeadmiral.profiles import SchedulingProfile
from berthmaster.scheduling.kubeadmiral.filter_plugins import DEFAULT_FILTERS
from berthmaster.scheduling.kubeadmiral.profile import DEFAULT_PLUGINS, PluginNames, plugin_names
from berthmaster.scheduling.kubeadmiral.score_plugins import DEFAULT_SCORES

ROWS = data("scheduling/kubeadmiral_profiles")

FIT = "ClusterResourcesFit"
MOST, LEAST = "ClusterResourcesMostAllocated", "ClusterResourcesLeastAllocated"


def profile(**plugins):
    return convert(SchedulingProfile, {"metadata": {"name": "p"}, "spec": {"plugins": plugins}})


def changed(point, disabled=(), enabled=()):
    return {point: {"disabled": [{"name": name} for name in disabled], "enabled": [{"name": name} for name in enabled]}}


def without(names, *left_out):
    return tuple(name for name in names if name not in left_out)


@cases(
    ("plugins", "expected"),
    {
        "no change": ({}, DEFAULT_PLUGINS),
        "one more plugin, at the end": (changed("filter", enabled=[FIT]), PluginNames(filters=(*DEFAULT_FILTERS, FIT))),
        "one plugin in place of another": (
            changed("score", disabled=[LEAST], enabled=[MOST]),
            PluginNames(scores=(*without(DEFAULT_SCORES, LEAST), MOST)),
        ),
        "a default plugin moved to the end": (
            changed("filter", disabled=["APIResources"], enabled=["APIResources"]),
            PluginNames(filters=(*without(DEFAULT_FILTERS, "APIResources"), "APIResources")),
        ),
        "all plugins of an extension point disabled": (changed("select", disabled=["*"]), PluginNames(selectors=())),
        "all disabled, some enabled in another order": (
            changed("select", disabled=["*"], enabled=["MaxCluster", "PrioritySort"]),
            PluginNames(selectors=("MaxCluster", "PrioritySort")),
        ),
        "disabling affects defaults only and accepts any name": (
            changed("filter", disabled=[FIT, "unheard-of"], enabled=[FIT]),
            PluginNames(filters=(*DEFAULT_FILTERS, FIT)),
        ),
        "a plugin of two extension points stays enabled at the other": (
            changed("score", disabled=["ClusterAffinity"]),
            PluginNames(scores=without(DEFAULT_SCORES, "ClusterAffinity")),
        ),
        "type and weight are ignored": (
            {"filter": {"enabled": [{"name": FIT, "type": "Webhook", "wait": 3}]}},
            PluginNames(filters=(*DEFAULT_FILTERS, FIT)),
        ),
    },
)
def test_the_plugins_of_a_profile(plugins, expected):
    assert plugin_names(profile(**plugins)) == expected


@cases(("plugins", "path", "message"), ROWS["invalid profiles"])
def test_invalid_profiles(plugins, path, message):
    with pytest.raises(FieldError) as raised:
        plugin_names(profile(**plugins))
    assert raised.value.path == path
    assert message in raised.value.problem
