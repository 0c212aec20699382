import pytest

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


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        pytest.param({}, DEFAULT_PLUGINS, id="no change"),
        pytest.param(
            changed("filter", enabled=[FIT]),
            PluginNames(filters=(*DEFAULT_FILTERS, FIT)),
            id="one more plugin, at the end",
        ),
        pytest.param(
            changed("score", disabled=[LEAST], enabled=[MOST]),
            PluginNames(scores=(*without(DEFAULT_SCORES, LEAST), MOST)),
            id="one plugin in place of another",
        ),
        pytest.param(
            changed("filter", disabled=["APIResources"], enabled=["APIResources"]),
            PluginNames(filters=(*without(DEFAULT_FILTERS, "APIResources"), "APIResources")),
            id="a default plugin moved to the end",
        ),
        pytest.param(
            changed("select", disabled=["*"]),
            PluginNames(selectors=()),
            id="all plugins of an extension point disabled",
        ),
        pytest.param(
            changed("select", disabled=["*"], enabled=["MaxCluster", "PrioritySort"]),
            PluginNames(selectors=("MaxCluster", "PrioritySort")),
            id="all disabled, some enabled in another order",
        ),
        pytest.param(
            changed("filter", disabled=[FIT, "unheard-of"], enabled=[FIT]),
            PluginNames(filters=(*DEFAULT_FILTERS, FIT)),
            id="disabling affects defaults only and accepts any name",
        ),
        pytest.param(
            changed("score", disabled=["ClusterAffinity"]),
            PluginNames(scores=without(DEFAULT_SCORES, "ClusterAffinity")),
            id="a plugin of two extension points stays enabled at the other",
        ),
        pytest.param(
            {"filter": {"enabled": [{"name": FIT, "type": "Webhook", "wait": 3}]}},
            PluginNames(filters=(*DEFAULT_FILTERS, FIT)),
            id="type and weight are ignored",
        ),
    ],
)
def test_the_plugins_of_a_profile(plugins, expected):
    assert plugin_names(profile(**plugins)) == expected


@pytest.mark.parametrize(
    ("plugins", "path", "message"),
    [
        pytest.param(
            changed("filter", enabled=["APIResources"]),
            "spec.plugins.filter.enabled[0].name",
            "'APIResources' is enabled by default; disable it to move it",
            id="a default plugin that is not disabled",
        ),
        pytest.param(
            changed("filter", enabled=[FIT, FIT]),
            "spec.plugins.filter.enabled[1].name",
            "is a duplicate",
            id="a duplicate plugin",
        ),
        pytest.param(
            changed("score", disabled=["*"], enabled=["ClusterAffinity", "Nearest"]),
            "spec.plugins.score.enabled[1].name",
            "'Nearest' is an unknown plugin; accepted are TaintToleration, ",
            id="an unknown plugin",
        ),
        pytest.param(
            changed("select", enabled=["ClusterAffinity"]),
            "spec.plugins.select.enabled[0].name",
            "works at filter and score, not at select",
            id="a plugin of another extension point",
        ),
        pytest.param(
            changed("select", enabled=["ClusterCapacityWeight"]),
            "spec.plugins.select.enabled[0].name",
            "divides replicas, which a profile cannot change",
            id="a plugin that divides replicas",
        ),
        pytest.param(
            changed("filter", enabled=["KatalystResourcesExist"]),
            "spec.plugins.filter.enabled[0].name",
            "is an unknown plugin",
            id="a plugin that needs Katalyst",
        ),
        pytest.param(
            {"filter": {"enabled": [{"name": "mine", "type": "Webhook"}]}},
            "spec.plugins.filter.enabled[0].name",
            "is a webhook that is not known here",
            id="a webhook",
        ),
        pytest.param(
            {"filter": {"enabled": [{}]}},
            "spec.plugins.filter.enabled[0].name",
            "'' is an unknown plugin",
            id="a plugin without a name",
        ),
    ],
)
def test_invalid_profiles(plugins, path, message):
    with pytest.raises(FieldError) as raised:
        plugin_names(profile(**plugins))
    assert raised.value.path == path
    assert message in raised.value.problem
