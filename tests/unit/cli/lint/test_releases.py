"""Policies for one release of Karmada."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from fleet_dump import stored_policy
from tables import cases

from berthmaster.model.errors import InputError
from berthmaster.model.releases import FIELDS_SINCE, OLDEST, KarmadaReleases, text_of
from berthmaster_cli.main import main

SUPPORTED = json.loads((Path(__file__).parents[3] / "compatibility" / "karmada.json").read_text())
NEAR = {"affinityName": "b", "clusterNames": ["y"]}
OVERFLOW = {
    "clusterAffinities": [{"affinityName": "a", "clusterNames": ["x"], "overflowAffinities": [NEAR]}],
    "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"},
}
AFFINITY = {"clusterAffinity": {"clusterNames": ["x"]}, "workloadAffinity": {"affinity": {"groupByLabelKey": "app"}}}
FORMER = {"application": {"decisionConditions": {"tolerationSeconds": 60}, "purgeMode": "Graciously"}}


def policy(placement=None, **spec):
    return stored_policy(to=[], new=True, placement=placement or {"clusterAffinity": {"clusterNames": ["x"]}}, **spec)


@cases(
    ("written", "release", "finding"),
    {
        "overflow affinities before 1.18": (
            policy(OVERFLOW),
            "1.17",
            "error: spec.placement.clusterAffinities[0].overflowAffinities: Karmada 1.17 does not have this field",
        ),
        "overflow affinities in 1.18": (policy(OVERFLOW), "v1.18.2", ""),
        "workload affinity before 1.17": (
            policy(AFFINITY),
            "1.16",
            "error: spec.placement.workloadAffinity: Karmada 1.16",
        ),
        "workload affinity in 1.17": (policy(AFFINITY), "1.17", ""),
        "a former purge mode before 1.19": (policy(failover=FORMER, propagateDeps=True), "1.18", ""),
        "a former purge mode since 1.19": (
            policy(failover=FORMER, propagateDeps=True),
            "1.19.0-rc.0",
            "error: spec.failover.application.purgeMode: 'Graciously': Karmada 1.19 has removed this value",
        ),
        "a former purge mode in any release": (
            policy(failover=FORMER, propagateDeps=True),
            "",
            "warning: spec.failover.application.purgeMode",
        ),
        "a new field in any release": (policy(OVERFLOW), "", ""),
    },
)
def test_what_lint_says_about_a_policy_for_a_release(tmp_path, written, release, finding):
    (tmp_path / "p.json").write_text(json.dumps(written))
    given = ["--karmada", release] if release else []
    found = CliRunner().invoke(main, ["lint", *given, str(tmp_path / "p.json")]).output
    if finding:
        assert finding in found
    else:
        assert "0 errors, 0 warnings" in found


@pytest.mark.parametrize("text", ["1.14", "newest", "", "1", "1.x"])
def test_another_text_is_no_supported_release(text):
    with pytest.raises(InputError, match="is no supported release of Karmada; accepted are"):
        KarmadaReleases.parse(text)


def test_the_fields_are_those_that_definitions_of_supported_releases_lack():
    releases = list(SUPPORTED["releases"])
    assert releases[0] == text_of(OLDEST)
    since = {".".join(path[1:]): text_of(release) for path, release in FIELDS_SINCE.items()}
    partial = {
        path.replace("[]", ""): found[0]
        for path, found in SUPPORTED["fields"].items()
        if path.startswith(("placement.", "policy.")) and found[0] != releases[0]
    }
    assert partial
    for path, first in partial.items():
        assert [release for field, release in since.items() if f"{path}.".startswith(f"{field}.")] == [first], path
