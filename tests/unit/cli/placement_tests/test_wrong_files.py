"""Each wrong file of a test is one line with the file, the line, the field, the value and the remedy."""

import pytest
from tables import data

WRONG = data("wrong_placement_tests")


def problems(output):
    return [each.removeprefix("tests.yaml:") for each in output.splitlines() if each.startswith("tests.yaml:")]


@pytest.mark.parametrize("row", WRONG.values(), ids=WRONG)
def test_a_wrong_file_is_one_line(tested, row):
    result = tested(row["file"], head="")
    assert problems(result.output) == [row["problem"]]
    assert result.exit_code == 2


def test_there_are_many_wrong_files():
    assert len(WRONG) >= 40


def test_all_problems_of_all_files_are_printed(tested):
    wrong = "fleet: fleet\nexpect:\n- {moves: 0, colour: red}\n- {workload: deploy/web, clustres: [eu-1]}\n"
    result = tested(wrong)
    assert [each.split(": ")[2] for each in problems(result.output)] == ["expect[0].colour", "expect[1].clustres"]


def test_tests_beside_a_wrong_file_run(tested, tmp_path):
    (tmp_path / "wrong.yaml").write_text(
        "apiVersion: test.berthmaster.io/v1alpha1\nkind: PlacementTest\nmetadata: {}\n"
    )
    result = tested("fleet: fleet\nexpect: [{moves: 0}]\n", "wrong.yaml")
    assert "PASS  a test" in result.output
    assert result.exit_code == 2


def test_files_without_tests_are_an_error(tested):
    result = tested("", head="apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    assert "there is no PlacementTest in tests.yaml" in result.output
    assert result.exit_code == 2
