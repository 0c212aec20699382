"""The example plugins, installed as their pyproject.toml says."""

import re
import shutil
import subprocess
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from builders import cluster
from decisions import asked, outcome, schedule, spread
from msgspec.structs import replace
from tables import cases

from berthmaster.scheduling.karmada.profile import built_in, karmada_profile
from berthmaster.scheduling.profile import Plugins, Profile, with_third_parties

EXAMPLE = Path(__file__).parents[3] / "examples" / "plugins"


@pytest.fixture
def plugins(tmp_path, monkeypatch):
    return installed(EXAMPLE, tmp_path, monkeypatch)


def installed(folder, tmp_path, monkeypatch):
    """All plugins, with a distribution on the path as if it were installed."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    info = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(folder)
    return with_third_parties(built_in())


def at(plugins: Plugins, hour: int, minute: int = 0) -> Profile:
    window = next(plugin for plugin in plugins.filters if plugin.name == "MaintenanceWindow")
    window.now = lambda: datetime(2026, 1, 1, hour, minute, tzinfo=UTC)
    return karmada_profile(plugins)


def with_window(name, window):
    plain = cluster(name)
    return replace(plain, metadata=replace(plain.metadata, annotations={"example.com/maintenance-window": window}))


def test_a_copy_by_the_commands_of_the_page_is_a_distribution_of_its_own(tmp_path, monkeypatch):
    page = (EXAMPLE.parents[1] / "docs" / "plugins.md").read_text()
    (commands,) = re.findall(
        r"^   ```sh\n((?:   .*\n)*?)   ```", page.partition("1. Copy the example")[2], re.MULTILINE
    )[:1]
    shutil.copytree(EXAMPLE, tmp_path / "examples" / "plugins")
    subprocess.run(["sh", "-euc", commands], cwd=tmp_path, check=True, timeout=60)  # noqa: S603, S607 - the page's
    found = installed(tmp_path / "my-plugins", tmp_path, monkeypatch)
    ours = [each for each in (*found.filters, *found.scores) if type(each).__module__.startswith("my_plugins.")]
    assert {each.name for each in ours} == {"MaintenanceWindow", "LowCarbon"}


def test_both_plugins_are_loaded(plugins):
    assert {"MaintenanceWindow", "LowCarbon"} < set(plugins.names)


@cases(
    ("window", "hour", "minute", "fits"),
    {
        "inside the window": ("09:00-17:00", 12, 0, True),
        "when the window opens": ("09:00-17:00", 9, 0, True),
        "when the window closes": ("09:00-17:00", 17, 0, False),
        "before the window": ("09:00-17:00", 8, 59, False),
        "before midnight in a window across midnight": ("22:00-04:00", 23, 30, True),
        "after midnight in a window across midnight": ("22:00-04:00", 3, 59, True),
        "outside a window across midnight": ("22:00-04:00", 12, 0, False),
        "an invalid window": ("nights", 23, 0, False),
        "without a window": ("", 12, 0, False),
    },
)
def test_maintenance_runs_where_the_window_is_open(plugins, window, hour, minute, fits):
    decision = schedule([with_window("a", window)], asked(namespace="maintenance"), at(plugins, hour, minute))
    assert outcome(decision) == ({"a": 1} if fits else "NoFit")


def test_other_workloads_ignore_the_window(plugins):
    assert outcome(schedule([with_window("a", "")], asked(), at(plugins, 12))) == {"a": 1}


def test_assigned_workloads_stay_when_the_window_closes(plugins):
    clusters = [with_window("a", "22:00-04:00"), with_window("b", "22:00-04:00")]
    decision = schedule(clusters, asked(namespace="maintenance", clusters={"a": 1}), at(plugins, 12))
    assert outcome(decision) == {"a": 1}


def emitting(name, grams, **fields):
    return cluster(name, labels={"example.com/carbon-intensity": grams}, **fields)


@cases(
    ("grams", "scores"),
    {
        "the fewest grams are best": (["85", "385", "235"], [100, 0, 50]),
        "an invalid label counts as 1000 grams": (["85", "dirty", "-1"], [100, 0, 0]),
        "more than 1000 grams count as 1000": (["900", "5000"], [100, 0]),
        "all the same": (["85", "85"], [0, 0]),
        "one cluster": (["85"], [0]),
    },
)
def test_a_cluster_with_clean_electricity_scores_high(plugins, grams, scores):
    clusters = [emitting(f"c{number}", text) for number, text in enumerate(grams)]
    decision = schedule(clusters, asked(), karmada_profile(plugins))
    assert decision.attempts[0].candidates.scores.tolist() == scores


def test_the_cleaner_cluster_is_selected_unless_the_plugin_is_disabled(plugins):
    clusters = [emitting("clean", "85", pods=5), emitting("dirty", "600", pods=99)]
    one = asked(spread=[spread("cluster", 1, 1)])
    assert outcome(schedule(clusters, one, karmada_profile(plugins))) == {"clean": 1}
    assert outcome(schedule(clusters, one, karmada_profile(plugins.selected(["*", "-LowCarbon"])))) == {"dirty": 1}
