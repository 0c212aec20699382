"""Which documents lint checks, which it skips, and what it reports about files that it cannot read."""

import json

import pytest
from click.testing import CliRunner
from tables import cases, data

from berthmaster_cli.lint.command import command

FILES = data("lint/files")
POLICY = FILES["policy"]
UNKNOWN_FIELD = "unknown-field"


@pytest.fixture
def report(tmp_path, monkeypatch):
    """A function that writes files, checks them and returns the exit code and the JSON output."""

    def call(files, *arguments):
        monkeypatch.chdir(tmp_path)
        for name, content in files.items():
            (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        result = CliRunner().invoke(command, [*files, "-o", "json", *arguments])
        assert result.exit_code in (0, 1, 2), result.output
        return result.exit_code, json.loads(result.stdout)

    return call


SKIPPED = {name: each.values() for name, each in FILES["skipped"].items()}


@cases(("text", "line", "reason"), SKIPPED)
def test_what_is_no_object_is_skipped_with_a_note_or_refused_with_strict_files(report, text, line, reason):
    code, given = report({"file.yaml": text})
    (note,) = given["skipped"]
    assert (code, note["line"], given["findings"]) == (0, line, [])
    assert reason in note["reason"]
    code, given = report({"file.yaml": text}, "--strict-files")
    (finding,) = given["findings"]
    assert (code, finding["rule"], finding["line"], given["skipped"]) == (2, "unreadable", line, [])
    assert reason in finding["message"]


def test_braces_in_an_annotation_are_no_template(report):
    text = POLICY.replace("namespace: shop}", "namespace: shop, annotations: {note: '{{x}}'}}")
    _, given = report({"file.yaml": text})
    assert [each["rule"] for each in given["findings"]] == [UNKNOWN_FIELD]


BROKEN = {
    **{name: each.values() for name, each in FILES["broken"].items()},
    "text that is not UTF-8": (b"a: \xff\xfe\n", 1),
    "nesting beyond the limit": ('{"a":' * 200 + "1" + "}" * 200, 1),
}


@cases(("text", "line"), BROKEN)
def test_other_files_are_checked_after_a_broken_one(report, text, line):
    code, given = report({"a.yaml": text, "b.yaml": POLICY})
    assert code == 2
    assert [(each["source"], each["rule"]) for each in given["findings"]] == [
        ("a.yaml", "unreadable"),
        ("b.yaml", UNKNOWN_FIELD),
    ]
    assert given["findings"][0]["line"] == line


def test_a_message_does_not_repeat_the_line_of_its_finding(report):
    _, given = report({"a.yaml": f"{POLICY}\nkind: PropagationPolicy\n"})
    (finding,) = given["findings"]
    assert finding["message"].startswith("column 1: duplicate key 'kind'")


def test_documents_before_and_after_a_broken_one_are_checked(report):
    # Only what follows a syntax error in the same file is lost.
    text = f"{POLICY}---\napiVersion: v1\nkind: ConfigMap\nmetadata: x\n---\n{POLICY.replace('web', 'db')}"
    _, given = report({"a.yaml": text})
    assert [(each["rule"], each["document"]) for each in given["findings"]] == [
        (UNKNOWN_FIELD, 1),
        ("unreadable", 2),
        (UNKNOWN_FIELD, 3),
    ]


def test_a_file_that_does_not_exist_does_not_end_the_run(report):
    code, given = report({"b.yaml": POLICY}, "missing.yaml")
    assert code == 2
    assert [each["source"] for each in given["findings"]] == ["b.yaml", "missing.yaml"]


def test_items_of_a_typed_list_have_lines(report):
    items = "".join(f"  {line}\n" for line in POLICY.splitlines()[2:])
    text = f"apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicyList\nitems:\n-{items[1:]}"
    _, given = report({"a.yaml": text})
    (finding,) = given["findings"]
    assert (finding["path"], finding["line"]) == ("items[0].spec.placment", 7)


def test_a_file_is_read_once(report):
    _, given = report({"a.yaml": POLICY}, "a.yaml")
    assert given["summary"]["documents"] == 1
