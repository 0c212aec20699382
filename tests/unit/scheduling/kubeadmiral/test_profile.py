import pytest
from tables import cases

from berthmaster.model.decode import convert
from berthmaster.model.errors import FieldError
from berthmaster.model.kubeadmiral import SchedulingProfile
from berthmaster.scheduling.kubeadmiral.plugins import DEFAULT_FILTERS, DEFAULT_SCORES
from berthmaster.scheduling.kubeadmiral.profile import DEFAULT_PLUGINS, PluginNames, plugin_names

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


@cases(
    ("plugins", "path", "message"),
    {
        "a default plugin that is not disabled": (
            changed("filter", enabled=["APIResources"]),
            "spec.plugins.filter.enabled[0].name",
            "'APIResources' is enabled by default; disable it to move it",
        ),
        "a duplicate plugin": (
            changed("filter", enabled=[FIT, FIT]),
            "spec.plugins.filter.enabled[1].name",
            "is a duplicate",
        ),
        "an unknown plugin": (
            changed("score", disabled=["*"], enabled=["ClusterAffinity", "Nearest"]),
            "spec.plugins.score.enabled[1].name",
            "'Nearest' is an unknown plugin; accepted are TaintToleration, ",
        ),
        "a plugin of another extension point": (
            changed("select", enabled=["ClusterAffinity"]),
            "spec.plugins.select.enabled[0].name",
            "works at filter and score, not at select",
        ),
        "a plugin that divides replicas": (
            changed("select", enabled=["ClusterCapacityWeight"]),
            "spec.plugins.select.enabled[0].name",
            "divides replicas, which a profile cannot change",
        ),
        "a plugin that needs Katalyst": (
            changed("filter", enabled=["KatalystResourcesExist"]),
            "spec.plugins.filter.enabled[0].name",
            "is an unknown plugin",
        ),
        "a webhook": (
            {"filter": {"enabled": [{"name": "mine", "type": "Webhook"}]}},
            "spec.plugins.filter.enabled[0].name",
            "is a webhook that is not known here",
        ),
        "a plugin without a name": (
            {"filter": {"enabled": [{}]}},
            "spec.plugins.filter.enabled[0].name",
            "'' is an unknown plugin",
        ),
    },
)
def test_invalid_profiles(plugins, path, message):
    with pytest.raises(FieldError) as raised:
        plugin_names(profile(**plugins))
    assert raised.value.path == path
    assert message in raised.value.problem
