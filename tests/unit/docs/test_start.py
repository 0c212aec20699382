"""The first fleet file of docs/start.md does what the page says."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from berthmaster_cli.main import main

PAGE = (Path(__file__).parents[3] / "docs" / "start.md").read_text()


@pytest.fixture(autouse=True)
def beside_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (text,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "fleet.yaml").write_text(text)


def run(line):
    assert f"`berthmaster {line}`" in PAGE
    result = CliRunner().invoke(main, line.split())
    assert result.exit_code == 0, result.output
    return result.output


def test_the_workload_is_at_home_and_moves_to_its_backup():
    assert "home    eu-1=2" in run("simulate -f fleet.yaml")
    assert "home → backup" in run("simulate -f fleet.yaml --down eu-1 --failover=on")


def test_the_test_that_the_command_writes_passes():
    run("test --generate tests.yaml -f fleet.yaml --failover=on")
    assert "1 test: 1 passed, 0 failed" in run("test tests.yaml")
