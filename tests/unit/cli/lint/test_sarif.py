"""SARIF 2.1.0: the facts of its schema that code scanning services rely on."""

import json
import re
from urllib.parse import unquote, urlsplit

import pytest
from click.testing import CliRunner

from berthmaster_cli.lint.command import command
from berthmaster_cli.lint.sarif import uri

BAD = """\
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: bad}
spec:
  preemption: Always
  resourceSelectors:
  - {apiVersion: apps/v1, kind: Deployment}
  - {apiVersion: apps/v1, kind: Deployment}
  placment: {}
"""


@pytest.fixture
def sarif(tmp_path, monkeypatch):
    def call(text, *arguments, name="p.yaml"):
        monkeypatch.chdir(tmp_path)
        (tmp_path / name).write_text(text)
        return json.loads(CliRunner().invoke(command, [name, "-o", "sarif", *arguments]).stdout)

    return call


def test_the_log_has_the_properties_that_the_schema_requires(sarif):
    log = sarif(BAD, "--docs-url", "https://example.org/rules/{rule}.md")
    assert log["version"] == "2.1.0"
    assert log.keys() == {"$schema", "version", "runs"}
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"]
    assert run["columnKind"] in {"utf16CodeUnits", "unicodeCodePoints"}
    assert all(type(each["executionSuccessful"]) is bool for each in run["invocations"])
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(set(ids)) == len(ids)
    for rule in driver["rules"]:
        assert rule["shortDescription"]["text"]
        assert rule["help"]["text"]
        assert rule["helpUri"] == f"https://example.org/rules/{rule['id']}.md"
    assert len(run["results"]) >= 3
    for result in run["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in {"none", "note", "warning", "error"}
        assert result["message"]["text"]
        (location,) = result["locations"]
        place = location["physicalLocation"]
        assert place["region"]["startLine"] >= 1
        assert place["artifactLocation"]["uri"] == "p.yaml"
        assert all(isinstance(each, str) and each for each in result["partialFingerprints"].values())


def fingerprints(log):
    return [each["partialFingerprints"]["berthmasterFinding/v1"] for each in log["runs"][0]["results"]]


def test_fingerprints_are_unique_and_survive_lines_that_move(sarif):
    before = fingerprints(sarif(BAD))
    assert len(set(before)) == len(before)
    assert fingerprints(sarif(f"# a comment\n\n{BAD}")) == before


def test_skipped_documents_are_notifications(sarif):
    (run,) = sarif("a: 1\n")["runs"]
    ((note,),) = [each["toolExecutionNotifications"] for each in run["invocations"]]
    assert (note["level"], run["results"]) == ("note", [])
    assert note["message"]["text"].startswith("skipped: ")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("a/b.yaml", "a/b.yaml", id="a relative path"),
        pytest.param("/a/b.yaml", "file:///a/b.yaml", id="an absolute path"),
        pytest.param("a b/ü#?.yaml", "a%20b/%C3%BC%23%3F.yaml", id="characters with a meaning in URIs"),
        pytest.param("my:file.yaml", "my%3Afile.yaml", id="a colon in the first part"),
        pytest.param("<stdin>", "%3Cstdin%3E", id="standard input"),
        pytest.param("../x.yaml", "../x.yaml", id="a parent folder"),
    ],
)
def test_uris_of_files(source, expected):
    given = uri(source)
    assert given == expected
    assert re.fullmatch(r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+", given)
    assert unquote(urlsplit(given).path).endswith(source)


def test_an_address_without_the_place_of_the_rule_is_an_error():
    result = CliRunner().invoke(command, ["p.yaml", "--docs-url", "https://example.org/rules"])
    assert (result.exit_code, "has no {rule}" in result.output) == (2, True)
