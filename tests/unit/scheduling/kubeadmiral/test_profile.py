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
        pytest.param({}, DEFAULT_PLUGINS, id="nothing changed"),
        pytest.param(
            changed("filter", enabled=[FIT]), PluginNames(filters=(*DEFAULT_FILTERS, FIT)), id="one more, at the end"
        ),
        pytest.param(
            changed("score", disabled=[LEAST], enabled=[MOST]),
            PluginNames(scores=(*without(DEFAULT_SCORES, LEAST), MOST)),
            id="one for another",
        ),
        pytest.param(
            changed("filter", disabled=["APIResources"], enabled=["APIResources"]),
            PluginNames(filters=(*without(DEFAULT_FILTERS, "APIResources"), "APIResources")),
            id="a default one moved to the end",
        ),
        pytest.param(changed("select", disabled=["*"]), PluginNames(selectors=()), id="all of a point disabled"),
        pytest.param(
            changed("select", disabled=["*"], enabled=["MaxCluster", "PrioritySort"]),
            PluginNames(selectors=("MaxCluster", "PrioritySort")),
            id="all disabled, some in another order",
        ),
        pytest.param(
            changed("filter", disabled=[FIT, "unheard-of"], enabled=[FIT]),
            PluginNames(filters=(*DEFAULT_FILTERS, FIT)),
            id="disabling concerns the defaults only, and any name will do",
        ),
        pytest.param(
            changed("score", disabled=["ClusterAffinity"]),
            PluginNames(scores=without(DEFAULT_SCORES, "ClusterAffinity")),
            id="a plugin of two points is left in at the other",
        ),
        pytest.param(
            {"filter": {"enabled": [{"name": FIT, "type": "Webhook", "wait": 3}]}},
            PluginNames(filters=(*DEFAULT_FILTERS, FIT)),
            id="type and weight are not looked at",
        ),
    ],
)
def test_which_plugins_take_part(plugins, expected):
    assert plugin_names(profile(**plugins)) == expected


@pytest.mark.parametrize(
    ("plugins", "path", "said"),
    [
        pytest.param(
            changed("filter", enabled=["APIResources"]),
            "spec.plugins.filter.enabled[0].name",
            "'APIResources' is enabled by default; disable it to move it",
            id="a default one that is not disabled",
        ),
        pytest.param(
            changed("filter", enabled=[FIT, FIT]),
            "spec.plugins.filter.enabled[1].name",
            "is a duplicate",
            id="one twice",
        ),
        pytest.param(
            changed("score", disabled=["*"], enabled=["ClusterAffinity", "Nearest"]),
            "spec.plugins.score.enabled[1].name",
            "'Nearest' is an unknown plugin; accepted are TaintToleration, ",
            id="an unknown one",
        ),
        pytest.param(
            changed("select", enabled=["ClusterAffinity"]),
            "spec.plugins.select.enabled[0].name",
            "works at filter and score, not at select",
            id="one that works elsewhere",
        ),
        pytest.param(
            changed("select", enabled=["ClusterCapacityWeight"]),
            "spec.plugins.select.enabled[0].name",
            "divides replicas, which a profile cannot change",
            id="one that divides replicas",
        ),
        pytest.param(
            changed("filter", enabled=["KatalystResourcesExist"]),
            "spec.plugins.filter.enabled[0].name",
            "is an unknown plugin",
            id="one that needs katalyst",
        ),
        pytest.param(
            {"filter": {"enabled": [{"name": "mine", "type": "Webhook"}]}},
            "spec.plugins.filter.enabled[0].name",
            "is a webhook, which is not supported here",
            id="a webhook",
        ),
        pytest.param(
            {"filter": {"enabled": [{}]}},
            "spec.plugins.filter.enabled[0].name",
            "'' is an unknown plugin",
            id="no name",
        ),
    ],
)
def test_what_a_profile_cannot_ask_for(plugins, path, said):
    with pytest.raises(FieldError) as raised:
        plugin_names(profile(**plugins))
    assert raised.value.path == path
    assert said in raised.value.problem
