"""What is known about a control plane: its version, the release of its definitions, new fields."""

import json
import logging
from typing import Any

import pytest
from kube_in_memory import ScriptedClient

from berthmaster.controllers.metrics import TARGET, TARGET_UNKNOWN_FIELDS
from berthmaster.controllers.target import KarmadaTarget, read_target, release_of, report_target

V1_15 = ("spec.components", "spec.placement.clusterAffinity", "spec.placement.clusterAffinities.affinityName")
V1_17 = (*V1_15, "spec.workloadAffinityGroups", "spec.placement.workloadAffinity.affinity.groupByLabelKey")
V1_18 = (*V1_17, "spec.placement.clusterAffinities.overflowAffinities.affinityName")
NEWEST = (*V1_18, "spec.clusters.components")


def schema(*paths: str) -> dict[str, Any]:
    """A schema with these fields. ``clusterAffinities`` and ``clusters`` are lists."""
    root: dict[str, Any] = {}
    for path in paths:
        node = root
        for name in path.split("."):
            node = node.setdefault("properties", {}).setdefault(name, {})
            if name in {"clusterAffinities", "overflowAffinities", "clusters"}:
                node = node.setdefault("items", {})
    return root


def answers(*paths: str) -> dict[str, Any]:
    kind = {"group": "work.karmada.io", "version": "v1alpha2", "kind": "ResourceBinding"}
    binding = {**schema(*paths), "x-kubernetes-group-version-kind": [kind]}
    return {
        "GET /version": {"gitVersion": "v1.36.3"},
        "GET /openapi/v3/apis/work.karmada.io/v1alpha2": {"components": {"schemas": {"b": binding}}},
    }


@pytest.mark.parametrize(
    ("paths", "release"),
    [
        pytest.param(("spec.placement",), "older than 1.15", id="before components"),
        pytest.param(V1_15, "1.15 or 1.16", id="components"),
        pytest.param(V1_17, "1.17", id="workload affinity"),
        pytest.param(V1_18, "1.18 or 1.19.0-rc.0", id="overflow affinities"),
        pytest.param(NEWEST, "newer than 1.19.0-rc.0", id="components of assignments"),
    ],
)
def test_fields_of_bindings_show_the_release(paths, release):
    assert release_of(schema(*paths)) == release


def test_the_target_of_a_newer_karmada():
    found = read_target(
        ScriptedClient(
            answers(*NEWEST, "spec.placement.racks", "spec.placement.clusterAffinities.overflowAffinities.racks")
        )
    )
    assert found == KarmadaTarget(
        "v1.36.3",
        "newer than 1.19.0-rc.0",
        ("spec.placement.racks", "spec.placement.clusterAffinities.overflowAffinities.racks"),
    )


def test_a_schema_that_is_not_published():
    found = read_target(ScriptedClient({**answers(), "GET /openapi/v3/apis/work.karmada.io/v1alpha2": {}}))
    assert found == KarmadaTarget("v1.36.3", "unknown")


def test_the_report_sets_metrics_and_warns_about_unknown_fields(caplog):
    with caplog.at_level(logging.INFO, "berthmaster.controllers"):
        report_target(ScriptedClient(answers(*V1_18, "spec.placement.racks")))
    [shown], [unknown] = (metric.collect()[0].samples for metric in (TARGET, TARGET_UNKNOWN_FIELDS))
    assert (shown.labels["karmada"], shown.value, unknown.value) == ("1.18 or 1.19.0-rc.0", 1, 1)
    assert [each.levelname for each in caplog.records] == ["INFO", "WARNING"]


def test_a_server_that_does_not_answer_is_logged(caplog):
    report_target(ScriptedClient({}))
    [record] = caplog.records
    assert "cannot be read" in record.getMessage()


def test_the_derived_fields_agree_with_the_releases_of_the_marks():
    """The marks tell releases apart as the fields of the matrix do."""
    from field_page import KARMADA  # noqa: PLC0415 - only this test needs the data

    for release, expected in (("1.16", "1.15 or 1.16"), ("1.17", "1.17"), ("1.18", "1.18 or 1.19.0-rc.0"),
                              ("1.19-rc.0", "1.18 or 1.19.0-rc.0"), ("master", "newer than 1.19.0-rc.0")):  # fmt: skip
        fields = [each for each, releases in KARMADA["fields"].items() if release in releases]
        paths = [each.replace("[]", "").replace("{}", "") for each in fields]
        paths = [f"spec.{each}" for each in paths if each.startswith("placement.")] + [
            each.removeprefix("binding.") for each in paths if each.startswith("binding.spec.")
        ]
        assert release_of(json.loads(json.dumps(schema(*paths)))) == expected
