import sys

import pytest
from builders import cluster
from decisions import asked, outcome, schedule
from tables import cases

from berthmaster.model.errors import InputError, PluginError
from berthmaster.scheduling.karmada.profile import built_in, karmada_profile
from berthmaster.scheduling.profile import Plugins, with_third_parties

EVERYTHING = [
    "ClusterAffinity",
    "TaintToleration",
    "APIEnablement",
    "SpreadConstraint",
    "ClusterEviction",
    "ClusterLocality",
]


def test_the_built_in_plugins_are_karmadas_with_default_feature_gates():
    assert built_in().names == EVERYTHING


def test_the_gate_adds_workload_affinity():
    added = set(built_in(workload_affinity=True).names) - set(EVERYTHING)
    assert added == {"WorkloadAffinity", "WorkloadAntiAffinity"}


@cases(
    ("switches", "expected"),
    {
        "a star enables all": (["*"], EVERYTHING),
        "without switches no plugin is enabled": ([], []),
        "names only": (["TaintToleration", "ClusterLocality"], ["TaintToleration", "ClusterLocality"]),
        "all except one": (["*", "-TaintToleration"], [each for each in EVERYTHING if each != "TaintToleration"]),
        "a star applies first at any position": (
            ["-TaintToleration", "*"],
            [each for each in EVERYTHING if each != "TaintToleration"],
        ),
        "enabled, then disabled": (["ClusterAffinity", "-ClusterAffinity"], []),
        "disabled, then enabled": (["-ClusterAffinity", "ClusterAffinity"], ["ClusterAffinity"]),
        "enabled twice": (["ClusterAffinity", "ClusterAffinity"], ["ClusterAffinity"]),
    },
)
def test_switches_work_as_in_karmada(switches, expected):
    assert built_in().selected(switches).names == expected


@pytest.mark.parametrize("switch", ["Taints", "-Taints", "-*", "", "tainttoleration"])
def test_an_unknown_plugin_is_an_error_that_lists_the_known_ones(switch):
    with pytest.raises(InputError, match=r"unknown plugin .*; known are ClusterAffinity, .*ClusterLocality"):
        built_in().selected(["*", switch])


def test_a_disabled_plugin_has_no_effect():
    clusters = [cluster("a", taints=["gpu:NoSchedule"])]
    off = karmada_profile(built_in().selected(["*", "-TaintToleration"]))
    assert outcome(schedule(clusters, asked())) == "NoFit"
    assert outcome(schedule(clusters, asked(), off)) == {"a": 1}


def test_without_any_plugin_every_cluster_fits():
    clusters = [cluster("a", serves=[]), cluster("b", taints=["gpu:NoExecute"])]
    assert outcome(schedule(clusters, asked(), karmada_profile(Plugins((), ())))) == {"a": 1, "b": 1}


@pytest.fixture
def install(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    modules = []

    def write(distribution, entry_points, source=""):
        module = distribution.replace("-", "_")
        modules.append(module)
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(entry_points)
        (tmp_path / f"{module}.py").write_text(source)

    yield write
    for module in modules:
        sys.modules.pop(module, None)


FILTER = """
from berthmaster.scheduling import Filter

class NeverMonday(Filter):
    name = "NeverMonday"

    def reason(self, context, cluster):
        return "is Monday" if cluster.name == "monday" else None

class Nameless(Filter):
    def reason(self, context, cluster): ...

class Dashed(NeverMonday):
    name = "-NeverMonday"

class Half(Filter):
    name = "Half"

class Locality(NeverMonday):
    name = "ClusterLocality"
"""
SCORE = """
from berthmaster.scheduling import Score

class Long(Score):
    name = "Long"

    def score(self, context, cluster):
        return len(cluster.name)
"""


def test_third_parties_add_filters_and_scores(install):
    install("weekdays", "[berthmaster.filters]\nmonday = weekdays:NeverMonday\n", FILTER)
    install("lengths", "[berthmaster.scores]\nlong = lengths:Long\n", SCORE)
    plugins = with_third_parties(built_in())
    assert plugins.names == [*EVERYTHING[:-1], "NeverMonday", "ClusterLocality", "Long"]
    decision = schedule([cluster("monday"), cluster("sunday")], asked(), karmada_profile(plugins))
    assert outcome(decision) == {"sunday": 1}
    assert decision.attempts[0].candidates.scores.tolist() == [6]


def test_without_third_party_plugins_nothing_is_added():
    assert with_third_parties(built_in()).names == EVERYTHING


@cases(
    ("entry_points", "problem"),
    {
        "a missing module": ("[berthmaster.filters]\nx = absent_module:X\n", "x .*cannot be loaded"),
        "a missing class": ("[berthmaster.filters]\nx = weekdays:Absent\n", "x .*cannot be loaded"),
        "a filter among the scores": ("[berthmaster.scores]\nx = weekdays:NeverMonday\n", "no subclass of .*Score"),
        "an attribute that does not exist": ("[berthmaster.filters]\nx = weekdays:FILTER\n", "cannot be loaded"),
        "not a class": ("[berthmaster.filters]\nx = weekdays:__name__\n", "no subclass of .*Filter"),
        "a filter without a name": ("[berthmaster.filters]\nx = weekdays:Nameless\n", "needs a name"),
        "a name that looks like a switch": ("[berthmaster.filters]\nx = weekdays:Dashed\n", "needs a name"),
        "a filter without a reason method": ("[berthmaster.filters]\nx = weekdays:Half\n", "does not define reason"),
        "the name of a built-in plugin": (
            "[berthmaster.filters]\nx = weekdays:Locality\n",
            "two plugins named ClusterLocality",
        ),
        "the same plugin twice": (
            "[berthmaster.filters]\nx = weekdays:NeverMonday\ny = weekdays:NeverMonday\n",
            "two plugins named NeverMonday",
        ),
    },
)
def test_an_invalid_third_party_plugin_is_an_error_that_names_it(install, entry_points, problem):
    install("weekdays", entry_points, FILTER)
    with pytest.raises(PluginError, match=problem):
        with_third_parties(built_in())
